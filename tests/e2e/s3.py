"""An S3 server outside of a cluster, for a test: Versity's gateway with a disk, an authority and a login of its own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode

from openstack_operator import pki
from tests import leftovers
from tools.localcluster import build
from tools.localcluster.apiserver import ending_with_us
from tools.localcluster.layout import Cluster
from tools.localcluster.network import subnet_of
from tools.localcluster.ports import free_port

from .waiting import until

REGION = "us-east-1"
_HEALTH = "/health"
_LAST_LINES = 12
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
# What is mounted here is seen by the server alone, and goes with its last process, however that ends.
_START = """
image=$1 disk=$2; shift 2
[ ! -e "$image" ] || mount --no-mtab -o loop "$image" "$disk"
mkdir -p "$disk/buckets" "$disk/versions"
exec "$@"
"""


def host_of(cluster: Cluster) -> str:
    """Return the address of this machine at which nodes and pods of the embedded cluster reach a server."""
    subnet = subnet_of(cluster)
    assert subnet, f"the cluster {cluster.name} does not run"
    return str(subnet[1])


@dataclass
class S3Server:
    """A server that checks signatures, in a `with` block; what it stores is in a folder, and outlasts `stop`.

    It listens with TLS on one address: the loopback interface, or what `host_of` returns. With `mebibytes` its disk has
    that size, which takes root. It ends with the thread that starts it, also if that is killed.
    """

    folder: Path
    address: str = "127.0.0.1"
    mebibytes: int = 0
    access_key: str = field(default_factory=lambda: secrets.token_hex(10))
    secret_key: str = field(default_factory=lambda: secrets.token_hex(20), repr=False)
    accounts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secret keys of further logins, by their access keys. They have the rights that policies of buckets give them."""
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> S3Server:
        self.port = self.port or free_port((self.address,))
        self.folder.mkdir(mode=0o700, parents=True)
        self.disk.mkdir()
        now = datetime.now(UTC)
        authority = pki.authority(secrets.token_hex(16), "authority of the S3 server", now)
        request = pki.Request(common="s3", names=frozenset({self.address}))
        leaf = pki.issue(authority, request, secrets.token_hex(16), now)
        self.authority.write_text(authority.cert, encoding="utf-8")
        (self.folder / "tls.crt").write_text(leaf.cert, encoding="utf-8")
        (self.folder / "tls.key").write_text(leaf.key, encoding="utf-8")
        self._write_accounts()
        if self.mebibytes:
            with self._image.open("wb") as image:
                image.truncate(self.mebibytes << 20)
            # All of it is for objects: no blocks for root, whom the server is, and no journal.
            options = ["-q", "-m", "0", "-O", "^has_journal"]
            subprocess.run(["mkfs.ext4", *options, str(self._image)], check=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate by which clients know it, in PEM."""
        return self.folder / "ca.crt"

    @property
    def log(self) -> Path:
        """The file with a line for each request."""
        return self.folder / "s3.log"

    @property
    def disk(self) -> Path:
        """The folder that the server sees as its disk; from outside, it is empty if the disk has a size."""
        return self.folder / "disk"

    @property
    def buckets(self) -> Path:
        """The folder with a folder for each bucket, and a file for each object, while the server runs."""
        assert self._process, "the server does not run"
        return Path(f"/proc/{self._process.pid}/root{self.disk}/buckets")

    @property
    def _accounts_folder(self) -> Path:
        return self.folder / "accounts"

    def _write_accounts(self) -> None:
        entries = {key: {"access": key, "secret": value, "role": "user"} for key, value in self.accounts.items()}
        self._accounts_folder.mkdir(mode=0o700)
        (self._accounts_folder / "users.json").write_text(json.dumps({"accessAccounts": entries}), encoding="utf-8")

    @property
    def _image(self) -> Path:
        return self.folder / "disk.img"

    def start(self) -> None:
        """Start it; it answers. Raises BuildError if the program is not built, EndedError if it ends."""
        program = str(build.ensure(build.S3) / "versitygw")
        server = [program, "--port", f"{self.address}:{self.port}", "--region", REGION, "--health", _HEALTH]
        server += ["--cert", str(self.folder / "tls.crt"), "--key", str(self.folder / "tls.key"), "--keep-alive"]
        server += ["--iam-dir", str(self._accounts_folder)] if self.accounts else []
        server += ["posix", "--versioning-dir", str(self.disk / "versions"), str(self.disk / "buckets")]
        alone = ["unshare", "--mount", "--propagation", "private"] if self.mebibytes else []
        command = ending_with_us([*alone, "sh", "-euc", _START, "sh", str(self._image), str(self.disk), *server])
        login = {"ROOT_ACCESS_KEY_ID": self.access_key, "ROOT_SECRET_ACCESS_KEY": self.secret_key}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"PATH": os.environ["PATH"], **login, **leftovers.marked()},
            )
        try:
            until("the S3 server to answer", self._answers, 60, 0.05, failed=self._last_words, stages=())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill it, as a power cut does: connections break, and nobody listens until `start`."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
        # The kernel unmounts the disk a moment later; a second mount beside the first one would damage it.
        until("the S3 server's disk to be unmounted", lambda: not _attached(self._image), 60, 0.05, stages=())

    def _answers(self) -> bool:
        try:
            return self.request("GET", _HEALTH)[0] == HTTPStatus.OK
        except URLError:
            return False

    def _last_words(self) -> str:
        if self._process and self._process.poll() is None:
            return ""
        return "\n".join(["it ended:", *self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]])

    def create_bucket(self, name: str, *, versions: bool = False, lock_days: int = 0) -> None:
        """Create a bucket, with `versions` of objects, or with a lock: no version can be deleted for so many days."""
        self._put(f"/{name}", headers={"x-amz-bucket-object-lock-enabled": "true"} if lock_days else {})
        if versions and not lock_days:
            state = "<Status>Enabled</Status>"
            body = f"<VersioningConfiguration {_NAMESPACE}>{state}</VersioningConfiguration>"
            self._put(f"/{name}", {"versioning": ""}, body)
        if lock_days:
            rule = f"<DefaultRetention><Mode>COMPLIANCE</Mode><Days>{lock_days}</Days></DefaultRetention>"
            rule = f"<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>{rule}</Rule>"
            body = f"<ObjectLockConfiguration {_NAMESPACE}>{rule}</ObjectLockConfiguration>"
            self._put(f"/{name}", {"object-lock": ""}, body)

    def allow(self, bucket: str, *rights: tuple[str, str]) -> None:
        """Give the accounts rights to a bucket: an action of S3, and the objects by a pattern of their names; the
        bucket itself without one.
        """
        statements = [
            {
                "Effect": "Allow",
                "Principal": {"AWS": sorted(self.accounts)},
                "Action": action,
                "Resource": f"arn:aws:s3:::{bucket}{f'/{objects}' if objects else ''}",
            }
            for action, objects in rights
        ]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()
        status, text = self.request("PUT", f"/{bucket}", {"policy": ""}, policy)
        assert status in {HTTPStatus.OK, HTTPStatus.NO_CONTENT}, text.decode(errors="replace")

    def _put(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        body: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        status, text = self.request("PUT", path, query, body.encode(), headers)
        assert status == HTTPStatus.OK, f"PUT {path}: {status} {text.decode(errors='replace')}"

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Return status and body of the answer to a signed request. Raises URLError where nobody answers."""
        search = urlencode(sorted((query or {}).items()), quote_via=quote, safe="-_.~")
        sent = {"content-md5": base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()}
        sent = self._signed(method, path, search, body, sent | dict(headers or {}))
        request = urllib.request.Request(
            f"{self.url}{quote(path)}?{search}".rstrip("?"), body or None, sent, method=method
        )
        trust = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    def _signed(self, method: str, path: str, search: str, body: bytes, headers: dict[str, str]) -> dict[str, str]:
        """Return the headers with a signature of version 4 (AWS Signature Version 4, in the header)."""
        now = datetime.now(UTC)
        digest = hashlib.sha256(body).hexdigest()
        date, scope = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}/{REGION}/s3/aws4_request"
        signed = {**headers, "host": f"{self.address}:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": date}
        names = ";".join(sorted(signed))
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        canonical = "\n".join([method, quote(path), search, lines, names, digest])
        text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"Credential={self.access_key}/{scope}"
        login = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
        return {**signed, "Authorization": login}


def _attached(image: Path) -> bool:
    """Return True while a loop device has the file."""
    files = list[str]()
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        # A device that is given back loses the file while this looks.
        with suppress(OSError):
            files.append(path.read_text().strip())
    return str(image) in files
