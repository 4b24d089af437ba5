"""Old backups are removed with restic: what stays can be read, also after a kill, beside a lock, and without rights."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents
from openstack_operator.agents.backup.retention import select_staying
from tests.e2e.s3 import S3Server
from tests.unit.agents.test_backup_real import USER, Pod, folder
from tests.unit.harness.test_e2e_s3_real import s3_server
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT, until

pytestmark = pytest.mark.seconds

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
CLOUD = "openstack"
ENVIRONMENT = {"RESTIC_PASSWORD_FILE": "/etc/backup/repository/password", "RESTIC_CACHE_DIR": "/tmp/cache"}
NUMBERS, LOCKED, KILLED = count(), 11, 128 + 9
_SNAPSHOTS = """
while read -r host time tags; do
  echo "$host $time $tags" | restic --repo="$1" backup --quiet --stdin --stdin-filename=data --host="$host" \\
    --time="$(echo "$time" | tr _ ' ')" $tags
done
"""
_KILLER = """#!/bin/sh
# Kills the program that asks for the {number}. removal, after that or while it runs.
case " $* " in
  *" forget "*|*" prune "*)
    echo x >> /tmp/removals
    if [ "$(wc -l < /tmp/removals)" = {number} ]; then
      {begin}
      kill -KILL $PPID
      exit 1
    fi ;;
