"""Log in with a restored database of Keystone and its restored keys; in the image of Keystone, beside `verify`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keystone.conf  # pyright: ignore[reportMissingImports]
from keystone import exception  # pyright: ignore[reportMissingImports]
from keystone.common import driver_hints, provider_api, sql  # pyright: ignore[reportMissingImports]
from keystone.server import backends  # pyright: ignore[reportMissingImports]
from oslo_db.exception import DBError  # pyright: ignore[reportMissingImports]

from .run import RunError, main, say, settings

_REQUEST_FILE, _ANSWER_FILE, _END_FILE = "identity.json", "identity.answer", "ended"
_PAUSE = 0.5
_CONFIG = """\
[database]
connection = mysql+pymysql://root@localhost/{schema}?unix_socket={socket}
[token]
provider = fernet
[fernet_tokens]
key_repository = {keys}/fernet
[fernet_receipts]
key_repository = {keys}/fernet
[credential]
key_repository = {keys}/credential
[cache]
enabled = false
"""


def check(config: Path) -> dict[str, Any]:
    """Wait for the database that `verify` serves, and tell it in a file what Keystone finds. Return nothing: `verify`
    has the result. Raise RunError if Keystone cannot use what was restored.
    """
    folder = Path(settings(config)["folder"])
    question = await_question(folder)
    if question is None:
        return {}
    answer: Mapping[str, Any] = {"error": "its program failed; see the log of the container 'identity'"}
    try:
        answer = identity(question, folder)
    except RunError as error:
        answer = {"error": str(error)}
    # Keystone ends its program over keys that are missing.
    except (exception.Error, DBError, SystemExit) as error:
        answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    finally:
        fresh = folder / f"{_ANSWER_FILE}.new"
        fresh.write_text(json.dumps(answer), encoding="utf-8")
        fresh.rename(folder / _ANSWER_FILE)
    if error := answer.get("error"):
        raise RunError(f"Keystone cannot use the restored database and keys: {error}")
    return {}


def await_question(folder: Path) -> Mapping[str, str] | None:
    """Return the `schema`, `socket` and `keys` that `verify` tells once its server runs; None if it ends before."""
    while not (folder / _END_FILE).exists():
        if (folder / _REQUEST_FILE).exists():
            return dict(json.loads((folder / _REQUEST_FILE).read_text(encoding="utf-8")))
        time.sleep(_PAUSE)
    return None


def identity(question: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return the numbers of `users`, `projects` and `credentials`, after a token was issued and validated, and
    credentials were decrypted: some, if users spoiled others. Raise what Keystone raises, and RunError.
    """
    # The image has no name for the user of MariaDB, and a client of its asks for one.
    os.environ.setdefault("LOGNAME", "keystone")
    path = folder / "keystone.conf"
    path.write_text(_CONFIG.format(**question), encoding="utf-8")
    keystone.conf.configure()
    keystone.conf.CONF([], project="keystone", default_config_files=[str(path)])
    sql.initialize()
    backends.load_backends()
    providers: Any = provider_api.ProviderAPIs
    roles = providers.assignment_api.list_role_assignments()
    assignments = [each for each in roles if each.get("user_id") and each.get("project_id")]
    if not any(logs_in(providers, each["user_id"], each["project_id"]) for each in assignments):
        raise RunError("no enabled user of the database has a role in a project")
    # Keystone itself would read what is in them, too, which users write.
    credentials = providers.credential_api.driver.list_credentials(driver_hints.Hints())
    unreadable = sum(not is_readable(providers, each["encrypted_blob"]) for each in credentials)
    # A user may write some text in the place of their own encrypted credential.
    if credentials and unreadable == len(credentials):
        text = "stored credentials are encrypted with a key that the backup does not have"
        raise RunError(f"{text}; put it back into the Secret whose name ends in -credential-keys")
    if unreadable:
        say(f"{unreadable} of {len(credentials)} credentials cannot be decrypted with the keys of the backup")
    return {
        "users": len(providers.identity_api.list_users(domain_scope="default")),
        "projects": len(providers.resource_api.list_projects()),
        "credentials": len(credentials),
    }


def is_readable(providers: Any, encrypted: Any) -> bool:
    """Return True if a key of the backup decrypts a credential."""
    try:
        providers.credential_provider_api.decrypt(encrypted)
    except exception.CredentialEncryptionError:
        return False
    return True


def logs_in(providers: Any, user_id: str, project_id: str) -> bool:
    """Return True if a token was issued and validated; False for a user that may not log in, or that an LDAP has."""
    try:
        if not providers.identity_api.get_user(user_id)["enabled"]:
            return False
        token = providers.token_provider_api.issue_token(user_id, ["password"], project_id=project_id)
        providers.token_provider_api.validate_token(token.id)
    except (exception.NotFound, exception.Unauthorized):
        # Also of a project or domain that is disabled.
        return False
    return True


if __name__ == "__main__":
    main(check)
