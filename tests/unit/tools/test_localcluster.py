"""The embedded cluster's decisions that need no root and no cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.polling import TIMEOUT, until
from tools.localcluster import (
    archives,
    build,
    cgroups,
    clock,
    cluster,
    components,
    doctor,
    init,
    layout,
    network,
    paths,
)
from tools.localcluster.target import target

PATH = os.environ["PATH"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSTACK_OPERATOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENSTACK_OPERATOR_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    # No kind and no Docker, whatever this machine has.
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(("free", "kept", "lacks"), [(13, 0, True), (9, 7, False), (9, 5, True), (15, 0, False)])
def test_images_that_a_cluster_keeps_need_no_room_again(
    free: int, kept: int, *, lacks: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, size in (("small", 1), ("large", kept)):
        (paths.state() / name / "images").mkdir(parents=True)
        (paths.state() / name / "images" / "size").write_text(str(size * 1024**2), encoding="utf-8")
    (tmp_path / "du").write_text('#!/bin/sh\nread -r size < "$2/size"\necho "$size $2"\n', encoding="utf-8")
    (tmp_path / "du").chmod(0o755)

    def disk_usage(folder: Path) -> SimpleNamespace:
        del folder
        return SimpleNamespace(free=free * 1024**3)

    monkeypatch.setattr(doctor.shutil, "disk_usage", disk_usage)
    disk, memory = doctor.check_sizes()
    assert bool(disk.cure) == lacks
    assert memory.subject.startswith("memory")
    assert f"beside {max(kept, 1)} GiB of images" in disk.subject


def test_the_cache_follows_the_conventions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENSTACK_OPERATOR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/somebody")
    assert paths.cache() == Path("/var/cache/somebody/openstack-operator")


def test_a_kubeconfig_of_the_users_own_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/.kube/config")
    assert target().kind == "existing"
    assert "/home/somebody/.kube/config" in target().why


def test_the_embedded_clusters_kubeconfig_is_not_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(layout.Cluster().kubeconfig))
    assert target().kind == "embedded"


def test_kind_is_used_where_docker_answers(tmp_path: Path) -> None:
    for command in ("kind", "docker"):
        (tmp_path / command).write_text("#!/bin/sh\n")
        (tmp_path / command).chmod(0o755)
    assert target().kind == "kind"


_NAMES = st.from_regex(r"\A[a-z][a-z0-9-]{0,8}\Z").filter(lambda name: not name.endswith(("-t", "-x")))


def _interfaces(name: str) -> set[str]:
    cluster = layout.Cluster(name)
    cables = {cable for index in range(1, layout.MAX_NODES + 1) for cable in cluster.node(index).cables.values()}
    assert len(cables) == 3 * layout.MAX_NODES
    return cables | set(cluster.bridges)


@given(_NAMES, _NAMES)
def test_interface_names_fit_the_kernel_and_no_other_cluster(name: str, other: str) -> None:
    assert all(len(interface) <= 15 for interface in _interfaces(name))
    assert name == other or not _interfaces(name) & _interfaces(other)


@pytest.mark.parametrize("name", ["", "Upper", "ten-letters", "1st", "a/b", "lab-t", "lab-x"])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="--name"):
        layout.Cluster(name)


def test_nodes_have_addresses_of_their_own() -> None:
    subnet = layout.subnets("openstack")[0]
    nodes = [layout.Cluster().node(index) for index in range(1, layout.MAX_NODES + 1)]
    assert len({node.address(subnet) for node in nodes}) == len({node.pod_range for node in nodes}) == len(nodes)
    assert nodes[0].tunnel_address(subnet) == "10.90.0.11/24"
    # The host's own address on the bridge.
    assert str(subnet[1]) not in {node.address(subnet) for node in nodes}


def test_discovery_cache_of_kubectl_goes_with_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later cluster at the same address serves other kinds: names that both have would lead to those of before."""

    def program(_part: str, name: str) -> Path:
        return paths.cache() / name

    def nothing(_: object) -> None: ...

    monkeypatch.setattr(build, "binary", program)
    monkeypatch.setattr(cgroups, "clear", nothing)
    monkeypatch.setattr(network, "remove", nothing)
    chosen = layout.Cluster("test")
    assert f"--cache-dir={chosen.discovered}" in cluster.kubectl_command(chosen)
    chosen.discovered.mkdir(parents=True)
    cluster.down(chosen)
    assert not chosen.discovered.exists()