esac
exec /usr/bin/restic "$@"
"""


def nightly(days: int) -> str:
    return f"nightly-{NOW - timedelta(days=days):%Y%m%d%H%M}"


def settings(**counts: int) -> dict[str, Any]:
    return {"cloud": CLOUD, "schedule": "nightly", "prefix": "nightly", "newest": nightly(0), "counts": counts}


class Storage:
    """A repository in a folder, with snapshots as backups leave them."""

    def __init__(self, pod: Pod, url: str, env: Mapping[str, str] = ENVIRONMENT) -> None:
        self.pod, self.url, self.env = pod, url, env

    def restic(self, *words: str) -> Any:
        command = ["restic", f"--repo={self.url}", "--json", *words]
        with inside(self.pod.root, USER, *command, env=self.env, output=-1) as process:
            output = process.communicate(timeout=TIMEOUT)[0]
            assert process.returncode == 0, output
            return json.loads(output) if output.startswith(("[", "{")) else output

    def store(self, *snapshots: tuple[str, str, str, datetime]) -> None:
        """Make snapshots: cloud, kind, backup and time of each."""
        lines = "".join(
            f"{cloud} {at:%Y-%m-%d_%H:%M:%S} --tag=kind={kind} --tag=backup={name}\n"
            for cloud, kind, name, at in snapshots
        )
        self.pod.write("/etc/backup/snapshots", lines)
        command = ["sh", "-euc", f"{{ {_SNAPSHOTS} }} < /etc/backup/snapshots", "sh", self.url]
        with inside(self.pod.root, USER, *command, env={**self.env, "TZ": "UTC"}) as process:
            assert process.wait(TIMEOUT) == 0

    def names(self) -> list[str]:
        """Cloud, kind and backup of each snapshot."""
        return sorted(
            f"{each['hostname']} {' '.join(tag.partition('=')[2] for tag in each['tags'])}"
            for each in self.restic("snapshots")
        )

    def retain(self, **counts: int) -> dict[str, Any]:
        return self.pod.run("retention", settings(**counts), url=self.url)


def whole(name: str, days: int, cloud: str = CLOUD) -> list[tuple[str, str, str, datetime]]:
    return [(cloud, kind, name, NOW - timedelta(days=days)) for kind in ("database", "manifest")]


@pytest.fixture(name="pod", scope="module")
def _pod() -> Generator[Pod]:
    with image_root("mariadb") as root:
        pod = Pod(root)
        pod.write("/etc/backup/repository/password", "password of the repository")
        folder(pod, "backup")
        yield pod


@pytest.fixture(name="template", scope="module")
def _template(pod: Pod) -> Storage:
    """A repository of three nights, with what else may be there."""
    storage = Storage(pod, "/backup/template")
    storage.restic("init", "--quiet")
    dead = [(CLOUD, "database", "died", NOW - timedelta(days=3)), (CLOUD, "database", "runs", NOW)]
    nights = [each for days in (2, 1, 0) for each in whole(nightly(days), days)]
    storage.store(*nights, *whole("by-hand", 90), *whole(nightly(2), 2, "other"), *dead)
    return storage


@pytest.fixture(name="storage")
def _storage(pod: Pod, template: Storage) -> Storage:
    storage = Storage(pod, f"/backup/{next(NUMBERS)}")
    subprocess.run(["cp", "--archive", pod.root / template.url[1:], pod.root / storage.url[1:]], check=True)
    return storage


STAYS = sorted(
    [
        *(f"openstack {kind} {name}" for name in ("by-hand", nightly(0)) for kind in ("database", "manifest")),
        *(f"other {kind} {nightly(2)}" for kind in ("database", "manifest")),
        "openstack database runs",
    ]
)


def test_old_backups_go_and_the_others_can_be_read(storage: Storage) -> None:
    assert storage.retain(last=1).items() >= {"backups": 2, "removed": 2, "parts": 3, "refused": ""}.items()
    assert storage.names() == STAYS
    storage.restic("check", "--read-data")
    assert storage.retain(last=1).items() >= {"backups": 2, "removed": 0, "parts": 0, "refused": ""}.items()


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("begin", ['/usr/bin/restic "$@" &', '/usr/bin/restic "$@"'], ids=["in", "after"])
def test_a_run_that_is_killed_is_completed_by_the_next(storage: Storage, number: int, begin: str) -> None:
    wrapper = storage.pod.root / "usr/local/bin/restic"
    wrapper.write_text(_KILLER.format(number=number, begin=begin), encoding="utf-8")
    wrapper.chmod(0o755)
    (storage.pod.root / "tmp/removals").unlink(missing_ok=True)
    storage.pod.configure(settings(last=1), url=storage.url)
    modules = [f"backup/{module}.py" for module in ("run", "bucket", "repository", "retention")]
    env = {"TERMINATION_LOG": "/tmp/message", "RESTIC_CACHE_DIR": "/tmp/cache"}
    try:
        # The first process of a container cannot be killed from within.
        with inside(
            storage.pod.root, USER, "sh", "-c", '"$@" || exit $?', "sh", *agents.python(*modules), env=env
        ) as process:
            assert process.wait(TIMEOUT) == KILLED
    finally:
        wrapper.unlink()
    names = storage.names()
    for name in names:
        # What looks like a backup is one.
        assert " manifest " not in name or name.replace(" manifest ", " database ") in names
    result = storage.retain(last=1)
    assert "error" not in result, result
    assert storage.names() == STAYS
    storage.restic("check")
    # restic frees no data while a lock is there, and says so.
    assert not storage.restic("list", "locks").strip()


def test_a_removal_waits_for_a_backup_that_runs(storage: Storage) -> None:
    pod = storage.pod
    gate = pod.root / "backup/gate"
    os.mkfifo(gate)
    os.chown(gate, USER, USER)
    tags = [f"--host={CLOUD}", "--tag=kind=database", "--tag=backup=late"]
    words = ["--stdin-from-command", "--stdin-filename=data", *tags, "--", "cat", "/backup/gate"]
    backup_words = ["restic", f"--repo={storage.url}", "backup", *words]
    try:
        with (
            inside(pod.root, USER, *backup_words, env=ENVIRONMENT) as backup,
            # It opens once the backup reads, which has locked the repository by then.
            gate.open("wb") as writer,
        ):
            with inside(pod.root, USER, "restic", f"--repo={storage.url}", "prune", env=ENVIRONMENT) as impatient:
                assert impatient.wait(TIMEOUT) == LOCKED
            pod.configure(settings(last=1), url=storage.url)
            with pod.start("retention") as process:
                until("a removal", is_removing)
                assert process.poll() is None
                writer.write(b"data of a database")
                writer.close()
                assert backup.wait(TIMEOUT) == 0
                assert process.wait(TIMEOUT) == 0
    finally:
        gate.unlink()
    assert storage.names() == sorted([*STAYS, "openstack database late"])
    storage.restic("check", "--read-data")


def is_removing() -> bool:
    """Return True while a removal runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"forget" in words and words[0].endswith(b"restic"):
                return True
    return False


