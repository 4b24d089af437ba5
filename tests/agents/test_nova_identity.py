"""A node whose disk is new gets the identity that Nova knows, unless it has servers."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from openstack_operator.cli.inspection.advice import advice
from openstack_operator.plan import Release
from tests.agents.nova_plan import planned_nova

from .programs import Machine, pods

IDENTITY = "6e1a6d4e-0000-4000-8000-000000000001"
OTHER = "6e1a6d4e-0000-4000-8000-000000000002"
Start = Callable[[], tuple[int, str]]


class Nova(ThreadingHTTPServer):
    """Answers with what it has, hypervisors on pages of one. `fails` ends each request with an error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.services: list[dict[str, Any]] = [{"host": "node1", "binary": "nova-compute"}]
        self.hypervisors = [hypervisor(OTHER, host="node2", state="up"), hypervisor(IDENTITY)]
        self.servers: list[dict[str, Any]] = []
        self.migrations: list[dict[str, Any]] = []
        self.fails = False
        self.asked: list[str] = []

    def answer(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        """Return the body for a request. Raises AssertionError for parameters that Nova would refuse."""
        if path == "/os-hypervisors/detail":
            after = query.pop("marker", [])
            assert not query
            rows = [each["id"] for each in self.hypervisors]
            number = rows.index(after[0]) + 1 if after else 0
            links = {"hypervisors_links": [{"rel": "next"}]} if number + 1 < len(rows) else {}
            return {"hypervisors": self.hypervisors[number : number + 1], **links}
        expected = {
            "/os-services": ("services", {"binary": ["nova-compute"], "host": ["node1"]}),
            "/servers/detail": ("servers", {"all_tenants": ["1"], "host": ["node1"]}),
            "/os-migrations": ("migrations", {"status": ["finished"], "host": ["node1"]}),
        }
        name, parameters = expected[path]
        assert query == parameters
        return {name: getattr(self, name)}


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        nova, url = cast("Nova", self.server), urlsplit(self.path)
        nova.asked.append(url.path)
        # Of 2.1, the answers are others.
        assert self.headers["OpenStack-API-Version"] == "compute 2.59"
        body = nova.answer(url.path, parse_qs(url.query))
        self.send_response(503 if nova.fails else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


def hypervisor(identity: str, *, host: str = "node1", state: str = "down") -> dict[str, Any]:
    """Return a hypervisor as Nova's API shows it."""
    return {"id": identity, "state": state, "hypervisor_hostname": f"{host}.example", "service": {"host": host}}


@pytest.fixture
def nova() -> Iterator[Nova]:
    with Nova() as answering:
        threading.Thread(target=answering.serve_forever, daemon=True).start()
        yield answering
        answering.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of the instances of a node."""
    path = tmp_path / "instances"
    path.mkdir()
    return path


@pytest.fixture
def start(nova: Nova, machine: Machine, tmp_path: Path, folder: Path, release: Release) -> Start:
    """Runs the planned command of nova-compute; its exit code and what it printed."""
    [main] = [
        each for each in pods(planned_nova(release), "nova-cell1-compute")["containers"] if each["name"] == "main"
    ]
    machine.program("tini")

    def run() -> tuple[int, str]:
        conf = tmp_path / "nova.conf"
        at = f"http://127.0.0.1:{nova.server_port}"
        conf.write_text(f"[neutron]\nauth_type = none\nendpoint = {at}\nregion_name = A\n")
        env = {"OS_DEFAULT__HOST": "node1", "STATE": str(folder), "NODE_FOLDER": "/srv/nova", "NOVA_CONF": str(conf)}
        process = machine.run(main, **env)
        return process.returncode, process.stdout + process.stderr

    return run


def test_a_node_with_an_identity_asks_nothing(nova: Nova, machine: Machine, folder: Path, start: Start) -> None:
    (folder / "compute_id").write_text("mine")
    assert start() == (0, "")
    assert machine.has_become("tini")
    assert nova.asked == []
    assert (folder / "compute_id").read_text() == "mine"


def test_a_new_node_starts_without_an_identity(nova: Nova, machine: Machine, folder: Path, start: Start) -> None:
    nova.services = []
    assert start() == (0, "")
    assert machine.has_become("tini")
    assert list(folder.iterdir()) == []


def test_a_node_without_servers_gets_its_identity(machine: Machine, folder: Path, start: Start) -> None:
    code, output = start()
    assert code == 0
    assert IDENTITY in output
    assert machine.has_become("tini")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"compute_id": IDENTITY}
    assert (folder / "compute_id").stat().st_mode & 0o777 == 0o644


def test_a_node_with_servers_waits(nova: Nova, machine: Machine, folder: Path, start: Start) -> None:
    """Also if their disks are in Ceph or volumes: the old machine may still run them."""
    nova.servers = [{"id": "s2"}, {"id": "s1"}]
    nova.migrations = [{"instance_uuid": "s3"}, {"instance_uuid": "s4"}, {"instance_uuid": "s1"}]
    code, output = start()
    assert code == 1
    assert output.strip() == (
        "error: the node lacks /srv/nova/compute_id, and Nova has servers there: 4 (s1, s2, s3, ...); mount the disk"
        " with /srv/nova; if it is new, evacuate or delete the servers, or make sure that no other machine runs them,"
        " and `touch /srv/nova/disk-is-new` on the node"
    )
    # What `openstack-operator why` says about it.
    assert advice("CrashLoop", [output]).endswith("say it is new: docs/how-to/when-a-node-is-lost.md")
    assert not machine.has_become("tini")
    assert list(folder.iterdir()) == []


def test_an_administrator_decides_once(nova: Nova, folder: Path, start: Start) -> None:
    nova.servers = [{"id": "s1"}]
    (folder / "disk-is-new").touch()
    assert start()[0] == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"compute_id": IDENTITY}


def test_an_old_decision_does_not_count(nova: Nova, folder: Path, start: Start) -> None:
    """Its file may lie below a disk that was mounted since."""
    nova.servers = [{"id": "s1"}]
    (folder / "disk-is-new").touch()
    os.utime(folder / "disk-is-new", (1, 1))
    assert start()[0] == 1
    assert [path.name for path in folder.iterdir()] == ["disk-is-new"]


def test_a_node_does_not_take_the_identity_of_one_that_runs(
    nova: Nova, machine: Machine, folder: Path, start: Start
) -> None:
    nova.hypervisors = [hypervisor(IDENTITY, state="up")]
    code, output = start()
    assert (code, machine.has_become("tini")) == (1, False)
    assert "a nova-compute named node1 reported to Nova in the last minute; wait one" in output
    assert list(folder.iterdir()) == []


def test_an_administrator_chooses_between_several_identities(nova: Nova, folder: Path, start: Start) -> None:
    nova.hypervisors = [hypervisor(IDENTITY), hypervisor(OTHER)]
    code, output = start()
    assert code == 1
    assert f"into /srv/nova/compute_id: {IDENTITY} (node1.example), {OTHER} (node1.example)" in output
    assert list(folder.iterdir()) == []


def test_a_nova_that_does_not_answer_stops_no_node(nova: Nova, machine: Machine, folder: Path, start: Start) -> None:
    nova.fails = True
    code, output = start()
    assert (code, machine.has_become("tini")) == (0, True)
    assert output == "ServiceUnavailable as Nova was asked for this node's identity: nova-compute decides\n"
    assert list(folder.iterdir()) == []
