"""The program that makes a Ceph's pools and clients, run with the command and the files of the plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.agents.cephstorage import keeper
from openstack_operator.plan import Object, Release, key
from openstack_operator.services.cephstorage import config
from openstack_operator.services.cephstorage.model import CEPH_STORAGE
from openstack_operator.services.cephstorage.service import FOLDER, plan
from openstack_operator.testing import context
from tools.localcluster.ports import free_port

from .modules_of_ceph import rados

MODULES = Path(__file__).parent / "modules_of_ceph"
FOREIGN_KEY = config.cephx("foreign")


@pytest.fixture(autouse=True)
def ceph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ceph:
    """An empty Ceph, and the library that reaches it."""
    monkeypatch.setenv("CEPH_STATE", str(tmp_path / "ceph.json"))
    monkeypatch.setitem(sys.modules, "rados", rados)
    rados.save(rados.EMPTY)
    return Ceph()


class Ceph:
    """State of the Ceph."""

    def __getitem__(self, name: str) -> Any:
        return rados.load()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        rados.save({**rados.load(), name: value})


class Pod:
    """Container of a pod, with the folder that its plan delivers."""

    def __init__(self, release: Release, component: str, folder: Path, spec: Mapping[str, Any] | None = None) -> None:
        objects = {key(obj): obj for obj in plan(context(CEPH_STORAGE, spec, release=release, owner="ceph")).objects}
        workload = next(obj for (kind, name), obj in objects.items() if _is_workload(kind, name, component))
        [self.container] = workload["spec"]["template"]["spec"]["containers"]
        self.folder = folder
        folder.mkdir(exist_ok=True)
        for name, text in kube.secret_data(objects["Secret", f"ceph-{component}-setup"]).items():
            (folder / name).write_text(text, encoding="utf-8")

    @property
    def command(self) -> list[str]:
        """Its command, with the folder of the test."""
        words = [word.replace(FOLDER, str(self.folder)) for word in self.container["command"]]
        assert words[0] == "python3"
        return [sys.executable, *words[1:]]

    @property
    def desired(self) -> dict[str, Any]:
        return json.loads((self.folder / "wanted.json").read_text(encoding="utf-8"))

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command, env=environment(), capture_output=True, text=True, timeout=60, check=False)


def _is_workload(kind: str, name: str, component: str) -> bool:
    return kind in {"Job", "Deployment"} and name.startswith(f"ceph-{component}")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(MODULES)}


def ensure(pod: Pod) -> list[str]:
    """Run `ensure` in this process."""
    with keeper.connection(pod.desired["user"], pod.folder) as run:
        return keeper.ensure(run, pod.desired)


def report(folder: Path, clients: Mapping[str, str]) -> dict[str, Any]:
    for user in clients:
        (folder / f"{user}.keyring").write_text(f"[{user}]\n", encoding="utf-8")
    (folder / "ceph.conf").write_text("[global]\nmon host = mon-a, 192.0.2.1\n", encoding="utf-8")
    return keeper.report(lambda user: keeper.connection(user, folder), clients)


def test_the_job_makes_pools_and_clients_once(release: Release, tmp_path: Path, ceph: Ceph) -> None:
    job = Pod(release, "pools", tmp_path / "setup")
    first = job.run()
    assert (first.returncode, len(first.stdout.splitlines())) == (0, 12), first.stderr
    assert set(ceph["pools"]) == {"volumes", "images", "vms", "backups"}
    clients = {client["user"]: (client["key"], client["caps"]) for client in job.desired["clients"]}
    assert {user: (client["key"], client["caps"]) for user, client in ceph["clients"].items()} == clients
    ceph["commands"] = []
    second = job.run()
    assert second.stdout == "all pools and clients exist as described\n"
    assert set(ceph["commands"]) == {"osd dump", "auth get"}


def test_pools_follow_the_spec_and_nothing_else(release: Release, tmp_path: Path, ceph: Ceph) -> None:
    ensure(Pod(release, "pools", tmp_path / "setup"))
    pools = ceph["pools"]
    pools["volumes"]["size"] = 3
    ceph["pools"] = pools
    assert ensure(Pod(release, "pools", tmp_path / "setup")) == []
    spec = {"pools": {"volumes": {"size": 2, "autoscale": "off"}}}
    changes = ensure(Pod(release, "pools", tmp_path / "setup", spec))
    assert changes == ["pool volumes keeps 2 copies", "pool volumes has autoscaling off"]


def test_a_pool_may_shrink_to_one_copy(release: Release, tmp_path: Path, ceph: Ceph) -> None:
    ensure(Pod(release, "pools", tmp_path / "setup", {"osds": {"replicas": 3}}))
    assert ceph["pools"]["vms"]["size"] == 3
    ensure(Pod(release, "pools", tmp_path / "setup", {"pools": {"vms": {"size": 1}}}))
    assert ceph["pools"]["vms"]["size"] == 1


def test_the_pool_of_ceph_itself_grows_and_never_shrinks(release: Release, tmp_path: Path, ceph: Ceph) -> None:
    ceph["pools"] = {".mgr": {"pool_name": ".mgr", "size": 1}}
    changes = ensure(Pod(release, "pools", tmp_path / "setup", {"osds": {"replicas": 3}}))
    assert "pool .mgr keeps 3 copies" in changes
    assert not [line for line in ensure(Pod(release, "pools", tmp_path / "setup")) if ".mgr" in line]


def test_the_job_restores_the_key_of_a_client_of_ours_alone(release: Release, tmp_path: Path, ceph: Ceph) -> None:
    job = Pod(release, "pools", tmp_path / "setup")
    ensure(job)
    clients = ceph["clients"]
    foreign = {**clients, "client.nova": {**clients["client.nova"], "key": FOREIGN_KEY}}
    ceph["clients"] = foreign
    assert ensure(job) == ["client.nova has its key and capabilities again"]
    assert ceph["clients"] == clients
    ceph["clients"] = {**clients, "client.nova": {**clients["client.nova"], "caps": {"mon": "allow *"}}}
    assert ensure(job) == ["client.nova has its key and capabilities again"]
    assert ceph["clients"] == clients
    ceph["clients"] = foreign
    (job.folder / "wanted.json").write_text(json.dumps({**job.desired, "owned": False}), encoding="utf-8")
    result = job.run()
    assert result.returncode == 1
    assert "client.nova exists with a key that this operator did not create" in result.stderr
    assert ceph["clients"] == foreign


def test_the_job_ends_at_once_if_its_key_is_refused(release: Release, tmp_path: Path, ceph: Ceph) -> None:
    ceph["refuses"] = ["client.admin"]
    result = Pod(release, "pools", tmp_path / "setup").run()
    assert (result.returncode, result.stdout) == (1, "")
    assert "permission denied" in result.stderr


def test_the_job_waits_for_monitors(
    release: Release, tmp_path: Path, ceph: Ceph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two attempts at one connection: with the addresses of ceph.conf, and with the port of the second protocol.
    ceph["silent"] = 6
    pauses: list[float] = []
    monkeypatch.setattr(keeper.time, "sleep", pauses.append)
    job = Pod(release, "pools", tmp_path / "setup")
    keeper.main("ensure", job.folder)
    assert (len(pauses), ceph["silent"]) == (3, 0)
    assert capsys.readouterr().out.count("no answer") == 3
    ceph["silent"] = 1000
    with pytest.raises(SystemExit, match="the monitors did not answer"):
        keeper.main("ensure", job.folder)


def test_a_report_of_the_clients(tmp_path: Path, ceph: Ceph) -> None:
    clients = {"client.glance": "images", "client.nova": "vms"}
    ceph["pools"], ceph["refuses"] = {"vms": {}}, ["client.nova"]
    facts = report(tmp_path, clients)
    assert (facts["reachable"], facts["health"], facts["checks"]) == (True, "HEALTH_WARN", {"A": "a; b"})
    assert facts["missing"] == {"client.glance": "images"}
    assert "permission denied" in facts["refused"]["client.nova"]
    ceph["refuses"] = list(clients)
    facts = report(tmp_path, clients)
    assert (facts["reachable"], set(facts["refused"])) == (False, set(clients))
    ceph["silent"] = 2
    facts = report(tmp_path, clients)
    assert "timed out" in facts["message"]
    assert facts["refused"] == {}, "the first that nobody answers ends the report"


def test_a_refused_key_is_reported_if_monitors_serve_one_protocol(tmp_path: Path, ceph: Ceph) -> None:
    ceph["needs_port"], ceph["refuses"] = True, ["client.cinder"]
    assert "permission denied" in report(tmp_path, {"client.cinder": "volumes"})["refused"]["client.cinder"]


def test_the_status_pod_serves_its_report(release: Release, tmp_path: Path, ceph: Ceph) -> None:
    ceph["pools"] = {name: {} for name in ("volumes", "images", "vms", "backups")}
    pod = Pod(release, "status", tmp_path / "setup")
    *command, port = pod.command
    assert (
        int(port) == pod.container["readinessProbe"]["tcpSocket"]["port"] == pod.container["ports"][0]["containerPort"]
    )
    port = free_port()
    process = subprocess.Popen([*command, str(port)], env=environment())
    try:
        facts = ask(port)
    finally:
        process.kill()
        process.wait()
    assert (facts["reachable"], facts["refused"], facts["missing"]) == (True, {}, {})
    assert (facts["total"], facts["used"], facts["available"]) == (3, 2, 1)


def ask(port: int) -> Object:
    """Return the report, once there is one."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                return json.load(answer)
        except (ConnectionError, urllib.error.URLError):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("monitors", "expected"),
    [
        ("mon-a", "mon-a:3300"),
        ("mon-a.example.org,192.0.2.1; [2001:db8::1]", "mon-a.example.org:3300,192.0.2.1:3300; [2001:db8::1]:3300"),
        ("192.0.2.1:6789", "192.0.2.1:6789"),
        (
            "[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0] v2:192.0.2.2",
            "[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0] v2:192.0.2.2",
        ),
    ],
)
def test_the_second_protocol_has_a_port(monitors: str, expected: str) -> None:
    assert keeper.at_msgr2(monitors) == expected
