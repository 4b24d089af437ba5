"""Reasons for a server's refusal, in the operator's own words: the author of a resource that names a server could
otherwise read the answers of addresses that only the operator reaches.
"""

from __future__ import annotations

from collections.abc import Mapping

from pymysql.constants import CR, ER

_PHRASES: Mapping[str, Mapping[bytes, str]] = {
    "Keystone": {
        b"The password does not match the requirements": "the password breaks Keystone's rules "
        "([security_compliance]); set another one in its Secret",
        b"The new password cannot be identical to a previous password": "the user had this password before; "
        "set another one in its Secret",
    },
    "RabbitMQ": {
        b"User can only log in via localhost": "the broker admits this administrator from localhost only; "
        "set another user in its Secret",
        b"Not administrator user": (
            "the user lacks the administrator tag; run `rabbitmqctl set_user_tags USER administrator`"
        ),
        b"vhost limit of": "the broker has reached its limit of virtual hosts; raise vhost_max",
        b"minimum required password length": "the password is too short for the broker's credential_validator; "
        "set a longer one in its Secret",
        b"does not match the validator regular expression": "the password does not match the broker's "
        "credential_validator; set another one in its Secret",
    },
    "Cinder": {
        b"volume type is still in use": "volumes have this type; delete or retype them",
        b"encryption specs. Volume type in use": "the encryption of a type with volumes cannot change; "
        "undo the change, and create another type for new volumes",
    },
}
"""By server: what its program writes into refusals, and what stands in a condition where it does."""

_STATUSES: Mapping[int, str] = {
    400: "it does not accept a value; its log says which",
    401: "it does not accept the administrator's login; check the user and password in its Secret",
    403: "the login lacks administrator rights; grant them",
    405: "this address serves another API; check the address",
    409: "the object exists already, or is in use",
    413: "a limit or quota is reached; raise it, or delete unused objects",
    422: "it does not accept a value; its log says which",
    429: "it has too many requests; the operator tries again",
    500: "it failed; see its log",
    502: "its proxy cannot reach it",
    503: "it cannot answer now",
    504: "its proxy cannot reach it",
}

_SQL: Mapping[int, str] = {
    CR.CR_SERVER_LOST: "the connection broke off",
    CR.CR_SERVER_GONE_ERROR: "the connection broke off",
    CR.CR_SSL_CONNECTION_ERROR: (
        "it offers no TLS, but its Secret has a ca.crt; enable TLS on the server, or remove ca.crt"
    ),
    ER.ACCESS_DENIED_ERROR: "it does not accept the administrator's login; check the user and password in its Secret",
    1698: "this user cannot log in with a password; name an administrator with a password",
    ER.DBACCESS_DENIED_ERROR: "the administrator lacks privileges on this "
    "schema; run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    ER.SPECIFIC_ACCESS_DENIED_ERROR: "the administrator lacks a privilege; "
    "run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    ER.TABLEACCESS_DENIED_ERROR: "the administrator may not read a table of the server; "
    "run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    ER.CANT_CREATE_USER_WITH_GRANT: "the administrator may not grant privileges; "
    "run GRANT ALL PRIVILEGES ON *.* TO USER WITH GRANT OPTION",
    1819: "the password breaks the server's rules; set another one in its Secret",
    ER.DB_CREATE_EXISTS: "the schema exists already",
    ER.CANNOT_USER: "the account exists already, or was deleted",
    ER.BAD_DB_ERROR: "the schema does not exist",
    ER.NO_SUCH_TABLE: "it is not MariaDB 10.4 or later",
    ER.PARSE_ERROR: "it does not understand the statement; it is not MariaDB 10.4 or later",
    ER.UNKNOWN_CHARACTER_SET: "the server lacks this character set; choose another one",
    ER.UNKNOWN_COLLATION: "the server lacks this collation; choose another one",
    ER.COLLATION_CHARSET_MISMATCH: "the collation belongs to another character set; choose another one",
    ER.TOO_LONG_IDENT: "the name is too long; choose a shorter one",
    ER.UNKNOWN_COM_ERROR: "this member of the cluster is not ready",
    ER.OPTION_PREVENTS_STATEMENT: "it is read only",
    1836: "it is read only",
    ER.CON_COUNT_ERROR: "it has too many connections; raise max_connections",
    ER.HOST_IS_BLOCKED: "it blocks the operator's address after errors; run FLUSH HOSTS",
    ER.HOST_NOT_PRIVILEGED: "it refuses connections from the operator's address; allow them",
    ER.DISK_FULL: "its disk is full",
    ER.RECORD_FILE_FULL: "its disk is full",
    ER.LOCK_WAIT_TIMEOUT: "another transaction holds a lock the statement needs",
    ER.LOCK_DEADLOCK: "another transaction holds a lock the statement needs",
    ER.SERVER_SHUTDOWN: "it is stopping",
}
"""By MariaDB's number of an error."""


def http_refusal(server: str, status: int, content: bytes) -> str:
    """Explain an answer of this server's API, without any of the server's own text."""
    phrases = _PHRASES.get(server, {})
    reason = next((sentence for phrase, sentence in phrases.items() if phrase in content), "")
    return reason or _STATUSES.get(
        status, ("it redirects to another address; set that one") if 300 <= status < 400 else ""
    )


def sql_refusal(code: int) -> str:
    """Explain an error of MariaDB; empty for one that has no sentence here."""
    return _SQL.get(code, "")
