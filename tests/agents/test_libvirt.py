"""libvirt leaves the cgroups of its container, and gets new keys and certificates while it runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.kube import secret_data
from openstack_operator.plan import Plan
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import context
from tests.planning import release_of
from tests.unit.polling import until

from .programs import Machine, planned_container

PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
    "Barbican": {"internalURL": "http://barbican-api:9311"},
    "CephStorage": {
        "monitors": "10.0.0.1",
        "fsid": "f",
        "vmsUser": "client.nova",
        "vmsPool": "vms",
        "vmsSecret": "ceph-client-vms",
    },
    "Cinder": {"cephKeys": "22222222-2222-8222-8222-222222222222=ceph-cinder", "attaches": "ceph"},
}
SECRETS = {
    "neutron-credentials": {"metadata": "shared"},
    "ceph-client-vms": {"ceph.conf": "", "keyring": "", "key": "key-of-nova"},
    "ceph-cinder": {"ceph.conf": "", "keyring": "", "key": "key-of-cinder"},
}


def planned(spec: Mapping[str, Any], profile: str = "debian") -> Plan:
    release = release_of(profile)
    return plan(context(NOVA, spec, release=release, published=PUBLISHED, secrets=SECRETS))


class Cgroups(Machine):
    """A node with a tree of cgroups that are only files; its images need no keys and no certificates."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"CGROUPS": str(folder / "cgroup"), "OWN_GROUPS": str(folder / "own")})
        self.spec = planned_container(planned({"imageProfile": "kolla"}, "kolla"), "DaemonSet", "nova-libvirt")
        self.root = folder / "cgroup"
        self.program("dumb-init")

    def group(self, path: str, **files: str) -> None:
        """Create a group, with `files` besides the list of processes."""
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text("1\n")
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)

    def start_program(self, *own_groups: str) -> subprocess.CompletedProcess[str]:
        """Run the container's program until it becomes libvirt."""
        (self.home / "own").write_text("".join(f"{line}\n" for line in own_groups))
        secrets = self.home / "secrets"
        secrets.mkdir(exist_ok=True)
        return self.run(self.spec, SECRETS_FOLDER=secrets)

    @property
    def guests(self) -> dict[str, str]:
        """Return what was written to the list of processes of each group, besides the first process."""
        lists = {each.parent: each.read_text().strip() for each in self.root.rglob("cgroup.procs") if each.is_file()}
        return {str(folder.relative_to(self.root)): text for folder, text in lists.items() if text != "1"}


@pytest.fixture(name="cgroups")
def _cgroups(tmp_path: Path) -> Cgroups:
    return Cgroups(tmp_path)


POD = "kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-2.scope"


@pytest.mark.parametrize(
    ("own", "group"),
    [
        (f"/kubepods.slice/{POD}", "openstack-guests"),
        ("/kubepods/burstable/pod1/2", "openstack-guests"),
        (f"/node/kubepods.slice/{POD}", "node/openstack-guests"),
        ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice/2", "kubelet.slice/openstack-guests"),
        ("/", "openstack-guests"),
    ],
)
def test_libvirt_leaves_the_groups_of_the_kubelet(cgroups: Cgroups, own: str, group: str) -> None:
    cgroups.group("")
    cgroups.group(own.strip("/"))
    ended = cgroups.start_program(f"0::{own}")
    assert cgroups.guests == {group: "0"}, "the process that writes, and no other"
    assert cgroups.has_become("dumb-init"), "the process that left"
    assert cgroups.calls()[0].startswith("dumb-init --single-child")
    assert ended.stderr == ""


def test_libvirt_leaves_each_hierarchy(cgroups: Cgroups) -> None:
    """Of version 1, some with names of their own; of those that are not mounted there is nothing to leave."""
    hierarchies = ("cpuset", "cpu,cpuacct", "systemd", "unified")
    for name in hierarchies:
        cgroups.group(name)
    cgroups.group("cpuset", cpuset_cpus="0-3\n", cpuset_mems="0\n")
    names = ("cpuset", "cpu,cpuacct", "name=systemd", "rdma")
    ended = cgroups.start_program(
        *(f"{n}:{name}:/kubepods/pod1/2" for n, name in enumerate(names, 1)), "0::/kubepods/pod1/2"
    )
    assert cgroups.guests == {f"{name}/openstack-guests": "0" for name in hierarchies}
    folder = cgroups.root / "cpuset" / "openstack-guests"
    # A group without processors takes no process.
    assert [(folder / f"cpuset.{name}").read_text() for name in ("cpus", "mems")] == ["0-3\n", "0\n"]
    assert ended.stderr == ""


