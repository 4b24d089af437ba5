"""Programs that serve metrics: what a Prometheus reads of a server, of an exporter, and of one that is silent."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents, pki
from openstack_operator.agents.metrics import answers as bounds
from openstack_operator.agents.metrics import appctl, chassis, libvirt, memcached, ovn, serve, upstream
from openstack_operator.agents.metrics.serve import UP, Metrics, Page, Server, page
from openstack_operator.parts.run.exporters import SERVER
from tools.localcluster.ports import free_port

TIMEOUT = 60
"""Seconds after which a test that hangs ends."""


ALL: Metrics = {**memcached.METRICS, **ovn.METRICS, **chassis.METRICS, **libvirt.METRICS}


def text_of(collect: Callable[[Page], None]) -> str:
    made = Page(ALL)
    collect(made)
    return made.text()


@contextmanager
def serving(server: Server) -> Generator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(TIMEOUT)


def get(port: int, path: str = "/metrics", *, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    connection: http.client.HTTPConnection
    if context:
        connection = http.client.HTTPSConnection("localhost", port, timeout=TIMEOUT, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_a_page_has_help_type_and_escaped_labels() -> None:
    made = Page({"x_total": ("name", "Things."), "y": ("", "Yes.")})
    made.add("x_total", 3, name='a"\\\n')
    made.add("x_total", 4.5, name="b")
    made.add("y", True)
    assert made.text() == (
        '# HELP x_total Things.\n# TYPE x_total counter\nx_total{name="a\\"\\\\\\n"} 3\nx_total{name="b"} 4.5\n'
        "# HELP y Yes.\n# TYPE y gauge\ny 1\n"
    )


def test_a_silent_program_is_down_and_the_others_are_up(capfd: pytest.CaptureFixture[str]) -> None:
    def silent(made: Page) -> None:
        made.add("a_value", 1)
        raise OSError("no such file")

    metrics = {"a_value": ("", "Half of an answer."), "b_value": ("", "An answer.")}
    body = page({"a": silent, "b": lambda made: made.add("b_value", 2)}, metrics).decode()
    assert "a_up 0\n" in body
    assert "b_up 1\n" in body
    assert "b_value 2\n" in body
    assert "a_value" not in body
    assert capfd.readouterr().err == "exporter: a: no such file\n"


def test_an_answer_without_an_expected_field_costs_no_other_metrics(capfd: pytest.CaptureFixture[str]) -> None:
    def changed(made: Page) -> None:
        made.add("b_value", float({"field": 1}["renamed"]))

    metrics = {"b_value": ("", "An answer.")}
    body = page({"a": changed, "b": lambda made: made.add("b_value", 2)}, metrics).decode()
    assert "a_up 0\n" in body and "b_up 1\n" in body and "b_value 2\n" in body
    assert capfd.readouterr().err == "exporter: a: KeyError('renamed')\n"


@pytest.mark.security
def test_metrics_have_one_path_and_a_page_is_shared_by_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "FRESH", 3600.0)
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"x 1\n"

    with serving(Server(make, 0)) as port:
        assert {get(port) for _ in range(5)} == {(200, "x 1\n")}
        assert made == [1]
        for path in ("/", "/probe?target=10.0.0.1:80", "/metrics/", "/metrics?x=1"):
            assert get(port, path)[0] == 404
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        connection.request("POST", "/metrics", body="x")
        assert connection.getresponse().status == 501


def test_without_a_page_the_answer_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    def make() -> bytes:
        raise OSError("the exporter does not run")

    with serving(Server(make, 0)) as port:
        assert get(port)[0] == 502
    assert "the exporter does not run" in capfd.readouterr().err


def test_a_new_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = pki.authority("drawn", "ca", now)

    def store(draw: str) -> str:
        request = pki.Request(common="metrics", names=frozenset({"localhost"}))
        pair = pki.certificate(None, request, authority, lambda: draw, now)
        (tmp_path / "tls.crt").write_text(pair.cert, encoding="utf-8")
        (tmp_path / "tls.key").write_text(pair.key, encoding="utf-8")
        return pair.cert

    trust = ssl.create_default_context(cadata=authority.cert)
    with serving(Server(lambda: b"x 1\n", 0, str(tmp_path))) as port:
        for draw in ("first", "second"):
            stored = store(draw)
            assert get(port, context=trust) == (200, "x 1\n")
            assert ssl.get_server_certificate(("localhost", port)).split() == stored.split()
        with pytest.raises((http.client.HTTPException, OSError)):
            get(port)


STATS = {
    "version": "1.6.38",
    "uptime": "12",
    "curr_connections": "3",
    "max_connections": "1024",
    "get_hits": "7",
    "get_misses": "2",
    "evictions": "5",
    "limit_maxbytes": "67108864",
    "bytes": "128",
}


@contextmanager
def answering(reply: Callable[[bytes], bytes], path: Path | None = None) -> Generator[int]:
    """A server that answers the first block of each connection."""
    listener = socket.socket(socket.AF_UNIX) if path else socket.create_server(("127.0.0.1", 0))
    if path:
        listener.bind(str(path))
        listener.listen()

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(reply(connection.recv(65536)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield 0 if path else listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(TIMEOUT)


def test_memcached_is_asked_for_its_statistics() -> None:
    lines = "".join(f"STAT {name} {value}\r\n" for name, value in STATS.items())
    with answering(lambda request: f"{lines}END\r\n".encode() if request == b"stats\r\n" else b"") as port:
        text = text_of(lambda made: memcached.collect(made, port))
    for line in (
        'memcached_version{version="1.6.38"} 1',
        "memcached_uptime_seconds 12",
        "memcached_items_evicted_total 5",
        "memcached_limit_bytes 67108864",
        'memcached_commands_total{command="get",status="hit"} 7',
        'memcached_commands_total{command="get",status="miss"} 2',
    ):
        assert f"{line}\n" in text
    assert_documented(text, ALL)


@pytest.mark.parametrize("answer", [b"ERROR\r\n", b"STAT uptime 1\r\n", b""])
def test_memcached_that_answers_otherwise_is_down(answer: bytes) -> None:
    with answering(lambda _: answer) as port:
        assert b"memcached_up 0\n" in page({"memcached": lambda made: memcached.collect(made, port)}, ALL)


def test_a_port_without_a_server_is_down() -> None:
    assert b"memcached_up 0\n" in page({"memcached": lambda made: memcached.collect(made, free_port())}, ALL)


@contextmanager
def control(path: Path, answers: Mapping[str, Any]) -> Generator[None]:
    """A socket as programs of Open vSwitch have it."""

    def reply(request: bytes) -> bytes:
        asked = json.loads(request)
        key = " ".join([asked["method"], *(each for each in asked["params"] if isinstance(each, str))])
        if key not in answers:
            return json.dumps({"id": asked["id"], "result": None, "error": f'"{key}" is not a command'}).encode()
        return json.dumps({"id": asked["id"], "result": answers[key], "error": None}).encode()

    with answering(reply, path):
        yield


COVERAGE = """\
Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=5d1f3b0f:
lflow_run                  0.0/sec     0.017/sec        0.0014/sec   total: 5
txn_success                0.0/sec     0.000/sec        0.0000/sec   total: 77
12 events never hit
"""


def cluster_status(role: str = "leader", leader: str = "self") -> str:
    return f"""\
