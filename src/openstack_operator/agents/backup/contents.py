"""Serve manifest and contents of a backup to the operator, by HTTPS with a token, until it has read them."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import io
import json
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from .dual_stack import DualStackServer
from .repository import MIB, Repository, open_repository, rfc3339
from .run import RunError, main, say, settings

PORT = 8443
PATH = "/contents"
_SERVE_SECONDS = 600.0
_GRACE_SECONDS = 30.0
"""Seconds in which the operator may read the backup again: it may have failed with what it read."""
_LONGEST_WAIT = 0.5
"""Seconds between looks at whether the backup was read."""
_MAX_CONTENTS = 8 * MIB
"""Bytes of JSON that the operator reads; a cloud has some MiB of resources."""
_CLIENT_TIMEOUT = 30.0
"""Seconds in which a client sends or takes something."""
_MAX_NAMES = 20


@dataclass(frozen=True)
class Backup:
    """A whole backup: where it is, and what it says."""

    snapshot: str
    name: str
    cloud: str
    body: bytes
    """JSON of `manifest` and `contents`, packed by gzip."""


def load(config: Path) -> Backup:
    """Return the backup that run.json names, the newest without a name. Raise RunError if there is none, or it is
    damaged.
    """
    run = settings(config)
    with open_repository(config) as repository:
        snapshots = repository.snapshots("kind=manifest")
        return read_backup(repository, select(snapshots, run["backup"], run["cloud"], run.get("until", "")))


def select(snapshots: Sequence[Mapping[str, Any]], name: str, cloud: str, until: str = "") -> Mapping[str, Any]:
    """Return the newest snapshot, the oldest of which comes first, of a backup's manifest; an empty name or cloud is
    any, and an empty time (RFC 3339, in UTC) is now. Raise RunError with what there is if none fits, or if backups of
    several clouds have the name.
    """
    fitting = [
        each
        for each in snapshots
        if (not name or backup_name(each) == name)
        and (not cloud or each["hostname"] == cloud)
        and (not until or rfc3339(str(each["time"])) <= until)
    ]
    clouds = sorted({str(each["hostname"]) for each in fitting})
    if name and len(clouds) > 1:
        raise RunError(f"there is a backup {name!r} of each of the clouds {', '.join(clouds)}; say of which one")
    if fitting:
        return fitting[-1]
    names = [f"{backup_name(each)!r} of {each['hostname']!r}" for each in reversed(snapshots)]
    backup = f"backup {name!r}" if name else "backup"
    of_cloud = f" of cloud {cloud!r}" if cloud else ""
    existing = f"there are: {', '.join(dict.fromkeys(names[:_MAX_NAMES]))}" if names else "the repository has none"
    before = f" that was complete at {until}" if until else ""
    raise RunError(f"there is no {backup}{of_cloud}{before}; {existing}")


def backup_name(snapshot: Mapping[str, Any]) -> str:
    """Return the name of the backup of a snapshot."""
    tags: Sequence[str] = snapshot.get("tags") or ()
    return next((tag.removeprefix("backup=") for tag in tags if tag.startswith("backup=")), "")


def read_backup(repository: Repository, snapshot: Mapping[str, Any]) -> Backup:
    """Return the backup of a manifest's snapshot. Raise RunError if its contents are not those of the manifest."""
    identifier, name = str(snapshot["id"]), backup_name(snapshot)
    packed = repository.read(identifier, "contents.json.gz", _MAX_CONTENTS)
    try:
        manifest = json.loads(repository.read(identifier, "manifest.json", _MAX_CONTENTS))
        if hashlib.sha256(packed).hexdigest() != manifest["sha256"]:
            raise RunError(f"the contents of backup {name!r} are not those of its manifest; use another backup")
        contents = json.loads(unpack(packed))
    except (ValueError, LookupError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RunError(f"backup {name!r} cannot be read: {error!r}; use another backup") from None
    manifest = {**manifest, "taken": rfc3339(str(snapshot["time"]))}
    body = json.dumps({"manifest": manifest, "contents": contents}).encode()
    refuse_large(len(body))
    return Backup(identifier, name, str(snapshot["hostname"]), gzip.compress(body))


def unpack(packed: bytes) -> bytes:
    """Return what gzip packed. Raise RunError if the operator does not read so much."""
    with gzip.open(io.BytesIO(packed)) as file:
        body = file.read(_MAX_CONTENTS + 1)
    refuse_large(len(body))
    return body


def refuse_large(size: int) -> None:
    """Raise RunError if this is more bytes of a backup than the operator reads."""
    if size > _MAX_CONTENTS:
        limit = f"{_MAX_CONTENTS // MIB} MiB"
        raise RunError(
            f"the contents of the backup have more than {limit} unpacked, and the operator reads at most {limit};"
            " use another backup"
        )


class _ContentsHandler(BaseHTTPRequestHandler):
    timeout = _CLIENT_TIMEOUT

    def __init__(self, body: bytes, token: bytes, note_read: Callable[[], None], *words: Any) -> None:
        self._body, self._expected, self._note_read = body, b"Bearer " + token, note_read
        super().__init__(*words)

    def do_GET(self) -> None:
        """Answer a request."""
        credential = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(credential, self._expected):
            self.send_error(401)
        elif self.path != PATH:
            self.send_error(404)
        else:
            self.send_response(200)
            for header, value in (("Type", "application/json"), ("Encoding", "gzip"), ("Length", len(self._body))):
                self.send_header(f"Content-{header}", str(value))
            self.end_headers()
            self.wfile.write(self._body)
            self._note_read()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name in the class below)
        """Write who asked, without the token."""
        say(f"{self.client_address[0]}: {format % args}")


