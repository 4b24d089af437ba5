"""Repository of backups: restic, on S3 or in a folder."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .bucket import Bucket, DeletionRefusedError
from .run import Child, RunError, say

MIB = 1024 * 1024
_S3 = "s3:"
_NO_REPOSITORY, _LOCKED, _WRONG_PASSWORD = 10, 11, 12
"""Statuses of restic, from its version 0.17 on."""
_HAS_GAPS = 3
"""Status of `restic backup` that made a snapshot without files that it could not read."""
_REFUSALS = ("Access Denied", "AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId")
"""Parts of what servers of S3 answer to an account that they do not know, or that may not do this."""
_COMMAND_LINE = re.compile(r"subprocess (?P<name>\S+): (\[\d+\] )?(\d{4}-\S+ \S+ )?(?P<text>.*)")
"""Line of a command that restic runs; mariadb-backup begins its own with a thread and the time."""
_LOCK_WAIT = "30m"
"""Time for which restic waits for an exclusive lock, such as that of a clean-up."""
_KEY_PAUSES = (1, 5, 30, 60)
"""Seconds between tries to write a key."""
_NEW_TRIES = 20
"""Looks, one a second, at a repository that another program is creating."""


class Repository:
    """A repository, and a private folder of this run."""

    def __init__(self, folder: Path, work: Path) -> None:
        """`folder` has repository.json and credentials. Raise RunError if one of them is missing."""
        try:
            options: dict[str, Any] = json.loads((folder / "repository.json").read_text(encoding="utf-8"))
            self.url: str = options["url"]
            self._password = folder / "password"
            self.bucket = _bucket(folder, options) if self.url.startswith(_S3) else None
        except (OSError, ValueError, KeyError) as error:
            raise RunError(f"the settings of the repository are not complete: {error!r}") from None
        self.work = work
        self._options = _restic_options(self.bucket, options)

    def _env(self) -> dict[str, str]:
        variables = {
            "RESTIC_PASSWORD_FILE": str(self._password),
            "RESTIC_CACHE_DIR": os.environ.get("RESTIC_CACHE_DIR", "/tmp/cache"),  # noqa: S108  (an emptyDir)
            "HOME": str(self.work),
        }
        if self.bucket:
            # Not in the environment, which programs that restic starts have, too.
            path = self.work / "credentials"
            lines = (
                "[default]",
                f"aws_access_key_id={self.bucket.access_key}",
                f"aws_secret_access_key={self.bucket.secret_key}",
            )
            write_private(path, "\n".join(lines))
            variables["AWS_SHARED_CREDENTIALS_FILE"] = str(path)
        return {**os.environ, **variables}

    def master_key(self) -> bytes:
        """Return the key that the password opens, and that no change of the password changes. Raise RunError."""
        try:
            return base64.b64decode(json.loads(self.ask("cat", "masterkey", "--no-lock", "--quiet"))["encrypt"])
        except (ValueError, LookupError):
            raise RunError(f"restic does not say the key of the repository {self.url}") from None

    def check_certificate(self) -> None:
        """Raise RunError if the server of a bucket has a certificate that is not trusted."""
        if self.bucket:
            self.bucket.check_certificate()

    def restic(self, *words: str, cwd: Path | None = None, url: str = "", stdin: int | None = None) -> Child:
        """Start restic."""
        options = [f"--repo={url or self.url}", "--json", *self._options]
        return Child("restic", *options, *words, env=self._env(), cwd=cwd, stdin=stdin)

    def ask(self, *words: str, cwd: Path | None = None) -> bytes:
        """Return the output of restic, which is small. Raise RunError if it fails."""
        with self.restic(*words, cwd=cwd) as child:
            output = child.output()
            self.check(child)
            return output

    def check(self, child: Child) -> None:
        """Wait until restic has ended. Raise RunError with what went wrong, and what to do, if it failed."""
        if status := child.wait():
            raise RunError(self.failure(status, child.reason()))

    def check_ended(self, child: Child) -> None:
        """Raise RunError with what went wrong if restic has written all that it will, and failed."""
        if not child.stdout.read(1):
            self.check(child)

    def failure(self, status: int, reason: str) -> str:
        """Return what a failure of restic means."""
        if status == _NO_REPOSITORY:
            return f"there is no repository at {self.url}; check its address, or make a backup first"
        if status == _LOCKED:
            return f"another program has locked the repository {self.url}; wait until it has ended ({reason})"
        if status == _WRONG_PASSWORD:
            return f"the password does not open the repository {self.url}; use the one with which it was created"
        if "ciphertext verification failed" in reason or "config or key" in reason:
            return f"the repository {self.url} is damaged: {reason}; use another backup, or a copy of the repository"
        if any(code in reason for code in _REFUSALS):
            return f"the bucket of {self.url} refuses the account: {reason}; check accessKey and secretKey"
        return f"restic failed with the repository {self.url}: {reason}"

    def create(self) -> None:
        """Create the repository if there is none. Several programs may do so at once: restic itself would write a
        second key, with which it could read nothing. Raise RunError.
        """
        if self._exists():
            return
        say(f"creating the repository {self.url}")
        if self.bucket:
            self._create_in_bucket(self.bucket)
        else:
            self._create_in_folder(Path(self.url))

    def _exists(self) -> bool:
        with self.restic("cat", "config", "--no-lock", "--quiet") as child:
            child.output()
            if child.wait() == _NO_REPOSITORY:
                return False
            self.check(child)
            return True

    def _create_in_folder(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            with (path / "creating.lock").open("w", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not self._exists():
                    _remove_lone_keys(path)
                    self.ask("init", "--quiet")
        except OSError as error:
            raise RunError(f"the folder {path} cannot have a repository: {error}; make it writable") from None

    def _create_in_bucket(self, bucket: Bucket) -> None:
        """Make the two files of a new repository here, and write them there unless another program was first."""
        new = self.work / "new"
        with self.restic("init", "--quiet", url=str(new)) as child:
            child.output()
            self.check(child)
        [key] = (new / "keys").iterdir()
        if bucket.put_new("config", (new / "config").read_bytes()):
            _put_key(bucket, key)
        self._await_key()

    def _await_key(self) -> None:
        """Wait until the program that wrote the configuration has written the key, too."""
        for _ in range(_NEW_TRIES):
            with self.restic("cat", "config", "--no-lock", "--quiet") as child:
                child.output()
                if child.wait() != _WRONG_PASSWORD:
                    return self.check(child)
            time.sleep(1)
        raise RunError(f"{self.failure(_WRONG_PASSWORD, '')}. If it has no keys, delete it: it was not completed")

    def unlock(self) -> None:
        """Remove locks of programs that no longer run: restic takes a lock that is half an hour old for one. A failure
        is left to the log: an account that may not delete can make backups.
        """
        with self.restic("unlock", "--quiet") as child:
            child.output()
            if status := child.wait():
                say(f"stale locks stay: {self.failure(status, child.reason())}")

    def delete(self, *words: str) -> None:
        """Run a command that deletes, beside which no other program may write. Raise DeletionRefusedError if the server
        refuses it, and RunError for another reason.
        """
        with self.restic(*words, "--quiet", f"--retry-lock={_LOCK_WAIT}") as child:
            child.output()
            status = child.wait()
            # Then restic 0.18 warns, and ends with 0.
            refusals = [line for line in child.lines if any(code in line for code in _REFUSALS)]
            if refusals:
                raise DeletionRefusedError(self.failure(status, refusals[-1]))
            if status:
                raise RunError(self.failure(status, child.reason()))

    def snapshots(self, *tags: str, host: str = "") -> list[dict[str, Any]]:
        """Return the snapshots that have all of these tags, and this host if it is named, the oldest first: `id`,
        `time`, `hostname` and `tags` of each.
        """
        words = [f"--tag={','.join(tags)}"] * bool(tags) + [f"--host={host}"] * bool(host)
        entries: list[dict[str, Any]] = json.loads(self.ask("snapshots", "--no-lock", *words) or b"[]")
        return sorted(entries, key=lambda entry: str(entry["time"]))

    def store(
        self, tags: Sequence[str], host: str, *words: str, cwd: Path | None = None, accepts_gaps: bool = False
    ) -> Mapping[str, Any]:
        """Make a snapshot by `restic backup`; return its summary. With `accepts_gaps`, it may lack files, as those that
        were deleted meanwhile. Raise RunError: there is no snapshot then.
        """
        with self.restic("backup", "--quiet", *_labels(tags, host), *words, cwd=cwd) as child:
            output = child.output()
            status = child.wait()
            if status and not (accepts_gaps and status == _HAS_GAPS):
                raise RunError(_command_error(child.lines) or self.failure(status, child.reason()))
        return self._summary(output)

    def store_stream(self, tags: Sequence[str], host: str, name: str, pieces: Iterable[bytes]) -> Mapping[str, Any]:
        """Make a snapshot of one file with these bytes; return its summary. Raise RunError, and what `pieces` raises:
        there is no snapshot then.
        """
        words = [*_labels(tags, host), "--stdin", f"--stdin-filename={name}"]
        with self.restic("backup", "--quiet", *words, stdin=subprocess.PIPE) as child:
            child.feed(pieces)
            output = child.output()
            self.check(child)
        return self._summary(output)

    def _summary(self, output: bytes) -> Mapping[str, Any]:
        for line in output.decode(errors="replace").splitlines():
            if (summary := json.loads(line)).get("message_type") == "summary" and summary.get("snapshot_id"):
                return dict(summary)
        raise RunError(f"restic made no snapshot in {self.url}, and said nothing")

    def restore(self, snapshot: str, target: Path) -> None:
        """Write the files of a snapshot to a folder, those that are missing there or differ. Raise RunError."""
        self.ask(
            *("restore", snapshot, f"--target={target}", "--overwrite=if-changed"),
            *("--quiet", f"--retry-lock={_LOCK_WAIT}"),
        )

    def read(self, snapshot: str, name: str, limit: int) -> bytes:
        """Return a file of a snapshot. Raise RunError if it has more bytes than `limit`, or cannot be read."""
        with self.dump(snapshot, name) as child:
            body = child.stdout.read(limit + 1)
            if len(body) > limit:
                raise RunError(f"{name} of snapshot {snapshot} has more than {limit // MIB} MiB")
            self.check(child)
            return body

    def dump(self, snapshot: str, name: str) -> Child:
        """Start to write a file of a snapshot to `stdout`."""
        return self.restic("dump", f"--retry-lock={_LOCK_WAIT}", snapshot, name)

    def size(self, snapshot: str, name: str) -> int:
        """Return the bytes of a file of a snapshot. Raise RunError if there is none."""
        for line in self.ask("ls", "--no-lock", snapshot).splitlines():
            if (entry := json.loads(line)).get("path") == f"/{name}":
                return int(entry["size"])
        raise RunError(f"snapshot {snapshot} has no {name}; choose the snapshot of this database")


@contextmanager
def open_repository(config: Path) -> Generator[Repository]:
    """Yield the repository of a run. Its private folder is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="backup-") as work:
        repository = Repository(config / "repository", Path(work))
        repository.check_certificate()
        yield repository