def test_an_unknown_node_is_named_with_those_there_are() -> None:
    cluster = layout.Cluster()
    node = cluster.node(1)
    node.home.mkdir(parents=True)
    node.boot_file.touch()
    with pytest.raises(ValueError, match=r"node7: there is no such node; there are: node1"):
        cluster.node_called("node7")


def test_a_change_of_the_source_is_a_new_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "go" / "etcd"
    source.mkdir(parents=True)
    monkeypatch.setattr(build, "SOURCES", tmp_path / "go")
    (source / "main.go").write_text("package main\n")
    first = build.folder(build.PARTS["etcd"])
    (source / "main.go").write_text("package main // changed\n")
    assert build.folder(build.PARTS["etcd"]) != first


def test_a_missing_go_is_said_plainly() -> None:
    with pytest.raises(build.BuildError, match=r"go: not found; install Go"):
        build.build("etcd")


def test_an_unknown_part_is_answered_with_the_known_ones() -> None:
    with pytest.raises(build.BuildError, match=r"--only apisrever: choose from apiserver, kubernetes"):
        build.build("apisrever")


def test_a_part_that_no_cluster_needs_is_built_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = list[str]()

    def note(part: build.Part) -> Path:
        parts.append(part.name)
        return Path()

    monkeypatch.setattr(build, "ensure", note)
    build.build()
    assert not {"vault", "registry"} & set(parts)
    build.build("vault")
    assert parts[-1] == "vault"
    with pytest.raises(
        build.BuildError, match=r"vault is not built: run `python -m tools\.localcluster build --only vault`"
    ):
        build.binary("vault", "vault")


