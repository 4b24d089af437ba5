"""A node whose disk is new gets the identity that Nova knows, unless its servers would lose disks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from openstack_operator.plan import Release
from tests.agents.nova_plan import planned_nova

from .programs import Machine, pods

IDENTITY = "6e1a6d4e-0000-4000-8000-000000000001"
OTHER = "6e1a6d4e-0000-4000-8000-000000000002"
Start = Callable[..., tuple[int, str]]


class Nova(ThreadingHTTPServer):
    """Answers with the services, hypervisors and servers that it has. `fails` ends each request with an error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.services: list[dict[str, Any]] = [{"host": "node1", "binary": "nova-compute"}]
        self.hypervisors = [hypervisor(IDENTITY), hypervisor(OTHER, host="node2", state="up")]
        self.servers: list[dict[str, Any]] = []
        self.fails = False
        self.asked: list[str] = []


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        nova, url = cast("Nova", self.server), urlsplit(self.path)
        nova.asked.append(url.path)
        # Nova refuses the parameters that it does not know.
        expected = {
            "/os-services": ("services", {"binary": ["nova-compute"], "host": ["node1"]}),
            "/os-hypervisors/detail": ("hypervisors", {}),
            "/servers/detail": ("servers", {"all_tenants": ["1"], "host": ["node1"]}),
        }
        name, parameters = expected[url.path]
        assert parse_qs(url.query) == parameters
        self.send_response(503 if nova.fails else 200)
        self.end_headers()
        self.wfile.write(json.dumps({name: getattr(nova, name)}).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


def hypervisor(identity: str, *, host: str = "node1", state: str = "down") -> dict[str, Any]:
    """Return a hypervisor as Nova's API shows it."""
    return {"id": identity, "state": state, "service": {"host": host}}


def server(name: str, *, image: object = "", ephemeral: int = 0, swap: int = 0) -> dict[str, Any]:
    """Return a server as Nova's API shows it."""
    return {"id": name, "image": image, "flavor": {"disk": 1, "ephemeral": ephemeral, "swap": swap}}


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

    def run(more: str = "") -> tuple[int, str]:
        conf = tmp_path / "nova.conf"
        at = f"http://127.0.0.1:{nova.server_port}"
        conf.write_text(f"[neutron]\nauth_type = none\nendpoint = {at}\nregion_name = A\n{more}")
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


def test_servers_on_volumes_lose_nothing(nova: Nova, folder: Path, start: Start) -> None:
    nova.servers = [server("a"), server("b")]
    assert start()[0] == 0
    assert (folder / "compute_id").read_text() == IDENTITY


def test_servers_with_disks_in_ceph_lose_nothing(nova: Nova, folder: Path, start: Start) -> None:
    nova.servers = [server("a", image={"id": "i"})]
    assert start("[libvirt]\nimages_type = rbd\n")[0] == 0
    assert (folder / "compute_id").read_text() == IDENTITY


@pytest.mark.parametrize("disk", [{"image": {"id": "i"}}, {"ephemeral": 1}, {"swap": 512}])
def test_a_node_whose_servers_lose_disks_waits(
    nova: Nova, machine: Machine, folder: Path, start: Start, disk: dict[str, Any]
) -> None:
    nova.servers = [server("on-a-volume"), *(server(f"s{number}", **disk) for number in range(4))]
    code, output = start()
    assert code == 1
    assert output.strip() == (
        "error: the node lacks /srv/nova/compute_id and disks of 4 servers (s0, s1, s2, ...); mount its disk; if"
        " that is lost, evacuate or delete them, or `touch /srv/nova/disks-are-lost` on the node"
    )
    assert not machine.has_become("tini")
    assert list(folder.iterdir()) == []


def test_an_administrator_gives_lost_disks_up_once(nova: Nova, folder: Path, start: Start) -> None:
    nova.servers = [server("a", image={"id": "i"})]
    (folder / "disks-are-lost").touch()
    assert start()[0] == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"compute_id": IDENTITY}


def test_a_node_does_not_take_the_identity_of_one_that_runs(
    nova: Nova, machine: Machine, folder: Path, start: Start
) -> None:
    nova.hypervisors = [hypervisor(IDENTITY, state="up")]
    code, output = start()
    assert (code, machine.has_become("tini")) == (1, False)
    assert "the name of this node, node1" in output
    assert list(folder.iterdir()) == []


def test_an_administrator_chooses_between_several_identities(nova: Nova, folder: Path, start: Start) -> None:
    nova.hypervisors = [hypervisor(IDENTITY), hypervisor(OTHER)]
    code, output = start()
    assert code == 1
    assert f"write one of {IDENTITY}, {OTHER} into /srv/nova/compute_id" in output
    assert list(folder.iterdir()) == []


def test_a_nova_that_does_not_answer_stops_no_node(nova: Nova, machine: Machine, folder: Path, start: Start) -> None:
    nova.fails = True
    code, output = start()
    assert (code, machine.has_become("tini")) == (0, True)
    assert output == "ServiceUnavailable in the request for the identity of this node\n"
    assert list(folder.iterdir()) == []
