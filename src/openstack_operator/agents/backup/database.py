"""Back up one database while it serves: mariadb-backup writes a stream of its files into the repository."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .repository import open_repository, write_private
from .run import RunError, main, settings

_INFO = ("mariadb_backup_info", "xtrabackup_info")
"""Names of what mariadb-backup says of a backup: that of version 11, and an older one."""


def back_up(config: Path) -> dict[str, Any]:
    """Store one database. Return `snapshot`, `bytes` of the stream, `stored` bytes that the repository did not have,
    `gtid` of the last change (empty without a binary log), `server` with its version, and `seconds`. Raise RunError:
    there is no snapshot then.
    """
    run, began = settings(config), time.monotonic()
    name = run["database"]
    with open_repository(config) as repository:
        repository.create()
        repository.unlock()
        login, info = repository.work / "login.cnf", repository.work / "info"
        write_private(login, login_options(run, config))
        summary = repository.store(
            ["kind=database", f"backup={run['backup']}", f"database={name}"],
            run["cloud"],
            "--stdin-from-command",
            f"--stdin-filename={name}.mbstream",
            "--",
            "mariadb-backup",
            # It must be the first one. The password is in that file: other users may read command lines.
            f"--defaults-file={login}",
            "--backup",
            "--stream=mbstream",
            f"--datadir={run['datadir']}",
            f"--target-dir={repository.work / 'target'}",
            f"--extra-lsndir={info}",
        )
        return database_result(summary, info, began)


def database_result(summary: Mapping[str, Any], info: Path, began: float) -> dict[str, Any]:
    """Return what `back_up` returns, by restic's summary, the folder with what mariadb-backup says, and the time at
    which the run began, in seconds of `time.monotonic`. Raise RunError.
    """
    gtid, server = position(info)
    return {
        "snapshot": summary["snapshot_id"],
        "bytes": summary["total_bytes_processed"],
        "stored": summary.get("data_added_packed", summary["data_added"]),
        "gtid": gtid,
        "server": server,
        "seconds": round(time.monotonic() - began, 1),
    }


def login_options(
    run: Mapping[str, Any], config: Path, group: str = "mariadb-backup", credentials: str = "credentials"
) -> str:
    """Return the file of options by which programs that read a group log in, with the password in the folder
    `credentials`. Raise RunError without one.
    """
    try:
        password = (config / credentials / "password").read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        raise RunError(f"the password of the database cannot be read: {error}") from None
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    tls = ["ssl=1", f"ssl-ca={config}/trust/ca.crt", "ssl-verify-server-cert=1"] if run["tls"] else ["ssl=0"]
    account = [f"host={run['host']}", f"port={run['port']}", f"user={run['user']}", f'password="{quoted}"']
    return "\n".join([f"[{group}]", *account, *tls])


def position(folder: Path) -> tuple[str, str]:
    """Return the identifier of the last change, empty if none is logged, and the version of the server, from what
    mariadb-backup left in a folder. Raise RunError if it left nothing.
    """
    for path in (folder / name for name in _INFO):
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            gtid = re.search(r"GTID of the last change '([^']*)'", text)
            server = re.search(r"^server_version = (\S+?-MariaDB|\S+)", text, re.MULTILINE)
            return gtid[1] if gtid else "", server[1] if server else ""
    raise RunError(
        "mariadb-backup did not say which version of the server it copied; use an image that fits the server"
    )


if __name__ == "__main__":
    main(back_up)