9a5c
Name: OVN_Northbound
Cluster ID: 1d2a (1d2a5bd5-2c3e-4b9d-9b53-0b9c0d5b7c0a)
Server ID: 9a5c (9a5c5bd5-2c3e-4b9d-9b53-0b9c0d5b7c0b)
Address: ssl:ovn-nb-0.ovn-nb.openstack.svc.cluster.local:6643
Status: cluster member
Role: {role}
Term: 3
Leader: {leader}
Vote: self

Last Election started 1190 ms ago, reason: timeout
Election timer: 5000
Log: [2, 9]
Entries not yet committed: 1
Entries not yet applied: 0
Connections: ->1c2d <-1c2d ->3e4f
Disconnections: 4
Servers:
    9a5c (9a5c at ssl:ovn-nb-0.ovn-nb.openstack.svc.cluster.local:6643) (self) next_index=4 match_index=8
    1c2d (1c2d at ssl:ovn-nb-1.ovn-nb.openstack.svc.cluster.local:6643) next_index=9 match_index=8 last msg 40 ms ago
    3e4f (3e4f at ssl:ovn-nb-2.ovn-nb.openstack.svc.cluster.local:6643) next_index=9 match_index=8
"""


@pytest.fixture
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A path of a socket has at most 107 characters.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ovn, "FOLDER", ".")
    for name in ("SWITCH", "DATABASE", "CONTROLLER"):
        monkeypatch.setattr(chassis, name, name.lower())
    return Path()


def test_a_member_tells_of_its_cluster(sockets: Path) -> None:
    answers = {"cluster/status OVN_Northbound": cluster_status(), "memory/show": "cells:12 sessions:3 n-weak-refs:0"}
    with control(sockets / "ovnnb_db.ctl", answers):
        text = text_of(lambda made: ovn.member(made, "nb"))
    database = 'database="OVN_Northbound"'
    for name, value in {
        "cluster_member": 1,
        "cluster_leader": 1,
        "cluster_has_leader": 1,
        "cluster_term": 3,
        "cluster_servers": 3,
        "cluster_log_not_committed": 1,
        "cluster_disconnections_total": 4,
    }.items():
        assert f"ovn_db_{name}{{{database}}} {value}\n" in text
    assert f'ovn_db_cluster_connections{{{database},direction="out"}} 2\n' in text
    assert f'ovn_db_memory{{{database},component="n-weak-refs"}} 0\n' in text
    assert_documented(text, ALL)


def test_a_member_without_a_leader_says_so(sockets: Path) -> None:
    answers = {"cluster/status OVN_Northbound": cluster_status("candidate", "unknown"), "memory/show": ""}
    with control(sockets / "ovnnb_db.ctl", answers):
        text = text_of(lambda made: ovn.member(made, "nb"))
    assert 'ovn_db_cluster_has_leader{database="OVN_Northbound"} 0\n' in text
    assert 'ovn_db_cluster_leader{database="OVN_Northbound"} 0\n' in text


def test_a_member_that_has_not_joined_is_down(sockets: Path) -> None:
    with control(sockets / "ovnnb_db.ctl", {}):
        assert b"ovn_db_up 0\n" in page(ovn.collectors("nb"), ALL)
    assert b"ovn_db_up 0\n" in page(ovn.collectors("nb"), ALL)


def labels_of(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def assert_documented(text: str, metrics: Metrics) -> None:
    """The reference has the metrics that a program serves, with their labels."""
    for name, labels in labels_of(text).items():
        documented = metrics[name][0]
        assert labels == set(filter(None, documented.split(", "))), name


@pytest.mark.parametrize(("status", "value"), [("active", 1), ("standby", 0), ("paused", 0)])
def test_northd_metrics_show_whether_it_is_active(sockets: Path, status: str, value: int) -> None:
    answers = {
        "status": f"Status: {status}\n",
        "nb-connection-status": "connected\n",
        "sb-connection-status": "not connected\n",
        "coverage/show": COVERAGE,
    }
    with control(sockets / "ovn-northd.ctl", answers):
        body = page(ovn.collectors("northd"), ALL).decode()
    assert f"ovn_northd_active {value}\n" in body
    assert 'ovn_northd_connected{database="OVN_Northbound"} 1\n' in body
    assert 'ovn_northd_connected{database="OVN_Southbound"} 0\n' in body
    assert 'ovn_northd_coverage_total{event="txn_success"} 77\n' in body
    assert_documented(body, {**ALL, "ovn_northd_up": UP})


UPCALL = "netdev@ovs-netdev:\n  flows         : (current 24) (avg 23) (max 49) (limit 200000)\n  dump duration : 1ms\n"
ROWS = [
    {"name": "br-int", "type": "internal", "link_state": ["set", []], "statistics": ["map", []]},
    {
        "name": "tap1",
        "type": "",
        "link_state": "up",
        "statistics": ["map", [["rx_bytes", 10], ["tx_dropped", 2], ["collisions", 0]]],
    },
]


def test_a_node_tells_of_its_switch_and_its_controller(sockets: Path) -> None:
    transact = {"transact Open_vSwitch": [{"rows": ROWS}]}
    with (
        control(sockets / "switch", {"upcall/show": UPCALL, "coverage/show": COVERAGE}),
        control(sockets / "database", transact),
        control(sockets / "controller", {"connection-status": "connected\n", "coverage/show": COVERAGE}),
    ):
        body = page({"ovs": chassis.switch, "ovn_controller": chassis.controller}, ALL).decode()
    for line in (
        "ovs_up 1",
        "ovn_controller_up 1",
        "ovs_datapath_flows 24",
        "ovn_controller_connected 1",
        'ovs_interface_link_up{interface="br-int",type="internal"} 0',
        'ovs_interface_link_up{interface="tap1",type="system"} 1',
        'ovs_interface_receive_bytes_total{interface="tap1",type="system"} 10',
        'ovs_interface_transmit_dropped_total{interface="tap1",type="system"} 2',
        'ovs_coverage_total{event="lflow_run"} 5',
    ):
        assert f"{line}\n" in body
    assert_documented(body, {**ALL, "ovs_up": UP, "ovn_controller_up": UP})


def test_an_answer_in_parts_is_read_to_its_end(sockets: Path) -> None:
    with control(sockets / "switch", {"long": "x" * 300_000}):
        assert len(appctl.call("switch", "long")) == 300_000


@pytest.mark.security
def test_an_answer_without_an_end_is_not_read_to_it(sockets: Path) -> None:
    with control(sockets / "switch", {"long": "x" * (bounds.LARGEST + 1)}), pytest.raises(OSError, match="bytes"):
        appctl.call("switch", "long")


DOMSTATS = """\
c0ffee00-0000-4000-8000-000000000001 instance-00000001 \n c0ffee00-0000-4000-8000-000000000002 instance-00000002