class ContentsServer(DualStackServer):
    """A server of one backup."""

    def __init__(self, backup: Backup, channel: Path, port: int = PORT) -> None:
        """`channel` has tls.crt, tls.key and token. Raise OSError without them, RunError if the token is empty."""
        token = (channel / "token").read_bytes().strip()
        if not token:
            raise RunError(f"{channel}/token is empty; the operator writes it")
        self._trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._trust.load_cert_chain(channel / "tls.crt", channel / "tls.key")
        self.was_read = threading.Event()
        """Set once the backup was sent as a whole."""
        super().__init__(port, partial(_ContentsHandler, backup.body, token, self.was_read.set))

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Encrypt a connection, in its own thread."""
        request.settimeout(_CLIENT_TIMEOUT)
        with self._trust.wrap_socket(request, server_side=True) as stream:
            super().finish_request(stream, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing: an error of a connection is the client's, which went away or knows no TLS."""

    def serve_reader(self, seconds: float, grace: float) -> None:
        """Serve until the backup was read, and `grace` seconds more. Raise RunError if it is not read in `seconds`."""
        end, is_ending = time.monotonic() + seconds, False
        while (remaining := end - time.monotonic()) > 0:
            self.timeout = min(remaining, _LONGEST_WAIT)
            self.handle_request()
            if self.was_read.is_set() and not is_ending:
                end, is_ending = time.monotonic() + grace, True
        if not self.was_read.is_set():
            raise RunError(
                f"the operator did not read the backup within ten minutes; see that it reaches port {PORT} of this pod"
            )


def serve(config: Path) -> dict[str, Any]:
    """Serve a backup until the operator has read it; return its `backup`, `cloud` and `snapshot`. Raise RunError, also
    if the operator does not read it within ten minutes.
    """
    backup = load(config)
    with ContentsServer(backup, config / "channel") as server:
        say(f"serving backup {backup.name!r} of cloud {backup.cloud!r}")
        server.serve_reader(_SERVE_SECONDS, _GRACE_SECONDS)
    return {"backup": backup.name, "cloud": backup.cloud, "snapshot": backup.snapshot}


if __name__ == "__main__":
    main(serve)
