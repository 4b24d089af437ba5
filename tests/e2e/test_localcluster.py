"""The embedded cluster runs what a cloud needs, and leaves the machine as it found it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tools.localcluster import archives, faults, layout, paths

ROOT = Path(__file__).parents[2]
SERVICE = "http://web.default.svc.cluster.local"
VOLUMES = "/var/lib/local-path-provisioner /run/localcluster/state/shared"
LIVES = Path("/var/lib/openstack-operator/test/inner/seen")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")


class Cluster:
    """A cluster beside the one that may be running, with a directory of its own."""

    def __init__(self, name: str, state: Path) -> None:
        self.name = name
        self.environment = os.environ | {"OPENSTACK_OPERATOR_STATE": str(state)}
        self.environment.pop("KUBECONFIG", None)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tools.localcluster", "--name", self.name, *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, f"{arguments}: {errors}{output}"
        return output

    def kubectl(self, *arguments: str) -> str:
        return self.run("kubectl", *arguments)

    def inside(self, pod: str, script: str) -> str:
        return self.kubectl("exec", pod, "--", "/busybox", "sh", "-c", script).strip()

    def fetch(self, pod: str, url: str) -> str:
        return self.inside(pod, f"/busybox timeout 3 /busybox wget -qO- {url}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    # Below /tmp, which every node covers with its own: the nodes must still find it.
    state = tmp_path_factory.mktemp("state")
    running = Cluster("check", state)
    before = machine("check")
    try:
        running.run("up", "--nodes", "2", "--label", "openvswitch=enabled")
        running.run("load", str(busybox(tmp_path_factory.mktemp("image"))))
        running.kubectl("apply", "-f", str(ROOT / "tests/e2e/localcluster.yaml"))
        running.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s")
        yield running
    finally:
        running.run("down", "--purge")
    assert not (state / "check").exists()
    assert machine("check") == before


@pytest.fixture
def suffering(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> layout.Cluster:
    """The same cluster, for faults."""
    monkeypatch.setenv("OPENSTACK_OPERATOR_STATE", cluster.environment["OPENSTACK_OPERATOR_STATE"])
    return layout.Cluster(cluster.name)


def machine(name: str) -> list[str]:
    """Links, routes, packet filters, mounts, kernel settings, cgroups and processes, but for what changes by itself."""
    commands = [
        "ip -br link",
        "ip route show table all",
        "ip rule",
        "iptables-save",
        "ip6tables-save",
        "cat /proc/mounts",
    ]
    shown = [subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout for command in commands]
    lines = [
        re.sub(r"\[\d+:\d+\]", "", line) for text in shown for line in text.splitlines() if not line.startswith("#")
    ]
    # Images may be in the making meanwhile, and addresses of another cluster's cables come a second after the cables.
    others = re.compile(rf"\blc-(?!{re.escape(name)}(?![a-z0-9]))")
    lines = [line for line in lines if str(paths.cache()) not in line and not others.search(line)]
    lines += [f"{path} {path.read_text()}" for path in kernel_settings()]
    lines += [str(path) for path in Path("/sys/fs/cgroup").rglob(f"localcluster-{name}")]
    return lines + processes(name)


def kernel_settings() -> list[Path]:
    names = "vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops net/ipv4/ip_forward"
    return [Path("/proc/sys", name) for name in names.split()]


def processes(name: str) -> list[str]:
    """Those of the cluster, by the cgroup they are in."""
    found: list[str] = []
    for cgroup in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):
            # A zombie is gone; it is for the machine's own init to take note.
            dead = ") Z " in (cgroup.parent / "stat").read_text()
            if f"localcluster-{name}" in cgroup.read_text() and not dead:
                found.append(cgroup.parent.name)
    return found


def busybox(folder: Path) -> Path:
    """The archive of an image with a shell and the usual tools."""
    path = shutil.which("busybox")
    if path is None or subprocess.run(["ldd", path], capture_output=True, check=False).returncode == 0:
        fetch = "apt-get download -qq busybox-static && dpkg -x busybox-static*.deb . && cp bin/busybox busybox"
        subprocess.run(["sh", "-c", fetch], cwd=folder, check=True, capture_output=True)
        path = str(folder / "busybox")
    archives.write(folder / "busybox.tar", "localhost/busybox:test", [Path(path)])
    return folder / "busybox.tar"


def test_logs_and_exec_reach_a_pod_on_another_node(cluster: Cluster) -> None:
    assert cluster.kubectl("logs", "web").strip() == "started"
    assert cluster.kubectl("exec", "web", "--", "/busybox", "hostname").strip() == "web"


@pytest.mark.parametrize("pod", ["web", "agent"])
def test_a_service_answers_by_its_name_from_everywhere(cluster: Cluster, pod: str) -> None:
    # From the pod behind the Service, too: its own packets come back to it.
    assert cluster.fetch(pod, SERVICE) == "served"


def test_a_port_is_forwarded(cluster: Cluster) -> None:
    forward = cluster.start("kubectl", "port-forward", "pod/web", ":8080")
    try:
        assert forward.stdout
        port = int(re.findall(r":(\d+) ->", forward.stdout.readline())[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as answer:
            assert answer.read().strip() == b"served"
    finally:
        # The command has a kubectl below it, which ends when its pipe does not.
        children = Path(f"/proc/{forward.pid}/task/{forward.pid}/children").read_text().split()
        for pid in [*map(int, children), forward.pid]:
            os.kill(pid, signal.SIGTERM)
        forward.communicate()


def test_a_mount_of_a_pod_is_seen_only_by_its_node(cluster: Cluster) -> None:
    cluster.run("exec", "node1", "test", "-e", str(LIVES))
    assert "absent" in cluster.run("exec", "node2", "sh", "-c", f"test -e {LIVES} || echo absent")
    assert not LIVES.exists()


def test_a_node_has_what_virtual_machines_need(cluster: Cluster) -> None:
    assert cluster.kubectl("exec", "agent", "--", "/busybox", "ls", "/dev/net/tun").strip() == "/dev/net/tun"


def test_a_node_cannot_write_to_the_host(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="Read-only"):
        cluster.run("exec", "node1", "touch", "/etc/written-by-a-node")


def test_all_nodes_see_a_shared_volume(cluster: Cluster) -> None:
    cluster.inside("agent", "echo written > /shared/on-node1")
    assert cluster.inside("web", "/busybox cat /shared/on-node1") == "written"


def test_a_sized_volume_gets_full(cluster: Cluster) -> None:
    cluster.inside("web", "echo kept > /sized/kept")
    with pytest.raises(AssertionError, match="No space left on device"):
        cluster.inside("web", "/busybox dd if=/dev/zero of=/sized/full bs=1M count=32")


def test_a_second_start_changes_nothing(cluster: Cluster) -> None:
    before = cluster.kubectl("get", "pods", "-A", "-o", "name")
    started = time.monotonic()
    cluster.run("up", "--nodes", "2")
    assert time.monotonic() - started < 10
    assert cluster.kubectl("get", "pods", "-A", "-o", "name") == before


@pytest.mark.parametrize("nodes", ["node2", "--all"])
def test_nodes_without_power_come_back_with_their_data(cluster: Cluster, nodes: str) -> None:
    cluster.run("stop-node", nodes)
    cluster.run("start-node", nodes)
    for pod in ("agent", "client"):
        _await_answer(cluster, pod, SERVICE)
    assert cluster.inside("web", "/busybox cat /sized/kept") == "kept"


def test_a_killed_pod_starts_again_with_the_clock_of_its_node(cluster: Cluster, suffering: layout.Cluster) -> None:
    before = _restarts(cluster, "web")
    faults.set_clock(suffering, "node2", 600)
    faults.kill_pod(suffering, "default", "web")
    _await(lambda: _restarts(cluster, "web") == before + 1)
    _await_answer(cluster, "agent", SERVICE)
    # The image has no C library to be deceived, but what would do it is there.
    assert cluster.inside("web", "/busybox cat /etc/faketimerc /etc/ld.so.preload") == "+600\n/usr/lib/libfaketime.so.1"
    faults.set_clock(suffering, "node2", 0)
    assert cluster.inside("web", "/busybox cat /etc/faketimerc") == "+0"


def test_a_frozen_pod_goes_on(cluster: Cluster, suffering: layout.Cluster) -> None:
    before = _restarts(cluster, "web")
    faults.freeze(suffering, "default", "web")
    assert not _answers(cluster, "agent", SERVICE)
    faults.thaw(suffering, "default", "web")
    _await_answer(cluster, "agent", SERVICE)
    assert _restarts(cluster, "web") == before


def test_a_cut_separates_pods_until_it_is_healed(cluster: Cluster, suffering: layout.Cluster) -> None:
    web, client = (cluster.kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}") for pod in ("web", "client"))
    faults.cut(suffering, [[web], [client]])
    try:
        assert not _answers(cluster, "client", f"http://{web}:8080")
        assert not _answers(cluster, "client", SERVICE)
        assert _answers(cluster, "agent", SERVICE)
    finally:
        faults.heal(suffering)
    assert _answers(cluster, "client", f"http://{web}:8080")
    assert _answers(cluster, "client", SERVICE)


def test_a_watch_from_before_a_compaction_is_refused(cluster: Cluster, suffering: layout.Cluster) -> None:
    pods = "/api/v1/namespaces/default/pods"
    old = json.loads(cluster.kubectl("get", "--raw", pods))["metadata"]["resourceVersion"]
    cluster.kubectl("annotate", "pod", "web", "changed=true")
    assert faults.compact(suffering) > int(old)
    faults.restart_program(suffering, "node1", "kube-apiserver")
    _await(lambda: cluster.kubectl("get", "--raw", "/readyz") == "ok")
    refused = json.loads(cluster.kubectl("get", "--raw", f"{pods}?watch=1&resourceVersion={old}&timeoutSeconds=5"))
    assert (refused["type"], refused["object"]["code"]) == ("ERROR", 410)


def test_nothing_is_left_of_a_removed_volume(cluster: Cluster) -> None:
    cluster.kubectl("delete", "-f", str(ROOT / "tests/e2e/localcluster.yaml"), "--wait=false")
    cluster.kubectl("wait", "pv", "--all", "--for=delete", "--timeout=60s")
    for node in ("node1", "node2"):
        assert "loop" not in cluster.run("exec", node, "cat", "/proc/mounts")
        assert not cluster.run("exec", node, "sh", "-c", f"find {VOLUMES} -name 'pvc-*' 2>/dev/null || true")


def test_a_node_is_lost_for_good_and_made_anew(cluster: Cluster) -> None:
    def identity() -> str:
        return cluster.kubectl("get", "node", "-l", "openvswitch=enabled,kubernetes.io/hostname=node2", "-o", "name")

    cluster.run("exec", "node2", "touch", "/var/lib/lost")
    cluster.run("lose-node", "node2")
    assert not identity()
    cluster.run("up", "--nodes", "2", "--label", "openvswitch=enabled")
    assert identity()
    assert "absent" in cluster.run("exec", "node2", "sh", "-c", "test -e /var/lib/lost || echo absent")


def _restarts(cluster: Cluster, pod: str) -> int:
    return int(cluster.kubectl("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}"))


def _answers(cluster: Cluster, pod: str, url: str) -> bool:
    with contextlib.suppress(AssertionError):
        return cluster.fetch(pod, url) == "served"
    return False


def _await_answer(cluster: Cluster, pod: str, url: str) -> None:
    _await(lambda: _answers(cluster, pod, url))


def _await(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(AssertionError):
            if done():
                return
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.parametrize("seconds", [0.3, 0.6, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("victim", ["starter", "node"])
def test_nothing_is_left_after_a_crash_while_starting(tmp_path: Path, victim: str, seconds: float) -> None:
    before = machine("crash")
    crashed = Cluster("crash", tmp_path)
    starter = crashed.start("up")
    time.sleep(seconds)
    pid_file = tmp_path / "crash/nodes/node1/init.pid"
    pid = starter.pid if victim == "starter" or not pid_file.exists() else int(pid_file.read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    starter.communicate()
    crashed.run("down", "--purge")
    assert machine("crash") == before
