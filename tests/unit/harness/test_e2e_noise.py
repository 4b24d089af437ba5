"""Lines of logs that are no errors are told from those that are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e.noise import FEW, NOISE, OF_THE_MACHINE, PATCHED, Count, counted, logs, table
from tools.localcluster.kubernetes import Kubernetes

OSLO = "2026-11-23 07:10:20.192 2"
LIBVIRT = "2026-11-23 07:09:51.748+0000: 1217: error :"
OVS = "2026-11-23T07:10:24Z|00009|"
RABBIT = "2026-11-23 07:38:48.944642+00:00 [error] <0.1867.0>"
UWSGI = "[pid: 7|app: 0|req: 1/1] 10.244.1.1 () {24 vars in 255 bytes} [Mon Nov 23 07:31:19 2026] GET"
ENDED = "=> generated 1 bytes in 0 msecs (HTTP/1.1"
AFTER_FORK = """\
Exception ignored in: <function _after_fork at 0x7fd867f9c9a0>
Traceback (most recent call last):
  File "/usr/lib/python3.13/threading.py", line 1573, in _after_fork
    current = _MainThread()
AssertionError: """


NOISY = [
    f"{OVS}stream_ssl|ERR|SSL_accept: unexpected SSL_ERROR_ZERO_RETURN",
    f"{OVS}reconnect|WARN|ssl:10.244.1.1:54740: connection dropped (Protocol error)",
    "accept4(): Resource temporarily unavailable",
    "5:M 23 Nov 2026 07:31:42.157 # Error accepting a client connection: error:0A000126",
    "Exception ignored in: <function _after_fork at 0x7fd867f9c9a0>",
    f"{OSLO} ERROR keystone.server.flask.application keystone.exception.Conflict: Duplicate ID, RegionOne..",
    f"{OSLO} WARNING keystone.common.fernet_utils [None req-1 - -] key_repository is world readable: /etc/keys",
    f"{UWSGI} /healthcheck {ENDED} 200) 2 headers in 64 bytes (1 switches on core 0)",
    f"{LIBVIRT} virNetSocketReadWire:1782 : End of file while reading data: Input/output error",
    f"{LIBVIRT} virNetTLSContextLoad:1 : Cannot read CA certificate '/etc/pki/CA/cacert.pem'",
    f"{LIBVIRT} virCgroupSetValueRaw:489 : Unable to write to '/sys/fs/cgroup/cpuset.cpus': Permission denied",
    f"{OSLO} WARNING neutron.scheduler.dhcp_agent_scheduler [None req-1 - -] No more DHCP agents",
]


@pytest.mark.parametrize("line", NOISY)
def test_noise_is_told_by_its_cause(line: str) -> None:
    count = counted([line])
    assert (count.noise.total(), count.errors) == (1, [])


def test_a_client_leaving_a_busy_memcached_is_no_noise_but_probes_are() -> None:
    line = "SSL_accept: error:0A000126:SSL routines::unexpected eof while reading"
    assert not counted([line] * 5).is_noisy(FEW)
    assert counted([line] * 6).is_noisy(FEW)
    assert counted(["Exception ignored in: <function _after_fork at 0x7f>"]).is_noisy(FEW)
    assert not counted([line] * 99).is_noisy(PATCHED)


def test_each_kind_of_noise_has_a_line_above() -> None:
    assert set(counted(NOISY).noise) == {known.why for known in NOISE}


@pytest.mark.parametrize(
    ("line", "errors"),
    [
        (f"{UWSGI} /healthcheck {ENDED} 503) 2 headers in 64 bytes (1 switches on core 0)", 0),
        (f"{UWSGI} / {ENDED} 200) 2 headers in 64 bytes (1 switches on core 0)", 0),
        (f"{UWSGI} /v3/users {ENDED} 200) 2 headers in 64 bytes (1 switches on core 0)", 0),
        (f"{OSLO} INFO nova.compute.manager [-] nothing of an error", 0),
        (f"{OSLO} WARNING keystone.server.flask.application [-] 403 Forbidden: no: keystone.exception.Forbidden", 0),
        (f"{OSLO} ERROR keystone.server.flask.application [-] An unexpected error prevented the server", 1),
        (f"{OSLO} CRITICAL nova [-] Unhandled error", 1),
        (f"{OVS}raft|ERR|the cluster has no leader", 1),
        (f"{LIBVIRT} qemuProcessReportLogError:2051 : internal error: QEMU unexpectedly closed the monitor", 1),
        (f"{RABBIT} Supervisor: {{ssl_gen_statem}} terminated", 1),
        ("2026-11-23  7:10:00 0 [ERROR] InnoDB: Unable to lock ./ibdata1", 1),
        ("2026-11-23  7:10:00 0 [Note] InnoDB: an [error] it is not", 0),
        ('{"event": "reconcile failed", "level": "error", "timestamp": "2026-11-23T07:40:01Z"}', 1),
        ('{"event": "applied", "level": "info", "timestamp": "2026-11-23T07:40:01Z"}', 0),
        ("Traceback (most recent call last):", 1),
        ("Exception ignored in: <function other at 0x7fd867f9c9a0>", 1),
    ],
)
def test_other_log_lines_are_errors_or_nothing(line: str, errors: int) -> None:
    count = counted([line])
    assert (len(count.errors), count.noise.total(), count.machine.total()) == (errors, 0, 0)


def test_errors_of_the_machine_are_counted_apart() -> None:
    lines = [
        f"{LIBVIRT} virHostCPUGetCPUID:1467 : Unable to open /dev/kvm: No such file or directory",
        f"{LIBVIRT} virCommandWait:2770 : internal error: Child process (/sbin/dmidecode -q -t 0) unexpected exit",
        f"{OVS}stream_ssl|ERR|ssl:ovn-sb-0.ovn-sb.openstack.svc:16642: connect: Address family not supported",
        f"{OVS}dpif_netdev|ERR|error receiving data from tapdbcf8a-be: Network is down",
        f"{RABBIT} missed heartbeats from client, timeout: 60s",
    ]
    count = counted(lines)
    assert set(count.machine) == {known.why for known in OF_THE_MACHINE}
    assert (count.noise.total(), count.errors) == (0, [])


def test_a_traceback_is_one_error() -> None:
    first = f"{OSLO} ERROR nova.compute.manager [None req-1 - -] [instance: 1] Failed"
    more = [f"{OSLO} ERROR nova.compute.manager {text}" for text in ("Traceback (most recent call last):", "  x")]
    other = "2026-11-23 07:10:21.000 2 ERROR nova.compute.manager [None req-2 - -] Failed again"
    assert counted([first, *more, other]).errors == [first, other]
    assert counted(AFTER_FORK.splitlines()).errors == []


class Cluster(Kubernetes):
    """Two pods, one of which is a job's."""

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        assert arguments == ("pods", "-n", "openstack")
        main = [{"name": "main"}]
        return [
            {"metadata": {"name": "api"}, "spec": {"initContainers": [{"name": "first"}], "containers": main}},
            {"metadata": {"name": "sync"}, "spec": {"containers": main}},
        ]

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        assert arguments[:3] == ("logs", "-n", "openstack")
        return json.dumps(arguments[3:]) + "\nTraceback (most recent call last):\n"


def test_every_container_is_read() -> None:
    found = dict(logs(Cluster("embedded", None), "openstack"))
    assert set(found) == {"api/first", "api/main", "sync/main"}
    assert found["api/first"] == ['["api", "-c", "first"]', "Traceback (most recent call last):"]


def test_the_table_says_what_each_pod_tells() -> None:
    counts: Mapping[str, Count] = {
        "quiet/main": counted(["well"]),
        "loud/main": counted([*["accept4(): Resource temporarily unavailable"] * 2, f"{OSLO} ERROR nova [-] Failed"]),
    }
    head, known, error = table(counts).splitlines()
    assert head == "loud/main: 3 lines, 2 of noise, 1 errors"
    assert known.startswith("    2 times: something connects to a port that speaks TLS")
    assert error.endswith("ERROR nova [-] Failed")