Domain: 'instance-00000001'
  state.state=1
  state.reason=5
  cpu.time=2500000000
  balloon.current=524288
  balloon.rss=1024
  vcpu.current=2
  net.count=1
  net.0.name=tapc0ffee
  net.0.rx.bytes=100
  net.0.tx.bytes=200
  block.count=1
  block.0.name=vda
  block.0.rd.bytes=4096
  block.0.wr.bytes=8192

Domain: 'instance-00000002'
  state.state=5
  state.reason=1
  vcpu.0.time=1000000000
  vcpu.1.time=2000000000
"""


def test_libvirt_tells_of_its_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "virsh", f"[ \"$1\" = -r ] || exit 1\ncat << 'END'\n{DOMSTATS}END")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    text = text_of(libvirt.collect)
    first = 'domain="instance-00000001",uuid="c0ffee00-0000-4000-8000-000000000001"'
    for line in (
        f"libvirt_domain_cpu_seconds_total{{{first}}} 2.5",
        f"libvirt_domain_cpu_seconds_total{{{first.replace('01', '02')}}} 3",
        f"libvirt_domain_memory_bytes{{{first}}} 536870912",
        f"libvirt_domain_vcpus{{{first}}} 2",
        f'libvirt_domain_block_write_bytes_total{{device="vda",{first}}} 8192',
        f'libvirt_domain_interface_receive_bytes_total{{device="tapc0ffee",{first}}} 100',
        'libvirt_domains{state="running"} 1',
        'libvirt_domains{state="shutoff"} 1',
    ):
        assert f"{line}\n" in text
    assert_documented(text, ALL)


def test_a_libvirt_that_does_not_answer_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, "virsh", 'echo "error: Failed to connect socket" >&2; exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert b"libvirt_up 0\n" in page({"libvirt": libvirt.collect}, ALL)
    assert "Failed to connect socket" in capfd.readouterr().err
    program(tmp_path, "virsh", "exec sleep 60")
    monkeypatch.setattr(libvirt, "PATIENCE", 0.2)
    assert b"libvirt_up 0\n" in page({"libvirt": libvirt.collect}, ALL)


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


EXPORTER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (os.environ["REDIS_PASSWORD"] + self.path).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@contextmanager
def container(modules: Sequence[str], words: Sequence[str], env: Mapping[str, str]) -> Generator[subprocess.Popen[str]]:
    """The command of a container, as a plan has it."""
    command = agents.python(*SERVER, *modules, words=words)
    process = subprocess.Popen(
        [sys.executable, *command[1:]], env={**os.environ, **env}, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(TIMEOUT)
        assert process.stderr
        process.stderr.close()


def until_answer(port: int, *starting: int) -> tuple[int, str]:
    """Return the first answer of a program, and with the status `starting` the first other one."""
    pause = threading.Event()
    for _ in range(TIMEOUT * 20):
        with contextlib.suppress(OSError):
            if (answer := get(port))[0] not in starting:
                return answer
        pause.wait(0.05)
    raise TimeoutError("no answer")


@pytest.mark.seconds
def test_an_exporter_is_asked_for_metrics_alone_and_ends_with_the_pod(tmp_path: Path) -> None:
    port, upstream_port = free_port(), free_port()
    password = tmp_path / "password"
    password.write_text("hidden\n", encoding="utf-8")
    env = {
        "METRICS_PORT": str(port),
        "UPSTREAM_PORT": str(upstream_port),
        "PASSWORD_FILE": str(password),
        "PASSWORD_VARIABLE": "REDIS_PASSWORD",
    }
    words = [sys.executable, "-c", EXPORTER, str(upstream_port)]
    with container(["metrics/upstream.py"], words, env) as process:
        assert until_answer(port, 502) == (200, "hidden/metrics")
        assert get(port, "/probe?target=10.0.0.1:80")[0] == 404
        assert "hidden" not in Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8")
    with pytest.raises(OSError, match=r"refused|reset"):
        get(upstream_port)


@pytest.mark.seconds
def test_an_exporter_that_ends_does_not_end_its_container(tmp_path: Path) -> None:
    port, count = free_port(), tmp_path / "count"
    crash = program(tmp_path, "exporter", f"echo x >> {count}; exit 3")
    env = {"METRICS_PORT": str(port), "UPSTREAM_PORT": "1"}
    with container(["metrics/upstream.py"], [str(crash)], env) as process:
        assert process.stderr
        assert "exporter ended with 3; it starts again in 5 s" in process.stderr.readline()
        assert until_answer(port)[0] == 502
        assert process.poll() is None


def test_an_exporter_that_cannot_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class EndError(Exception):
        pass

    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise EndError

    monkeypatch.setattr(upstream.time, "sleep", sleep)
    with pytest.raises(EndError):
        upstream.Exporter(["/nonexistent"], {}).keep()
    assert pauses == [5, 30, 30, 30]


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("modules", "words", "up"),
    [
        (("metrics/memcached.py",), (), ["memcached_up 0"]),
        (("metrics/appctl.py", "metrics/ovn.py"), ("nb",), ["ovn_db_up 0"]),
        (("metrics/appctl.py", "metrics/ovn.py"), ("northd",), ["ovn_northd_up 0"]),
        (("metrics/appctl.py", "metrics/chassis.py"), (), ["ovs_up 0", "ovn_controller_up 0"]),
        (("metrics/libvirt.py",), (), ["libvirt_up 0"]),
    ],
)
def test_each_program_serves_as_a_plan_delivers_it(
    modules: Sequence[str], words: Sequence[str], up: Sequence[str], tmp_path: Path
) -> None:
    port = free_port()
    program(tmp_path, "virsh", "exit 1")
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = {"METRICS_PORT": str(port), "PLAIN_PORT": "1", "PATH": path}
    with container(modules, words, env):
        status, body = until_answer(port)
    assert status == 200
    assert all(f"{each}\n" in body for each in up)
