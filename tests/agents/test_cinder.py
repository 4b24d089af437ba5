"""The programs of Cinder's pods: the job that removes a backend, the volume group, and the stand-in for sudo."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release
from openstack_operator.services.cinder.model import CINDER
from openstack_operator.services.cinder.service import plan
from openstack_operator.testing import context

from .programs import Machine, job, pods

PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
    "Glance": {"internalURL": "http://glance-api.openstack:9292"},
}
FAST = ["cinder-volume-fast-0@fast", "cinder-volume-fast-1@fast"]
SERVICES = """\
Binary           Host                                 Zone             Status     State Updated At
cinder-scheduler cinder-volume-fast-0@fast            nova             enabled    :-)   2026-01-01
cinder-volume    cinder-volume-fast-0@fast            nova             enabled    {0}   2026-01-01
cinder-volume    cinder-volume-fast-1@fast            nova             enabled    {1}   2026-01-01
cinder-volume    cinder-volume-slow-0@slow            nova             enabled    :-)   2026-01-01
"""
MANAGE = """
[ "$1 $2" = "--config-file /etc/cinder/cinder.conf" ] || exit 2
case "$3 $4" in
"service list")
    cat "$STATE/services"
    if [ -e "$STATE/later" ]; then mv "$STATE/later" "$STATE/services"; fi ;;
esac
[ "$3 $4" != "$(cat "$STATE/failing" 2> /dev/null)" ] || { echo "no connection" >&2; exit 1; }
"""
LIST = "service list"


def planned(release: Release, *backends: dict[str, Any], children: Any = None) -> Plan:
    spec = {"backends": list(backends)}
    return plan(context(CINDER, spec, release=release, published=PUBLISHED, children=children or {}))


class Forget:
    """The job that removes the backend `fast`, and a cinder-manage that lists services."""

    def __init__(self, machine: Machine, release: Release, cluster: str = "cinder") -> None:
        spec: dict[str, Any] = {"backend": "fast", "hosts": FAST, **({"cluster": cluster} if cluster else {})}
        children = {
            ("CinderBackend", "cinder-fast"): {
                "metadata": {"name": "cinder-fast"},
                "spec": spec,
                "status": {"volumes": 0},
            }
        }
        self._container = job(
            planned(release, {"name": "slow", "type": "lvm"}, children=children), "cinder-forget-fast-"
        )
        self._machine = machine
        machine.program("cinder-manage", MANAGE)

    def run(self) -> tuple[int, str]:
        process = self._machine.run(self._container)
        return process.returncode, process.stderr

    @property
    def calls(self) -> list[str]:
        calls = self._machine.calls()
        return [call.removeprefix("cinder-manage --config-file /etc/cinder/cinder.conf ") for call in calls]


def state(machine: Machine, name: str, text: str) -> None:
    (machine.state / name).write_text(text)


REMOVED = [f"service remove cinder-volume {host}" for host in FAST]


def test_a_backend_is_removed_once_all_its_services_are_down(machine: Machine, release: Release) -> None:
    forget = Forget(machine, release)
    state(machine, "services", SERVICES.format("XXX", ":-)"))
    state(machine, "later", SERVICES.format("XXX", "XXX"))
    assert forget.run() == (0, "")
    assert forget.calls == [LIST, "sleep 5", LIST, *REMOVED, "cluster remove cinder-volume cinder@fast"]


def test_only_services_of_the_list_are_removed(machine: Machine, release: Release) -> None:
    """An interrupted run removed the other one."""
    forget = Forget(machine, release, cluster="")
    state(machine, "services", SERVICES.format("XXX", "XXX").replace(FAST[1], "cinder-volume-fast-11@fast"))
    assert forget.run() == (0, "")
    assert forget.calls == [LIST, REMOVED[0]]


@pytest.mark.parametrize(("failing", "calls"), [(LIST, [LIST]), ("service remove", [LIST, REMOVED[0]])])
def test_a_command_that_fails_ends_the_job(machine: Machine, release: Release, failing: str, calls: list[str]) -> None:
    forget = Forget(machine, release)
    state(machine, "services", SERVICES.format("XXX", "XXX"))
    state(machine, "failing", failing)
    status, error = forget.run()
    assert status == 1
    assert error.strip() == "no connection"
    assert forget.calls == calls


def test_a_cluster_that_an_earlier_run_removed_is_no_failure(machine: Machine, release: Release) -> None:
    forget = Forget(machine, release)
    state(machine, "services", "")
    state(machine, "failing", "cluster remove")
    assert forget.run()[0] == 0
    assert forget.calls == [LIST, "cluster remove cinder-volume cinder@fast"]


# A file in `groups` is a group, one in `labels` the label of a physical volume; a line of `loops` is a loop device.
LVM = {
    "vgs": '[ "$LVM_SYSTEM_DIR" = /etc/cinder ] && [ -e "$STATE/groups/$1" ]',
    "pvcreate": '[ ! -e "$STATE/refuses" ] && : > "$STATE/labels/${2##*/}"',
    "vgcreate": '[ "$LVM_SYSTEM_DIR" = /etc/cinder ] && [ -e "$STATE/labels/${2##*/}" ] && : > "$STATE/groups/$1"',
    "vgchange": '[ -e "$STATE/groups/$2" ]',
    "losetup": """
