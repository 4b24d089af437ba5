"""Reasons for a server's refusal, in the operator's own words: the author of a resource that names a server could
otherwise read the answers of addresses that only the operator reaches.
"""

from __future__ import annotations

from collections.abc import Mapping

from pymysql.constants import CR, ER

_PHRASES: Mapping[str, Mapping[bytes, str]] = {
    "Keystone": {
        b"The password does not match the requirements": "the password breaks Keystone's rules for passwords "
        "([security_compliance]); put another one into its Secret",
        b"The new password cannot be identical to a previous password": "the user has had this password before; put "
        "another one into its Secret",
    },
    "RabbitMQ": {
        b"User can only log in via localhost": "this administrator may log in on the broker's own machine only; put "
        "another one into its Secret",
        b"Not administrator user": "the user is no administrator; run `rabbitmqctl set_user_tags USER administrator`",
        b"vhost limit of": "the broker has as many virtual hosts as it may; raise its vhost_max",
        b"minimum required password length": "the password is too short for the broker's credential_validator; put a "
        "longer one into its Secret",
        b"does not match the validator regular expression": "the password does not match the broker's "
        "credential_validator; put another one into its Secret",
    },
    "Cinder": {
        b"volume type is still in use": "volumes have this type; delete them, or give them another one",
        b"encryption specs. Volume type in use": "volumes have this type, and only a type without volumes gets another "
        "encryption; undo the change, and create another type for new volumes",
    },
}
"""By server: what its program writes into refusals, and what stands in a condition where it does."""

_STATUSES: Mapping[int, str] = {
    400: "it does not accept a value; its log says which",
    401: "it does not accept the administrator's login; check the user and password in its Secret",
    403: "the administrator may not do this; give it the rights of one",
    405: "there is another API at this address; check the address",
    409: "it has that already, or something that is in use",
    413: "one of its limits is reached; raise it, or remove what nobody needs",
    422: "it does not accept a value; its log says which",
    429: "it has too many requests; it is asked again",
    500: "it failed; see its log",
    502: "what stands in front of it does not reach it",
    503: "it cannot answer now",
    504: "what stands in front of it does not reach it",
}

_SQL: Mapping[int, str] = {
    CR.CR_SERVER_LOST: "the connection broke off",
    CR.CR_SERVER_GONE_ERROR: "the connection broke off",
    CR.CR_SSL_CONNECTION_ERROR: "it offers no TLS, and its Secret has a ca.crt; turn TLS on there, or remove ca.crt",
    ER.ACCESS_DENIED_ERROR: "it does not accept the administrator's login; check the user and password in its Secret",
    1698: "it does not accept a password from this user; name an administrator who has one",
    ER.DBACCESS_DENIED_ERROR: "the administrator has no rights on this schema; "
    "run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    ER.SPECIFIC_ACCESS_DENIED_ERROR: "the administrator lacks a privilege; "
    "run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    ER.TABLEACCESS_DENIED_ERROR: "the administrator may not read a table of the server; "
    "run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    ER.CANT_CREATE_USER_WITH_GRANT: "the administrator may not grant privileges; "
    "run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    1819: "the password breaks the server's rules for passwords; put another one into its Secret",
    ER.DB_CREATE_EXISTS: "the schema exists already",
    ER.CANNOT_USER: "the account exists already, or is not there any more",
    ER.BAD_DB_ERROR: "the schema does not exist",
    ER.NO_SUCH_TABLE: "it is no MariaDB of 10.4 or later",
    ER.PARSE_ERROR: "it does not understand the statement; it is no MariaDB of 10.4 or later",
    ER.UNKNOWN_CHARACTER_SET: "it has no such character set; choose another one",
    ER.UNKNOWN_COLLATION: "it has no such collation; choose another one",
    ER.COLLATION_CHARSET_MISMATCH: "the collation belongs to another character set; choose another one",
    ER.TOO_LONG_IDENT: "the name is too long; choose a shorter one",
    ER.UNKNOWN_COM_ERROR: "this member of the cluster is not ready",
    ER.OPTION_PREVENTS_STATEMENT: "it is read only",
    1836: "it is read only",
    ER.CON_COUNT_ERROR: "it has too many connections; raise max_connections",
    ER.HOST_IS_BLOCKED: "it blocks the operator's address after errors; run FLUSH HOSTS",
    ER.HOST_NOT_PRIVILEGED: "it takes no connections from the operator's address; allow them",
    ER.DISK_FULL: "its disk is full",
    ER.RECORD_FILE_FULL: "its disk is full",
    ER.LOCK_WAIT_TIMEOUT: "others hold what the statement needs",
    ER.LOCK_DEADLOCK: "others hold what the statement needs",
    ER.SERVER_SHUTDOWN: "it is stopping",
}
"""By MariaDB's number of an error."""


def http_refusal(server: str, status: int, content: bytes) -> str:
    """Explain an answer of this server's API, without any of the server's own text."""
    phrases = _PHRASES.get(server, {})
    reason = next((sentence for phrase, sentence in phrases.items() if phrase in content), "")
    return reason or _STATUSES.get(status, "it sends to another address; name that one" if 300 <= status < 400 else "")


def sql_refusal(code: int) -> str:
    """Explain an error of MariaDB; empty for one that has no sentence here."""
    return _SQL.get(code, "")
