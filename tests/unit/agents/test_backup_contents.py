"""Which backup a restore gets, and who may read it."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from openstack_operator import pki
from openstack_operator.agents.backup.contents import Backup, ContentsServer, load, select
from openstack_operator.agents.backup.run import RunError
from tests.unit.agents.backup_programs import Programs
from tests.unit.polling import TIMEOUT

NOW = datetime.now(UTC)
AUTHORITY, OTHER = pki.authority("ours", "pki", NOW), pki.authority("theirs", "pki", NOW)
TOKEN = "token of this restore"
LIMIT = 8 * 1024 * 1024
ANSWER = {"manifest": {"databases": []}, "contents": {"resources": [{"kind": "Nova"}]}}


def snapshot(name: str, cloud: str = "a", day: int = 1) -> dict[str, Any]:
    tags = ["kind=manifest", f"backup={name}"]
    return {"id": f"{name}-{cloud}-{day}", "time": f"2026-01-0{day}T00:00:00Z", "hostname": cloud, "tags": tags}


def selected(name: str, cloud: str, *snapshots: dict[str, Any]) -> str:
    return str(select(snapshots, name, cloud)["id"])


def test_the_newest_backup_of_a_cloud_is_taken_without_a_name() -> None:
    snapshots = snapshot("first", day=1), snapshot("second", day=2), snapshot("third", "b", day=3)
    assert selected("", "a", *snapshots) == "second-a-2"
    assert selected("", "", *snapshots) == "third-b-3"
    assert selected("first", "", *snapshots) == "first-a-1"


def test_the_newest_manifest_counts_if_a_job_stored_it_twice() -> None:
    assert selected("first", "a", snapshot("first", day=1), snapshot("first", day=2)) == "first-a-2"


def test_a_missing_backup_is_named_with_those_there_are() -> None:
    with pytest.raises(RunError) as error:
        selected("x", "y", snapshot("first"), snapshot("second", "b"))
    assert str(error.value) == "there is no backup 'x' of cloud 'y'; there are: 'second' of 'b', 'first' of 'a'"
    with pytest.raises(RunError, match="there is no backup; the repository has none"):
        selected("", "")


def test_a_name_that_two_clouds_use_needs_the_cloud() -> None:
    snapshots = snapshot("first"), snapshot("first", "b")
    with pytest.raises(RunError, match="a backup 'first' of each of the clouds a, b; say of which one"):
        selected("first", "", *snapshots)
    assert selected("first", "b", *snapshots) == "first-b-1"


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(tmp_path)
    monkeypatch.setenv("PATH", programs.path)
    programs.settings(backup="first", cloud="a")
    programs.answer("snapshots", json.dumps([snapshot("first")]))
    return programs


def store(programs: Programs, packed: bytes, sha256: str = "") -> None:
    manifest = {"databases": [], "sha256": sha256 or hashlib.sha256(packed).hexdigest()}
    programs.answer("contents.json.gz", packed)
    programs.answer("manifest.json", json.dumps(manifest))


def test_manifest_and_contents_are_read_together(programs: Programs) -> None:
    store(programs, packed := gzip.compress(b'{"resources": []}'))
    backup = load(programs.config)
    assert (backup.name, backup.cloud, backup.snapshot) == ("first", "a", "first-a-1")
    digest = hashlib.sha256(packed).hexdigest()
    manifest = {"databases": [], "sha256": digest, "taken": "2026-01-01T00:00:00Z"}
    assert json.loads(gzip.decompress(backup.body)) == {"manifest": manifest, "contents": {"resources": []}}


@pytest.mark.security
def test_contents_that_are_not_those_of_the_manifest_are_refused(programs: Programs) -> None:
    store(programs, gzip.compress(b"{}"), "0" * 64)
    with pytest.raises(RunError, match="the contents of backup 'first' are not those of its manifest"):
        load(programs.config)
    store(programs, b"no gzip")
    with pytest.raises(RunError, match="backup 'first' cannot be read: BadGzipFile"):
        load(programs.config)


@pytest.mark.security
def test_contents_that_would_fill_the_memory_are_refused(programs: Programs) -> None:
    store(programs, gzip.compress(b" " * (LIMIT + 1), compresslevel=1))
    with pytest.raises(RunError, match="more than 8 MiB unpacked, and the operator reads at most 8 MiB"):
        load(programs.config)


def test_contents_and_manifest_together_fit_into_the_operator_s_limit(programs: Programs) -> None:
    # Each of them alone would fit.
    store(programs, gzip.compress(json.dumps("x" * (LIMIT - 2)).encode(), compresslevel=1))
    with pytest.raises(RunError, match="more than 8 MiB unpacked, and the operator reads at most 8 MiB"):
        load(programs.config)


def contents_server(tmp_path: Path) -> ContentsServer:
    pair = pki.issue(AUTHORITY, pki.Request(common="contents", names=frozenset({"localhost"})), "drawn", NOW)
    for name, text in {"tls.crt": pair.cert, "tls.key": pair.key, "token": f"{TOKEN}\n"}.items():
        (tmp_path / name).write_text(text)
    body = gzip.compress(json.dumps(ANSWER).encode())
    return ContentsServer(Backup("id", "first", "a", body), tmp_path, port=0)


@contextmanager
def serving(tmp_path: Path) -> Generator[str]:
    with contents_server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://localhost:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def client(authority: pki.Pair = AUTHORITY) -> httpx.Client:
    return httpx.Client(verify=ssl.create_default_context(cadata=authority.cert), trust_env=False, timeout=300)


@pytest.mark.security
def test_only_the_token_opens_the_contents(tmp_path: Path) -> None:
    with serving(tmp_path) as url, client() as session:
        answer = session.get(f"{url}/contents", headers={"Authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, answer.json()) == (200, ANSWER)
        for credential in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN):
            answer = session.get(f"{url}/contents", headers={"Authorization": credential})
            assert answer.status_code == 401, credential
        assert session.get(f"{url}/contents").status_code == 401
        assert session.get(f"{url}/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 404


@pytest.mark.security
def test_the_contents_are_not_sent_without_a_trusted_certificate(tmp_path: Path) -> None:
    with serving(tmp_path) as url:
        with client(OTHER) as session, pytest.raises(httpx.ConnectError):
            session.get(f"{url}/contents")
        with client() as session, pytest.raises(httpx.HTTPError):
            session.get(f"{url.replace('https', 'http')}/contents")
        with client() as session:
            assert session.get(f"{url}/contents", headers={"Authorization": f"Bearer {TOKEN}"}).json() == ANSWER


def test_a_backup_that_nobody_read_is_an_error(tmp_path: Path) -> None:
    with contents_server(tmp_path) as server, pytest.raises(RunError) as error:
        server.serve_reader(seconds=0.001, grace=TIMEOUT)
    assert str(error.value) == (
        "the operator did not read the backup within ten minutes; see that it reaches port 8443 of this pod"
    )


def test_a_server_ends_once_its_backup_was_read(tmp_path: Path) -> None:
    with contents_server(tmp_path) as server, ThreadPoolExecutor(1) as pool, client() as session:
        end = pool.submit(server.serve_reader, seconds=TIMEOUT, grace=0.001)
        url = f"https://localhost:{server.server_address[1]}/contents"
        assert session.get(url).status_code == 401
        assert not server.was_read.is_set()
        assert session.get(url, headers={"Authorization": f"Bearer {TOKEN}"}).json() == ANSWER
        end.result(TIMEOUT)


def test_an_answer_that_breaks_off_does_not_count_as_read(tmp_path: Path) -> None:
    reader, connection = socket.socketpair()
    with contents_server(tmp_path) as server, connection:
        reader.sendall(f"GET /contents HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        reader.close()
        with pytest.raises(BrokenPipeError):
            server.RequestHandlerClass(connection, ("reader", 0), server)
        assert not server.was_read.is_set()


def test_a_token_must_not_be_empty(tmp_path: Path) -> None:
    with serving(tmp_path):
        pass
    (tmp_path / "token").write_text("\n")
    with pytest.raises(RunError, match="token is empty"):
        ContentsServer(Backup("id", "first", "a", b""), tmp_path, port=0)