def test_a_backup_that_stays_is_the_one_that_restic_keeps(pod: Pod) -> None:
    storage = Storage(pod, "/backup/policy")
    storage.restic("init", "--quiet")
    days = [0, 0.5, 1, 2, 6, 7, 8, 20, 31, 33, 64, 400]
    times = {f"b{number}": NOW - timedelta(days=each) for number, each in enumerate(days)}
    storage.store(*((CLOUD, "manifest", name, at) for name, at in times.items()))
    for counts in ({"last": 3}, {"hourly": 2, "weekly": 3}, {"daily": 4, "monthly": 2}, {"monthly": 9}, {"daily": 99}):
        options = [f"--keep-{name}={count}" for name, count in counts.items()]
        [group] = storage.restic("forget", "--dry-run", "--group-by=host", *options)
        staying = {tag.partition("=")[2] for each in group["keep"] for tag in each["tags"] if tag.startswith("backup=")}
        assert select_staying(times, counts) == staying, counts


WRITER, REMOVER, BUCKET = "writer-of-backups", "remover-of-backups", "backups"
RIGHTS = [("s3:GetObject", "*"), ("s3:PutObject", "*"), ("s3:ListBucket", "")]


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path, accounts={WRITER: WRITER * 2, REMOVER: REMOVER * 2}) as server:
        server.create_bucket(BUCKET)
        yield server


def test_a_login_that_may_not_delete_is_named_and_another_one_removes(pod: Pod, server: S3Server) -> None:
    """The first has the rights that the documentation names for backups."""
    url = f"s3:{server.url}/{BUCKET}/cloud"
    options: dict[str, Any] = {"url": url, "pathStyle": True, "region": "us-east-1"}
    server.allow(BUCKET, *RIGHTS, ("s3:DeleteObject", "cloud/locks/*"))
    pod.write("/etc/backup/repository/ca.crt", server.authority.read_text(encoding="utf-8"))
    login(pod, WRITER)
    environment = {
        "RESTIC_PASSWORD_FILE": "/etc/backup/repository/password",
        "RESTIC_CACHE_DIR": "/tmp/cache",
        "AWS_ACCESS_KEY_ID": WRITER,
        "AWS_SECRET_ACCESS_KEY": WRITER * 2,
        "RESTIC_CACERT": "/etc/backup/repository/ca.crt",
    }
    storage = Storage(pod, url, environment)
    storage.restic("init", "--quiet")
    storage.store(*whole(nightly(1), 1), *whole(nightly(0), 0))
    before = storage.names()
    refused = pod.run("retention", settings(last=1), **options)
    assert (refused["backups"], refused["removed"]) == (2, 0)
    assert "refuses the account" in refused["refused"]
    assert "Access Denied" in refused["refused"]
    assert WRITER * 2 not in json.dumps(refused)
    assert storage.names() == before
    storage.store(*whole("later", 0))
    server.allow(BUCKET, *RIGHTS, ("s3:DeleteObject", "*"))
    login(pod, REMOVER)
    assert (
        pod.run("retention", settings(last=1), **options).items()
        >= {"backups": 2, "removed": 1, "parts": 1, "refused": ""}.items()
    )
    assert storage.names() == sorted(
        f"openstack {kind} {name}" for kind in ("database", "manifest") for name in (nightly(0), "later")
    )
    storage.restic("check", "--read-data")


def login(pod: Pod, account: str) -> None:
    """Write the login of a run."""
    pod.write("/etc/backup/repository/accessKey", account)
    pod.write("/etc/backup/repository/secretKey", account * 2)
