"""The S3 server of suites, with restic of the image: what it refuses, outages, a full disk, versions and locks."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.error import URLError

import pytest

from images import catalog
from tests.e2e.s3 import REGION, S3Server
from tests.unit.image_root import image_root, inside, listens
from tests.unit.polling import until
from tools.localcluster import build

pytestmark = pytest.mark.seconds

BUCKET, USER, MIB = "backups", 999, 1 << 20
CONTENT = "no word of this is on the disk of the server"


@contextmanager
def s3_server(folder: Path, mebibytes: int = 0, accounts: Mapping[str, str] | None = None) -> Generator[S3Server]:
    try:
        build.binary("s3", "versitygw")
    except build.BuildError as error:
        pytest.skip(str(error))
    with S3Server(folder / "s3", mebibytes=mebibytes, accounts=accounts or {}) as server:
        yield server


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path) as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(name="root", scope="module")
def _root() -> Generator[Path]:
    with image_root("mariadb") as root:
        yield root


@dataclass
class Restic:
    """restic of the image, with a repository in the bucket."""

    root: Path
    env: dict[str, str]

    @contextmanager
    def begin(self, *arguments: str, **env: str) -> Generator[subprocess.Popen[str]]:
        """A command that runs; all that it writes can be read."""
        command = ["sh", "-c", 'exec "$@" 2>&1', "sh", "restic", "-o", "s3.bucket-lookup=path", *arguments]
        with inside(self.root, USER, *command, env=self.env | env, output=subprocess.PIPE) as process:
            assert process.stdout
            with process.stdout:
                yield process

    def __call__(self, *arguments: str, **env: str) -> tuple[int, str]:
        """Return the exit status of a command, and all that it wrote."""
        with self.begin(*arguments, **env) as process:
            text, _ = process.communicate()
            return process.returncode, text


@pytest.fixture(name="restic")
def _restic(root: Path, server: S3Server) -> Restic:
    (root / "ca.crt").write_text(server.authority.read_text(), encoding="utf-8")
    env = {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_DEFAULT_REGION": REGION,
        "RESTIC_REPOSITORY": f"s3:{server.url}/{BUCKET}/cloud",
        "RESTIC_PASSWORD": secrets.token_hex(8),
        "RESTIC_CACHE_DIR": "/tmp/cache",
        "RESTIC_CACERT": "/ca.crt",
    }
    return Restic(root, env)


def test_restic_stores_a_backup_and_restores_it(server: S3Server, restic: Restic) -> None:
    assert restic("init")[0] == 0
    stored = restic("backup", "--stdin-from-command", "--stdin-filename", "x", "--", "echo", CONTENT)
    assert stored[0] == 0, stored
    assert restic("dump", "--quiet", "latest", "x") == (0, f"{CONTENT}\n")
    assert restic("check", "--read-data")[0] == 0
    objects = [path for path in (server.buckets / BUCKET / "cloud").rglob("*") if path.is_file()]
    assert {path.parent.name for path in objects} >= {"cloud", "keys", "snapshots"}
    assert not [path for path in objects if CONTENT.encode() in path.read_bytes()]


def test_a_wrong_secret_key_is_refused(server: S3Server, restic: Restic) -> None:
    assert restic("init")[0] == 0
    status, text = restic("snapshots", AWS_SECRET_ACCESS_KEY="wrong")
    assert status
    assert "Access Denied" in text
    server.secret_key = "wrong"
    status, answer = server.request("GET", f"/{BUCKET}")
    assert status == HTTPStatus.FORBIDDEN
    assert b"SignatureDoesNotMatch" in answer


def test_a_certificate_of_another_authority_is_refused(server: S3Server, restic: Restic) -> None:
    # restic tries again for a quarter of an hour.
    with restic.begin("init", RESTIC_CACERT="") as process:
        assert process.stdout
        assert "certificate signed by unknown authority" in process.stdout.readline()
    assert not list((server.buckets / BUCKET).iterdir())


def test_restic_waits_for_the_end_of_an_outage(server: S3Server, restic: Restic) -> None:
    assert restic("init")[0] == 0
    server.stop()
    with pytest.raises(URLError):
        server.request("GET", f"/{BUCKET}")
    with restic.begin("snapshots", "--json") as process:
        assert process.stdout
        assert "connection refused" in process.stdout.readline()
        server.start()
        text, _ = process.communicate()
        assert text.splitlines()[-1] == "[]"
        assert process.returncode == 0


def test_a_full_disk_refuses_objects_and_keeps_those_that_it_has(tmp_path: Path) -> None:
    with s3_server(tmp_path, mebibytes=16) as server:
        server.create_bucket(BUCKET)
        answers = [server.request("PUT", f"/{BUCKET}/{number}", body=bytes(4 * MIB))[0] for number in range(5)]
        assert answers[0] == HTTPStatus.OK
        assert answers[-1] == HTTPStatus.INSUFFICIENT_STORAGE
        server.stop()
        server.start()
        assert server.request("GET", f"/{BUCKET}/0") == (HTTPStatus.OK, bytes(4 * MIB))


def test_a_version_is_deleted_unless_the_bucket_has_a_lock(server: S3Server) -> None:
    server.create_bucket("free", versions=True)
    server.create_bucket("locked", lock_days=1)
    answers = dict[str, int]()
    for bucket in ("free", "locked"):
        server.request("PUT", f"/{bucket}/x", body=b"one")
        server.request("PUT", f"/{bucket}/x", body=b"two")
        older = versions(server, bucket)[-1]
        answers[bucket], _ = server.request("DELETE", f"/{bucket}/x", {"versionId": older})
        assert (older in versions(server, bucket)) == (bucket == "locked")
    assert answers == {"free": HTTPStatus.NO_CONTENT, "locked": HTTPStatus.FORBIDDEN}


def test_an_account_has_the_rights_that_a_bucket_gives_it(tmp_path: Path) -> None:
    with s3_server(tmp_path, accounts={"writer": "secret of the writer"}) as server:
        server.create_bucket(BUCKET)
        server.allow(BUCKET, ("s3:PutObject", "*"), ("s3:DeleteObject", "locks/*"))
        server.access_key, server.secret_key = "writer", "secret of the writer"
        answers = [
            server.request(method, f"/{BUCKET}/{name}")[0] for method in ("PUT", "DELETE") for name in ("x", "locks/x")
        ]
    assert answers == [HTTPStatus.OK, HTTPStatus.OK, HTTPStatus.FORBIDDEN, HTTPStatus.NO_CONTENT]


def versions(server: S3Server, bucket: str) -> list[str]:
    """Return the identities of all versions in a bucket, the newest of an object first."""
    return re.findall(
        r"<VersionId>(\w+)</VersionId>", server.request("GET", f"/{bucket}", {"versions": ""})[1].decode()
    )


def test_a_killed_test_leaves_no_server_and_no_mount(tmp_path: Path) -> None:
    with s3_server(tmp_path):
        """The program is built."""
    script = (
        "import sys, time; from pathlib import Path; from tests.e2e.s3 import S3Server\n"
        "server = S3Server(Path(sys.argv[1]), mebibytes=16).__enter__()\n"
        "print(server.url, flush=True); time.sleep(3600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "other")]
    with subprocess.Popen(command, cwd=catalog.ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        port = int(url.rpartition(":")[2])
        assert listens(port)
        process.send_signal(signal.SIGKILL)
    until("the end of the server", lambda: not listens(port))
    image = str(tmp_path / "other" / "disk.img")
    until("the end of its mount", lambda: image not in subprocess.check_output(["losetup", "--all"], text=True))
