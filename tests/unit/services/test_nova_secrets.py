"""nova-compute starts on a node once the libvirt there has the keys of Ceph that it will name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import context
from tests import leftovers
from tests.planning import release_of
from tests.unit.polling import TIMEOUT

PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
}
CEPH = {
    "monitors": "10.0.0.1",
    "fsid": "f",
    "vmsUser": "client.nova",
    "vmsPool": "vms",
    "vmsSecret": "ceph-client-vms",
}
KEYS = ["AQBvaWJlAAAAABAAaGVsbG9oZWxsb2hlbGxvIQ==", "AQBvaWJlAAAAABAAaGVsbG9oZWxsb2hlbGxvIg=="]

# Stands in for the module: a libvirt that does not answer at first, and knows what is in a folder.
LIBVIRT = """
import os, pathlib, re
there = pathlib.Path(os.environ["THERE"])
class libvirtError(Exception): pass
class Secret:
    def __init__(self, uuid): self.uuid = uuid
    def setValue(self, value): (there / self.uuid).write_bytes(value)
    def UUIDString(self): return self.uuid
class Connection:
    def secretDefineXML(self, xml): return Secret(re.search("<uuid>(.*)</uuid>", xml)[1])
    def listAllSecrets(self): return [Secret(each.name) for each in there.iterdir() if each.name != "asked"]
    def close(self): pass
def registerErrorHandler(*_): pass
def open(uri):
    (there / "asked").touch()
    first = there / "asked"
    if not first.stat().st_size:
        first.write_text("once")
        raise libvirtError("no answer")
    return Connection()
"""


def planned(key: str, *, local: bool = False) -> Plan:
    """Disks of servers in Ceph with that key, unless they are `local`."""
    release, compute = release_of("debian"), {} if local else {"storageType": "ceph"}
    secrets = {
        "neutron-credentials": {"metadata": "shared"},
        "ceph-client-vms": {"ceph.conf": "", "keyring": "", "key": key},
    }
    published = {**PUBLISHED, "CephStorage": CEPH}
    return plan(context(NOVA, {"compute": compute}, release=release, published=published, secrets=secrets))


def pod(result: Plan, name: str) -> Object:
    found = next(obj for obj in result.objects if (obj["kind"], obj["metadata"]["name"]) == ("DaemonSet", name))
    return found["spec"]["template"]


def keys(result: Plan) -> dict[str, str]:
    """Files libvirt is given."""
    secrets = [obj for obj in result.objects if obj["metadata"]["name"] == "nova-libvirt-secrets"]
    return kube.secret_data(secrets[0]) if secrets else {}


def test_other_keys_roll_nova_compute_and_not_libvirt() -> None:
    before, after = (planned(key) for key in KEYS)
    assert pod(before, "nova-libvirt") == pod(after, "nova-libvirt")
    assert pod(before, "nova-cell1-compute") != pod(after, "nova-cell1-compute")
    assert not any(key in str(pod(after, "nova-cell1-compute")) for key in KEYS)
    assert "initContainers" not in pod(planned(KEYS[0], local=True), "nova-cell1-compute")["spec"]


def test_nova_compute_does_not_mount_keys_of_volumes() -> None:
    template = pod(planned(KEYS[0]), "nova-cell1-compute")["spec"]
    [first], main = template["initContainers"], template["containers"][0]
    assert "ceph-keys" in [mount["name"] for mount in first["volumeMounts"]]
    assert "ceph-keys" not in [mount["name"] for mount in main["volumeMounts"]]
    assert not first["securityContext"].get("privileged")


@pytest.fixture
def run(tmp_path: Path) -> Generator[Any]:
    """Starts the program with files and a digest; the node's libvirt has what is in the folder `there`."""
    (tmp_path / "libvirt.py").write_text(LIBVIRT)
    (tmp_path / "there").mkdir()
    (tmp_path / "given").mkdir()
    processes: list[subprocess.Popen[str]] = []

    def start(result: Plan, files: Mapping[str, str]) -> subprocess.Popen[str]:
        for name, text in files.items():
            (tmp_path / "given" / name).write_text(text)
        [first] = pod(result, "nova-cell1-compute")["spec"]["initContainers"]
        env = leftovers.marked() | {each["name"]: each["value"] for each in first["env"]}
        env |= {"KEYS_FOLDER": str(tmp_path / "given")}
        env |= {"PYTHONPATH": str(tmp_path), "THERE": str(tmp_path / "there"), "PATH": os.environ["PATH"]}
        command = [sys.executable, *first["command"][1:]]
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    # One that waits without end would keep a test that has failed.
    for process in processes:
        process.kill()
        process.communicate()


def test_secrets_job_waits_until_libvirt_has_every_key(run: Any, tmp_path: Path) -> None:
    result = planned(KEYS[0])
    process = run(result, keys(result))
    assert process.wait(TIMEOUT) == 0
    assert process.stdout.read() == "libvirt: no answer\n"
    known = {each.name for each in (tmp_path / "there").iterdir()} - {"asked"}
    assert known == {name.partition(".")[0] for name in keys(result)}


def test_keys_of_before_are_not_taken_for_those_of_now(run: Any, tmp_path: Path) -> None:
    """Kubelet may show a moment longer what the Secret held; the same user may have another key."""
    before, after = (planned(key) for key in KEYS)
    process = run(after, keys(before))
    assert process.stdout.readline() == "the mounted keys are not yet those nova-compute needs\n"
    assert list((tmp_path / "there").iterdir()) == []
    for name, text in keys(after).items():
        (tmp_path / "given" / name).write_text(text)
    assert process.wait(TIMEOUT) == 0