def write_private(path: Path, text: str) -> None:
    """Write a file that this user alone may read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(f"{text}\n")


def rfc3339(time: str) -> str:
    """Return a time of restic, which has nanoseconds, as Kubernetes writes it: in UTC, to the second."""
    return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _labels(tags: Sequence[str], host: str) -> list[str]:
    """Return options of `restic backup`: its tags and its host, and patience."""
    return [*(f"--tag={tag}" for tag in tags), f"--host={host}", f"--retry-lock={_LOCK_WAIT}"]


def _bucket(folder: Path, options: Mapping[str, Any]) -> Bucket:
    def credential(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8").strip()

    authority = folder / "ca.crt"
    return Bucket(
        url=str(options["url"]).removeprefix(_S3),
        region=options.get("region") or "us-east-1",
        is_path_style=bool(options.get("pathStyle")),
        access_key=credential("accessKey"),
        secret_key=credential("secretKey"),
        authority=authority if authority.exists() else None,
    )


def _restic_options(bucket: Bucket | None, options: Mapping[str, Any]) -> list[str]:
    words = [
        f"--limit-{direction}={rate}"
        for direction in ("upload", "download")
        if (rate := options.get(f"{direction}KiB"))
    ]
    if bucket:
        lookup = "path" if bucket.is_path_style else "dns"
        words += [f"--option=s3.bucket-lookup={lookup}", f"--option=s3.region={bucket.region}"]
        words += [f"--cacert={bucket.authority}"] if bucket.authority else []
    return words


def _put_key(bucket: Bucket, key: Path) -> None:
    """Write the key of a repository whose configuration is there: without it, nothing can open the repository."""
    for pause in _KEY_PAUSES:
        try:
            bucket.put_new(f"keys/{key.name}", key.read_bytes())
        except RunError as error:
            say(f"{error}; trying again in {pause} s")
            time.sleep(pause)
        else:
            return
    bucket.put_new(f"keys/{key.name}", key.read_bytes())


def _remove_lone_keys(path: Path) -> None:
    """Remove keys of a creation that was cut off, with which restic refuses another one. Raise RunError if something
    was stored with them.
    """
    if any(each.is_file() for name in ("data", "index", "snapshots") for each in (path / name).rglob("*")):
        raise RunError(f"the repository {path} has backups, but its file 'config' is missing; restore that file")
    for key in path.glob("keys/*"):
        key.unlink()


def _command_error(lines: Sequence[str]) -> str:
    """Return why a command failed whose output was to be stored, of which restic says no more than its status; empty
    if the command did not fail.
    """
    command_lines = [match for line in lines if (match := _COMMAND_LINE.match(line))]
    if not any("command failed" in line for line in lines) or not command_lines:
        return ""
    texts = [match["text"] for match in command_lines if "Connecting to" not in match["text"]]
    advice = "; is its certificate of the authority in trust/ca.crt?" if "SSL connection error" in texts[-1] else ""
    return f"{command_lines[-1]['name']} failed: {'; '.join(texts[-2:])}{advice}"