def test_libvirt_says_that_guests_will_end_with_it(cgroups: Cgroups) -> None:
    for name in ("cpuset", "memory"):
        cgroups.group(name)
    # Nothing can be written there.
    (cgroups.root / "cpuset" / "openstack-guests" / "cgroup.procs").mkdir(parents=True)
    ended = cgroups.start_program("2:cpuset:/kubepods/pod1/2", "1:memory:/kubepods/pod1/2")
    assert "warning: guests will end with this container" in ended.stderr
    assert cgroups.guests == {"memory/openstack-guests": "0"}
    assert cgroups.calls()[0].startswith("dumb-init --single-child")


class Libvirt(Machine):
    """A node whose libvirt has keys of Ceph, and certificates for migration and consoles."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"CGROUPS": str(folder / "none")})
        result = planned({"compute": {"storageType": "ceph"}, "cinderRef": {"name": "cinder"}})
        self.spec = planned_container(result, "DaemonSet", "nova-libvirt")
        [keys] = [obj for obj in result.objects if obj["metadata"]["name"] == "nova-libvirt-secrets"]
        self.files = secret_data(keys)
        self.keys, self.secrets, self.certificates = folder / "keys", folder / "secrets", folder / "tls"
        for each in (self.keys, self.secrets, self.certificates / "migration", self.certificates / "consoles"):
            each.mkdir(parents=True)
        for name, text in self.files.items():
            (self.keys / name).write_text(text)
        for each in ("migration", "consoles"):
            (self.certificates / each / "cert").write_text("old")
        # What is there as libvirt starts.
        self.program("tini", f"stat -c '%a %n' {self.secrets} {self.secrets}/* > {folder}/start")
        for name in ("qemu-certificates", "virt-admin", "virsh"):
            self.program(name)
        # A few milliseconds instead of ten seconds; not longer than this process runs, or the loops would outlive it.
        self.program("sleep", f"kill -0 {os.getpid()} && exec /bin/sleep 0.02")

    @contextmanager
    def started(self) -> Generator[None]:
        """Run the container's program, which has become libvirt, and what it started beside."""
        with self.start(
            self.spec, KEYS_FOLDER=self.keys, SECRETS_FOLDER=self.secrets, CERTIFICATES_FOLDER=self.certificates
        ):
            until("libvirt starts", lambda: "tini -s -- libvirt-start" in self.calls())
            yield

    def replace(self, file: Path, text: str) -> None:
        """Replace a file at once, as the kubelet does."""
        new = self.home / "new"
        new.write_text(text)
        new.replace(file)

    def wait_for(self, *calls: str) -> None:
        """Wait until each of these calls was made, and until the loops have looked at their files again since."""
        for call in calls:
            until(call, lambda call=call: call in self.calls())
        looks = self.calls().count("sleep 10")
        until("all loops look again", lambda: self.calls().count("sleep 10") > looks + 10)

    def changes(self, *names: str) -> list[str]:
        """Return the calls of some programs, without those that only list guests."""
        return [each for each in self.calls() if each.split()[0] in names and " list " not in each]


@pytest.fixture(name="libvirt")
def _libvirt(tmp_path: Path) -> Libvirt:
    return Libvirt(tmp_path)


def test_passphrases_of_volumes_have_a_folder_that_libvirt_alone_may_open(tmp_path: Path) -> None:
    """Without Ceph, too, where libvirt has no key before the first volume."""
    machine = Machine(tmp_path, {"CGROUPS": str(tmp_path / "none")})
    machine.program("tini")
    spec = planned_container(planned({"barbicanRef": {"name": "barbican"}}), "DaemonSet", "nova-libvirt")
    [folder] = [each["mountPath"] for each in spec["volumeMounts"] if each["name"] == "libvirt-secrets"]
    assert {"name": "SECRETS_FOLDER", "value": folder} in spec["env"]
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o777)
    certificates = tmp_path / "tls"
    for each in ("migration", "consoles"):
        (certificates / each).mkdir(parents=True)
    with machine.start(spec, SECRETS_FOLDER=secrets, CERTIFICATES_FOLDER=certificates):
        until("libvirt starts", lambda: "tini -s -- libvirt-start" in machine.calls())
    assert secrets.stat().st_mode & 0o777 == 0o700