case $1 in
-j) grep -F "($2)" "$STATE/loops" || : ;;
-f) echo "/dev/loop7: [64769]:1 ($3)" >> "$STATE/loops"; echo /dev/loop7 ;;
esac
""",
    "modprobe": "exit 1",
}


class Group:
    """The init container that makes a volume group, with a fake LVM."""

    def __init__(self, machine: Machine, release: Release, **lvm: str) -> None:
        volume = pods(planned(release, {"name": "local", "type": "lvm", "lvm": lvm}), "cinder-volume-local")
        [container] = [each for each in volume["initContainers"] if each["name"] == "group"]
        *command, state, _ = container["command"]
        assert state in {mount["mountPath"] for mount in container["volumeMounts"]}
        self._machine, self._container = machine, container
        self.folder = machine.state / "node"
        self._command = [*command, str(self.folder), str(os.getuid())]
        for name in ("groups", "labels"):
            (machine.state / name).mkdir()
        (machine.state / "loops").touch()
        for name, script in LVM.items():
            machine.program(name, script)

    @property
    def file(self) -> Path:
        return self.folder / "disk.img"

    def run(self, status: int = 0) -> list[str]:
        """The calls of another run."""
        self._machine.forget_calls()
        process = self._machine.run(self._container, command=self._command)
        assert process.returncode == status, process.stderr
        return [call for call in self._machine.calls() if not call.startswith("modprobe")]


def test_a_new_group_lies_in_a_file_of_its_size(machine: Machine, release: Release) -> None:
    group = Group(machine, release)
    assert group.run() == [
        f"losetup -j {group.file}",
        f"losetup -f --show {group.file}",
        "vgs cinder-local",
        "pvcreate -y /dev/loop7",
        "vgcreate cinder-local /dev/loop7",
        "vgchange -ay cinder-local",
    ]
    assert group.file.stat().st_size == 20 * 1024**3
    assert (group.folder / "target").is_dir()
    assert (group.folder / "volumes").is_dir()


def test_the_data_of_a_group_outlive_its_pod_and_its_node(machine: Machine, release: Release) -> None:
    group = Group(machine, release)
    group.run()
    with group.file.open("r+") as disk:
        disk.write("data")
    attached = [f"losetup -j {group.file}", "vgs cinder-local", "vgchange -ay cinder-local"]
    assert group.run() == attached
    (machine.state / "loops").write_text(f"/dev/loop3: [64769]:1 ({group.file}.old)\n")
    assert group.run() == [attached[0], f"losetup -f --show {group.file}", *attached[1:]]
    with group.file.open() as disk:
        assert disk.read(4) == "data"
    assert group.file.stat().st_size == 20 * 1024**3


def test_a_group_lies_on_a_device(machine: Machine, release: Release) -> None:
    group = Group(machine, release, device="/dev/vdb", volumeGroup="own")
    new = ["vgs own", "pvcreate -y /dev/vdb", "vgcreate own /dev/vdb", "vgchange -ay own"]
    assert group.run() == new
    assert group.run() == [new[0], new[3]]
    assert not group.file.exists()


def test_an_interrupted_creation_is_completed(machine: Machine, release: Release) -> None:
    group = Group(machine, release, device="/dev/vdb")
    (machine.state / "labels" / "vdb").touch()
    assert group.run()[-2:] == ["vgcreate cinder-local /dev/vdb", "vgchange -ay cinder-local"]


def test_a_device_of_another_group_is_left_alone(machine: Machine, release: Release) -> None:
    """LVM refuses it."""
    group = Group(machine, release, device="/dev/vdb")
    (machine.state / "refuses").touch()
    assert group.run(status=1) == ["vgs cinder-local", "pvcreate -y /dev/vdb"]


def test_sudo_runs_programs_unchanged_without_host_access(machine: Machine, release: Release) -> None:
    made = planned(
        release, {"name": "array", "driver": "cinder.volume.drivers.pure.PureISCSIDriver", "hostAccess": False}
    )
    texts = [kube.secret_data(each).get("sudo") for each in made.objects if each["kind"] == "Secret"]
    [text] = [text for text in texts if text]
    sudo = machine.home / "bin" / "sudo"
    sudo.write_text(text)
    sudo.chmod(0o555)
    machine.program("cinder-rootwrap", "exit $#")
    container: Object = {"command": ["sudo", "cinder-rootwrap", "rootwrap.conf", "two words"]}
    assert machine.run(container).returncode == 2
    assert machine.calls() == ["cinder-rootwrap rootwrap.conf two words"]