@pytest.fixture
def _go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Go that can build."""
    monkeypatch.setenv("PATH", PATH)
    if problem := build.go_problem():
        pytest.skip(f"go: {problem}")


@pytest.mark.usefixtures("_go")
def test_a_patch_is_compiled_in_the_place_of_a_module_s_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "go" / "lab"
    (source / "word").mkdir(parents=True)
    monkeypatch.setattr(build, "SOURCES", tmp_path / "go")
    (source / "go.mod").write_text(
        "module lab\n\ngo 1.21\n\nrequire example.org/word v1.0.0\n\nreplace example.org/word => ./word\n"
    )
    (source / "main.go").write_text('package main\n\nimport "example.org/word"\n\nfunc main() { print(word.Word) }\n')
    (source / "word" / "go.mod").write_text("module example.org/word\n\ngo 1.21\n")
    (source / "word" / "word.go").write_text('package word\n\nconst Word = "before"\n')
    for word, after in (("before", "after"), ("absent", "after")):
        patch = build.Patch("example.org/word", "word.go", f'"{word}"', f'"{after}"')
        part = build.Part("lab", {"lab": "."}, patches=(patch,))
        if word == "absent":
            with pytest.raises(build.BuildError, match="is not there exactly once"):
                build.ensure(part)
        else:
            program = build.ensure(part) / "lab"
            done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
            assert done.stderr == "after"


def test_an_archive_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"\x7fELF")
    archives.write(tmp_path / "image.tar", "localhost/tool:1", [tmp_path / "tool"])
    held = archives.held_by(tmp_path / "image.tar")
    assert list(held) == ["localhost/tool:1"]
    with tarfile.open(tmp_path / "image.tar") as tar:
        blob = tar.extractfile("blobs/sha256/" + held["localhost/tool:1"].removeprefix("sha256:"))
        assert blob
        assert len(json.load(blob)["layers"]) == 1


def test_a_docker_archive_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[]")
    with tarfile.open(tmp_path / "image.tar", "w") as tar:
        tar.add(tmp_path / "manifest.json", "manifest.json")
    assert archives.held_by(tmp_path / "image.tar") == {}


def test_private_files_are_private_from_the_start(tmp_path: Path) -> None:
    path = components.write_private(tmp_path / "new" / "kubeconfig", {"a": 1})
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_process_is_known_by_its_start_time() -> None:
    assert init.start_time(os.getpid()) == init.start_time(os.getpid())


def test_a_zombie_does_not_run() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    # Waits without reaping, so that the zombie stays.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError):
        init.start_time(process.pid)
    process.wait()


def test_the_supervisor_restarts_orders_and_ends(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from tests import leftovers
from tools.localcluster.init import Program, hold, supervise
hold(Path("."), "held", 3600)
def program(name, script, env={}, **more):
    command = ["/bin/sh", "-c", f"echo {name} >> order; {script}"]
    return Program(name, command, env={**env, **leftovers.marked()}, **more)
supervise(
    [
        program("service", "exec sleep 3600", after=["setup"]),
        program("setup", "exit $STATUS", env={"STATUS": "0"}, file="go", once=True),
        program("starter", "touch go; exec sleep 3600"),
        program("held", "exit 1", file="late"),
        program("free", "exit 1", file="late"),
    ],
    Path("."),
    Path("ca.crt"),
)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(build.__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, start_new_session=True, stdout=subprocess.PIPE
    )
    try:
        order = _lines(tmp_path / "order", 3)
        assert order == ["starter", "setup", "service"]
        (tmp_path / "late").touch()
        # Ended a moment ago, but held; what is not is started again.
        assert _lines(tmp_path / "order", 6)[3:].count("held") == 1
    finally:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    assert process.returncode == 0


def test_cgroups_that_are_not_there_have_no_members() -> None:
    assert cgroups.members("localcluster-absent") == set()
    assert not cgroups.exists("localcluster-absent")


@pytest.mark.parametrize(("file", "weight"), [("cpu.shares", "8192"), ("cpu.weight", "316")])
def test_a_node_s_programs_come_before_its_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, weight: str
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    for hierarchy in ("cpu", "memory"):
        (tmp_path / hierarchy / "node" / "system").mkdir(parents=True)
        (tmp_path / hierarchy / "cgroup.procs").touch()
    chosen = tmp_path / "cpu" / "node" / "system" / file
    chosen.write_text("1024")
    cgroups.prefer("node/system")
    assert chosen.read_text() == weight
    assert not (tmp_path / "memory" / "node" / "system" / file).exists()


def test_only_sized_volumes_are_made_with_privileges() -> None:
    manifests = yaml.safe_load_all((Path(build.__file__).parent / "manifests/storage.yaml").read_text())
    helpers = {
        manifest["metadata"]["name"]: yaml.safe_load(manifest["data"]["helperPod.yaml"])["spec"]
        for manifest in manifests
        if manifest["kind"] == "ConfigMap"
    }
    assert set(helpers) == {"local-path-config", "sized-config"}
    privileged = {
        name for name, spec in helpers.items() if "hostPID" in spec or "securityContext" in spec["containers"][0]
    }
    assert privileged == {"sized-config"}


_CONFIG: dict[str, Any] = {
    "process": {"env": ["A=1"], "args": ["echo", '"env":[', '"mounts":[']},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": []}],
}


@pytest.mark.parametrize("wrong", [True, False])
def test_a_container_gets_the_clock_of_its_node(tmp_path: Path, wrong: bool) -> None:
    runtime = tmp_path / "crun-of-the-node"
    runtime.write_text(clock.runtime(tmp_path))
    (tmp_path / "crun").write_text("#!/bin/sh\n")
    for script in ("crun", "crun-of-the-node"):
        (tmp_path / script).chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps(_CONFIG, separators=(",", ":")))
    (tmp_path / "process.json").write_text(json.dumps(_CONFIG["process"], separators=(",", ":")))
    (tmp_path / "faketimerc").touch()
    if wrong:
        (tmp_path / "wrong").touch()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([runtime, "create", "--bundle", tmp_path, "name"], env=environment, check=True)
    subprocess.run([runtime, "exec", "--process", tmp_path / "process.json", "name"], env=environment, check=True)
    # The container may be from before.
    assert "FAKETIME_DONT_FAKE_MONOTONIC=1" in json.loads((tmp_path / "process.json").read_text())["env"]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["process"]["args"] == _CONFIG["process"]["args"]
    if not wrong:
        assert config == _CONFIG
        return
    assert config["process"]["env"][-1] == "A=1"
    assert "FAKETIME_DONT_FAKE_MONOTONIC=1" in config["process"]["env"]
    destinations = [mount["destination"] for mount in config["mounts"]]
    assert destinations == ["/usr/lib/libfaketime.so.1", "/etc/ld.so.preload", "/etc/faketimerc", "/proc"]


def _lines(path: Path, count: int) -> list[str]:
    def lines() -> list[str]:
        found = path.read_text().split() if path.exists() else []
        return found if len(found) >= count else []

    return until(f"{count} lines in {path}", lines)


def test_images_that_others_took_the_place_of_go() -> None:
    there = {
        "localhost/nova:new": "sha256:2",
        "sha256:two": "sha256:2",
        "localhost/nova:old": "sha256:1",
        "sha256:one": "sha256:1",
        "localhost/nova:runs": "sha256:3",
        "localhost/glance:old": "sha256:4",
    }
    gone = cluster.outdated(there, {"localhost/nova:new"}, {"localhost/nova:runs", "gone"})
    assert gone == ["localhost/nova:old", "sha256:one"]
    assert cluster.outdated(there, set(), set()) == []