def test_libvirt_starts_with_its_keys_and_others_cannot_read_them(libvirt: Libvirt) -> None:
    with libvirt.started():
        until("libvirt starts", (libvirt.home / "start").exists)
        libvirt.wait_for()
    modes = dict(line.split()[::-1] for line in (libvirt.home / "start").read_text().splitlines())
    assert modes.pop(str(libvirt.secrets)) == "700"
    assert modes == {f"{libvirt.secrets}/{name}": "600" for name in libvirt.files}
    assert {each.name: each.read_text() for each in libvirt.secrets.iterdir()} == libvirt.files
    assert libvirt.changes("virsh", "virt-admin", "qemu-certificates") == [], "nothing has changed"


def test_libvirt_gets_a_changed_key_until_it_takes_it(libvirt: Libvirt) -> None:
    uuid = "22222222-2222-8222-8222-222222222222"
    refused = f"[ $(grep -c 'set-value {uuid}' {libvirt.record}) -gt 1 ]"
    libvirt.program("virsh", f"case $* in *set-value*{uuid}*) {refused} ;; esac")
    xmls = sorted(name for name in libvirt.files if name.endswith(".xml"))
    with libvirt.started():
        libvirt.replace(libvirt.keys / f"{uuid}.base64", "new")
        until("it is asked twice", lambda: len(libvirt.changes("virsh")) >= 4 * len(xmls))
        libvirt.wait_for()
    calls: list[str] = []
    for xml in xmls:
        key = str(libvirt.keys / xml.removesuffix(".xml"))
        calls.append(f"virsh -q -c qemu:///system secret-define {key}.xml")
        calls.append(f"virsh -q -c qemu:///system secret-set-value {Path(key).name} --file {key}.base64")
    assert libvirt.changes("virsh") == [*calls, *calls], "once refused, and once taken"


def test_libvirt_gets_new_certificates_for_migration(libvirt: Libvirt) -> None:
    order = "virt-admin -c libvirtd:///system server-update-tls libvirtd"
    libvirt.program("virt-admin", f"[ $(grep -c virt-admin {libvirt.record}) -gt 1 ]")
    with libvirt.started():
        libvirt.replace(libvirt.certificates / "migration" / "cert", "new")
        until("it is asked twice", lambda: libvirt.calls().count(order) >= 2)
        libvirt.wait_for()
    # QEMU's files first: libvirt reads copies.
    assert libvirt.changes("qemu-certificates", "virt-admin") == ["qemu-certificates", order] * 2


def test_guests_get_new_certificates_for_consoles(libvirt: Libvirt) -> None:
    """Also those that run before libvirt answers, and one that cannot take any prevents no other."""
    libvirt.program("virsh", "case $4 in list) printf 'plain\\nother\\n' ;; *) [ $5 = other ] ;; esac")
    reloads = [f"virsh -q -c qemu:///system domdisplay-reload {guest}" for guest in ("plain", "other")]
    with libvirt.started():
        until("guests get what is there", lambda: libvirt.changes("virsh") == reloads)
        libvirt.replace(libvirt.certificates / "consoles" / "cert", "new")
        until("guests get the new ones", lambda: len(libvirt.changes("virsh")) >= 4)
        libvirt.wait_for()
    assert libvirt.changes("virsh", "qemu-certificates") == [*reloads, "qemu-certificates", *reloads]


def test_guests_get_certificates_once_libvirt_answers(libvirt: Libvirt) -> None:
    silent = f"[ $(grep -c 'list --uuid' {libvirt.record}) -gt 3 ] && echo guest"
    libvirt.program("virsh", f"case $4 in list) {silent} ;; esac")
    with libvirt.started():
        libvirt.wait_for("virsh -q -c qemu:///system domdisplay-reload guest")
    assert libvirt.changes("virsh") == ["virsh -q -c qemu:///system domdisplay-reload guest"]
