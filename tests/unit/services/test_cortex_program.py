"""The reference implementation of an external scheduler, as a process, and what it answers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.unit.polling import TIMEOUT, until
from tools.localcluster.kubernetes import ROOT
from tools.localcluster.ports import free_port

PROGRAM = ROOT / "images" / "cortex" / "cortex"
SEED = {
    "filters": [{"name": "AvailabilityZoneFilter"}, {"name": "ComputeCapabilitiesFilter"}],
    "weighers": [{"name": "RAMWeigher", "weight": 1.0}, {"name": "CPUWeigher", "weight": 1.0}],
}
EMPTIEST = {"free_ram_mb": 8192, "vcpus_total": 8, "vcpus_used": 0, "availability_zone": "one"}
PATH = "/scheduler/nova/external"


@dataclass
class Cortex:
    """A process of it."""

    port: int
    process: subprocess.Popen[bytes]

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ask(self, question: Any, path: str = PATH) -> tuple[int, Any]:
        status, text = self.request("POST", path, json.dumps(question).encode())
        return status, json.loads(text)

    def ranks(self, question: Any, path: str = PATH) -> list[str]:
        status, answer = self.ask(question, path)
        assert status == 200, answer
        return answer["hosts"]


def started(folder: Path, pipelines: Any) -> Cortex:
    port = free_port()
    file = folder / "cortex.json"
    file.write_text(json.dumps({"listen": f"127.0.0.1:{port}", "pipelines": pipelines}))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-I", PROGRAM, file], stderr=log)
    until("it to take connections", lambda: _takes(port))
    return Cortex(port, process)


@pytest.fixture(scope="module")
def cortex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cortex]:
    found = started(tmp_path_factory.mktemp("cortex"), {"nova": SEED, "cinder": {}})
    yield found
    found.process.terminate()
    assert found.process.wait(TIMEOUT) == 0


def question(spec: dict[str, Any] | None = None, **states: dict[str, Any]) -> dict[str, Any]:
    """A request as Nova's plug-in makes it; Nova's own weights prefer what comes first."""
    return {
        "spec": {"nova_object.name": "RequestSpec", "nova_object.data": spec or {}},
        "context": {"request_id": "req-1"},
        "hosts": [
            {"host": name, "hypervisor_hostname": name, "state": {**EMPTIEST, **state}}
            for name, state in states.items()
        ],
        "weights": {name: float(-place) for place, name in enumerate(states)},
    }


def test_the_sum_of_the_weighers_decides(cortex: Cortex) -> None:
    full, half = {"free_ram_mb": 100, "vcpus_used": 2}, {"free_ram_mb": 100}
    assert cortex.ranks(question(a=full, b=half, c={})) == ["c", "b", "a"]


def test_equal_hosts_keep_the_order_of_nova(cortex: Cortex) -> None:
    asked = question(a={}, b={})
    assert cortex.ranks(asked) == ["a", "b"]
    assert cortex.ranks({**asked, "weights": {"a": 1.0, "b": 2.0}}) == ["b", "a"]


@pytest.mark.parametrize(("weight", "first"), [(1.0, "empty"), (-1.0, "full"), (0, "full")])
def test_a_negative_weight_prefers_less(tmp_path: Path, weight: float, first: str) -> None:
    cortex = started(tmp_path, {"nova": {"weighers": [{"name": "RAMWeigher", "weight": weight}]}})
    assert cortex.ranks(question(full={"free_ram_mb": 1}, empty={}))[0] == first
    cortex.process.kill()
    cortex.process.wait()


def test_no_host_is_left_is_an_answer(cortex: Cortex) -> None:
    assert cortex.ranks(question({"availability_zone": "two"}, a={}, b={})) == []
    assert cortex.ranks(question()) == []


def test_a_server_goes_to_the_zone_it_asks_for(cortex: Cortex) -> None:
    states = {"a": {"availability_zone": "one"}, "b": {"availability_zone": "two"}}
    assert cortex.ranks(question({"availability_zone": "two"}, **states)) == ["b"]
    assert cortex.ranks(question({"availability_zone": None}, **states)) == ["a", "b"]


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        ("QEMU", True),
        ("ironic", False),
        ("s== QEMU", True),
        ("s!= QEMU", False),
        ("<in> QE", True),
        ("<or> ironic <or> QEMU", True),
        ("<or> ironic", False),
        ("s==", False),
        (">= 3", False),
    ],
)
def test_a_flavor_that_wants_capabilities_gets_them(cortex: Cortex, wanted: str, passes: bool) -> None:
    extra = {"capabilities:hypervisor_type": wanted, "hw:cpu_policy": "shared"}
    spec = {"flavor": {"nova_object.data": {"extra_specs": extra}}}
    assert cortex.ranks(question(spec, a={"hypervisor_type": "QEMU"}, b={"hypervisor_type": None})) == ["a"] * passes


@pytest.mark.parametrize(("wanted", "passes"), [(">= 10", True), ("10", True), ("== 9", False), ("<= 10.0", True)])
def test_numbers_are_compared_as_numbers(cortex: Cortex, wanted: str, passes: bool) -> None:
    spec = {"flavor": {"nova_object.data": {"extra_specs": {"capabilities:hypervisor_version": wanted}}}}
    assert cortex.ranks(question(spec, a={"hypervisor_version": 10})) == ["a"] * passes


def test_another_pipeline_has_its_own_path_and_rules(cortex: Cortex) -> None:
    asked = {"spec": {}, "hosts": [{"host": "lvm"}, {"host": "ceph"}], "weights": {"lvm": 1, "ceph": 2}}
    assert cortex.ranks(asked, "/scheduler/cinder/external") == ["ceph", "lvm"]
    assert cortex.ask(asked, "/scheduler/manila/external")[0] == 404


GOOD = question(a={})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "the request is not an object"),
        ({**GOOD, "spec": 1}, "spec: not an object"),
        ({"hosts": [], "weights": {}}, "spec: not an object"),
        ({**GOOD, "hosts": "a"}, "hosts: not a list"),
        ({**GOOD, "hosts": ["a"]}, "hosts[0]: not an object"),
        ({**GOOD, "hosts": [{}]}, "hosts[0].host: not a name"),
        ({**GOOD, "hosts": [{"host": "a", "state": []}]}, "hosts[0].state: not an object"),
        ({**GOOD, "hosts": [{"host": "a"}]}, "hosts[0].state.free_ram_mb: missing"),
        ({**GOOD, "weights": {}}, "weights: nothing for 'a'"),
        ({**GOOD, "weights": {"a": "1"}}, "weights.a: missing, or not a number"),
        ({**GOOD, "weights": {"a": 1, "b": 1}}, "weights: 'b' is none of hosts"),
        ({**GOOD, "pipeline": "kvm"}, "pipeline: there is no 'kvm'; leave it out, or write 'nova'"),
    ],
)
def test_a_wrong_request_is_told_the_field(cortex: Cortex, asked: Any, message: str) -> None:
    status, answer = cortex.ask(asked)
    assert (status, answer["error"][: len(message)]) == (400, message)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[" * 100000, {}, 400),
        (b"", {"Content-Length": "a"}, 411),
        (b"", {"Content-Length": str(1 << 40)}, 413),
    ],
)
def test_an_invalid_scheduling_request_is_refused(
    cortex: Cortex, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert cortex.request("POST", PATH, body, **headers)[0] == status


def test_other_methods_and_paths_are_told_so(cortex: Cortex) -> None:
    assert cortex.request("GET", PATH)[0] == 405
    assert cortex.request("GET", "/")[0] == 404
    assert "/scheduler/nova/external" in cortex.request("POST", "/", b"{}")[1]


def test_cortex_reports_that_it_is_up_and_counts_answers(cortex: Cortex) -> None:
    assert cortex.request("GET", "/up") == (200, "ok\n")
    before = counted(cortex)
    cortex.ask(GOOD)
    cortex.ask([])
    until("both to be counted", lambda: sum(counted(cortex).values()) == sum(before.values()) + 2)
    assert counted(cortex)["200"] == before.get("200", 0) + 1
    assert 'cortex_answer_seconds_total{pipeline="nova"} ' in cortex.request("GET", "/metrics")[1]


def counted(cortex: Cortex) -> dict[str, int]:
    """Answers of the pipeline for Nova by status."""
    text = cortex.request("GET", "/metrics")[1]
    found = re.findall(r'^cortex_answers_total\{pipeline="nova",code="(\d+)"\} (\d+)$', text, re.MULTILINE)
    return {code: int(number) for code, number in found}


def test_told_to_end_it_answers_what_it_was_asked(tmp_path: Path) -> None:
    cortex = started(tmp_path, {"nova": SEED})
    body = json.dumps(GOOD).encode()
    with socket.create_connection(("127.0.0.1", cortex.port), timeout=TIMEOUT) as connection:
        head = f"POST {PATH} HTTP/1.1\r\nHost: cortex\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[:10])
        # It has taken the connection once it answers a later one.
        cortex.request("GET", "/up")
        os.kill(cortex.process.pid, signal.SIGTERM)
        until("it to take no more", lambda: not _takes(cortex.port))
        connection.sendall(body[10:])
        assert b'{"hosts": ["a"]}' in b"".join(iter(lambda: connection.recv(4096), b""))
    assert cortex.process.wait(TIMEOUT) == 0


def _takes(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ("{}", "listen: not an address and a port"),
        ({"pipelines": []}, "pipelines: not an object"),
        ({"pipelines": {"nova": {"filters": {}}}}, "pipelines.nova.filters: not a list"),
        ({"pipelines": {"nova": {"filters": [{"name": "RAMWeigher"}]}}}, "pipelines.nova.filters[0].name: there is no"),
        ({"pipelines": {"nova": {"weighers": [{"name": "RAMWeigher", "weight": "1"}]}}}, "pipelines.nova.weighers[0]."),
    ],
)
def test_a_wrong_configuration_is_told_the_field(tmp_path: Path, config: Any, message: str) -> None:
    file = tmp_path / "cortex.json"
    file.write_text(config if isinstance(config, str) else json.dumps({"listen": "127.0.0.1:1", **config}))
    ended = subprocess.run([sys.executable, "-I", PROGRAM, file], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.startswith(f"cortex: {file}: {message}")) == (1, True), ended.stderr
