"""The account by which backups read a server; the server's pods make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import kube, parts
from ...agents.mariadb.role import READER
from ...plan import Context
from .model import MariaDBSpec

SCHEMA = "openstack_operator"
"""The one schema in which the account may write."""
PROGRAMS = ("mariadb/root_options.sh", "mariadb/backup_account.sh")
_FOLDER, _KEY = "/etc/mysql/backup-account", "password"


@dataclass(frozen=True, kw_only=True)
class BackupAccount:
    """The account, and the Secret `<owner>-backup` with its password."""

    credentials: parts.Credentials
    mount: kube.Mount
    env: dict[str, Any]
    """Variables of its program."""

    @property
    def published(self) -> dict[str, str]:
        """Part of the contract: the Secret, with the keys `user` and `password`."""
        return {"backupSecret": self.credentials.secret}


def backup_account(ctx: Context[MariaDBSpec], certificate: parts.Certified) -> BackupAccount:
    """Return the account. It accepts no connection without TLS where the server accepts none."""
    creds = parts.credentials(ctx, _KEY, suffix="backup", extra_values={"user": READER})
    return BackupAccount(
        credentials=creds,
        mount=kube.folder("backup-account", creds.secret, _FOLDER),
        env={
            "BACKUP_USER": READER,
            "BACKUP_SCHEMA": SCHEMA,
            "BACKUP_PASSWORD_FILE": f"{_FOLDER}/{_KEY}",
            "BACKUP_TLS": "SSL" if certificate.required else "NONE",
        },
    )
