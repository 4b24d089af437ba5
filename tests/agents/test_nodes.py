"""Programs that prepare nodes: the name of an iSCSI initiator, a node's certificate, and the wait for a switch."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from openstack_operator.kube import secret_data
from openstack_operator.plan import Node, Object, Release
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.neutron.service import plan as plan_neutron
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan as plan_nova
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan as plan_ovn
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import context

from .programs import Machine, planned_container

PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
    "Cinder": {"internalURL": "http://cinder-api:8776", "attaches": "iscsi"},
    "OVNNetwork": {"northbound": "tcp:ovn-nb-0:6641", "southbound": "tcp:ovn-sb-0:6642"},
}
LISTENING = "ffff8881: 00000002 00000000 00010000 0001 01 {} {}\n"
"""Line of /proc/net/unix: number of the inode, and path, of a listening socket."""


class InitiatorNode(Machine):
    """A node whose pod of nova-compute serves the kernel's initiator."""

    def __init__(self, folder: Path, release: Release) -> None:
        super().__init__(folder, {"SOCKETS": str(folder / "sockets")})
        secrets = {"neutron-credentials": {"metadata": "shared"}}
        spec = {"cinderRef": {"name": "cinder"}}
        planned = plan_nova(context(NOVA, spec, release=release, published=PUBLISHED, secrets=secrets))
        self.spec = planned_container(planned, "DaemonSet", "nova-cell1-compute", "iscsid")
        self.name_file = folder / "initiatorname.iscsi"
        self.sockets = folder / "sockets"
        self.sockets.touch()
        for name in ("modprobe", "iscsid", "sleep"):
            self.program(name)
        # A different name each time, as the real one.
        self.program("iscsi-iname", f"echo iqn.2016-04.com.open-iscsi:{folder.name}-$(grep -c iname {self.record})")

    def start_program(self) -> subprocess.CompletedProcess[str]:
        """Run the container's program until it becomes iscsid."""
        return self.run(self.spec, ISCSI_FOLDER=self.home)


@pytest.fixture(name="initiator")
def _initiator(tmp_path: Path, release: Release) -> InitiatorNode:
    return InitiatorNode(tmp_path / "one", release)


def test_each_node_gets_a_name_of_its_own_once(initiator: InitiatorNode, tmp_path: Path, release: Release) -> None:
    other = InitiatorNode(tmp_path / "two", release)
    for node in (initiator, initiator, other):
        node.start_program()
    assert initiator.name_file.read_text() == "InitiatorName=iqn.2016-04.com.open-iscsi:one-1\n"
    assert other.name_file.read_text() == "InitiatorName=iqn.2016-04.com.open-iscsi:two-1\n"
    assert initiator.name_file.stat().st_mode & 0o777 == 0o644
    assert [each for each in initiator.calls() if "iscsid" in each] == ["iscsid -f", "iscsid -f"]
    assert initiator.has_become("iscsid")
    assert "modprobe -q iscsi_tcp" in initiator.calls()
    assert not list(initiator.home.glob(".initiatorname*"))


@pytest.mark.parametrize("text", ["InitiatorName=iqn.1993-08.org.debian:01:f0", "# mine\n InitiatorName = iqn.mine \n"])
def test_a_node_keeps_the_name_that_it_has(initiator: InitiatorNode, text: str) -> None:
    initiator.name_file.write_text(text)
    (initiator.home / "iscsid.conf").write_text("node.startup = automatic\n")
    initiator.start_program()
    assert initiator.name_file.read_text() == text
    assert (initiator.home / "iscsid.conf").read_text() == "node.startup = automatic\n"


@pytest.mark.parametrize("text", ["", "InitiatorName=\n", "GenerateName=yes\n"])
def test_a_file_without_a_name_gets_one(initiator: InitiatorNode, text: str) -> None:
    initiator.name_file.write_text(text)
    initiator.start_program()
    assert initiator.name_file.read_text() == "InitiatorName=iqn.2016-04.com.open-iscsi:one-1\n"
    assert (initiator.home / "iscsid.conf").exists()


def test_a_name_that_another_pod_gave_meanwhile_remains(initiator: InitiatorNode) -> None:
    other = f"echo InitiatorName=iqn.other > {initiator.name_file}; echo iqn.late"
    initiator.program("iscsi-iname", other)
    initiator.start_program()
    assert initiator.name_file.read_text() == "InitiatorName=iqn.other\n"


def test_a_program_that_gives_no_name_leaves_no_file(initiator: InitiatorNode) -> None:
    """An empty name would remain."""
    initiator.program("iscsi-iname", "exit 1")
    initiator.start_program()
    assert not initiator.name_file.exists()


def test_iscsid_starts_once_no_other_serves_the_node(initiator: InitiatorNode) -> None:
    initiator.sockets.write_text(LISTENING.format(7, "@ISCSIADM_ABSTRACT_NAMESPACE"))
    initiator.program("sleep", f"[ $(grep -c sleep {initiator.record}) -lt 3 ] || : > {initiator.sockets}")
    initiator.start_program()
    assert initiator.calls()[-4:] == ["sleep 5", "sleep 5", "sleep 5", "iscsid -f"]


# -- a node's certificate --


def certificate_job(release: Release) -> tuple[Object, dict[str, str]]:
    """Return the container that stores a node's certificate, and the files."""
    authority = plan_pki(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: secret_data(obj) for obj in authority.objects if obj["kind"] == "Secret"}
    published = {"PKI": authority.outcome.published}
    spec = {"tls": {"pkiRef": {"name": "pki"}}}
    ctx = context(OVN_NETWORK, spec, release=release, owner="ovn", published=published, secrets=secrets)
    planned = plan_ovn(replace(ctx, nodes={"one": Node("one", {"openvswitch": "enabled"})}))
    [job] = [obj for obj in planned.objects if obj["kind"] == "Job"]
    [secret] = [obj for obj in planned.objects if obj["metadata"]["name"] == "ovn-chassis-tls-one"]
    return planned_container(planned, "Job", job["metadata"]["name"]), secret_data(secret)


class CertifiedNode(Machine):
    """A node whose certificate a Job stores."""

    def __init__(self, folder: Path, release: Release) -> None:
        super().__init__(folder)
        self.spec, self.files = certificate_job(release)
        self.source, self.target = folder / "source", folder / "target"
        self.source.mkdir()
        self.target.mkdir()
        for name, text in self.files.items():
            (self.source / name).write_text(text)
        self.program("mv", f'exec {shutil.which("mv")} "$@"')

    def store(self) -> subprocess.CompletedProcess[str]:
        """Run the Job's program."""
        return self.run(self.spec, SOURCE=self.source, TARGET=self.target)


@pytest.fixture(name="certified")
def _certified(tmp_path: Path, release: Release) -> CertifiedNode:
    return CertifiedNode(tmp_path, release)


def test_root_alone_reads_the_files_of_a_node(certified: CertifiedNode) -> None:
    for each in certified.source.iterdir():
        each.chmod(0o644)
    assert certified.store().returncode == 0
    stored = {each.name: each.read_text() for each in certified.target.iterdir()}
    assert stored == certified.files
    assert {each.stat().st_mode & 0o777 for each in certified.target.iterdir()} == {0o600}


def test_the_key_of_a_node_comes_last(certified: CertifiedNode) -> None:
    """Programs wait for it; Open vSwitch, which compares its time first, reads a pair only if both are new."""
    for name in certified.files:
        (certified.target / name).write_text("old")
    assert certified.store().returncode == 0
    assert [Path(call.split()[-1]).name for call in certified.calls()] == ["ca.crt", "tls.crt", "tls.key"]
    assert {each.read_text() for each in certified.target.iterdir()} == set(certified.files.values())


def test_a_node_keeps_its_pair_until_the_new_one_is_whole(certified: CertifiedNode) -> None:
    for name in certified.files:
        (certified.target / name).write_text("old")
    (certified.source / "tls.key").unlink()
    assert certified.store().returncode != 0
    assert {(certified.target / name).read_text() for name in certified.files} == {"old"}


# -- the metadata agent --


class AgentNode(Machine):
    """A node that runs the metadata agent."""

    def __init__(self, folder: Path, release: Release) -> None:
        super().__init__(folder, {"SOCKETS": str(folder / "sockets")})
        planned = plan_neutron(context(NEUTRON, {}, release=release, published=PUBLISHED))
        self.spec = planned_container(planned, "DaemonSet", "neutron-metadata-agent")
        self.tls, self.sockets = folder / "tls", folder / "sockets"
        self.sockets.touch()
        self.program("tini")

    def start_program(self, *events: str) -> list[str]:
        """Run the container's program until it becomes the agent; an event happens in each second that it waits."""
        cases = "".join(f"{number}) {event} ;;\n" for number, event in enumerate(events, 1))
        self.program("sleep", f"case $(grep -c sleep {self.record}) in\n{cases}*) kill $PPID ;; esac")
        self.run(self.spec, TLS_FOLDER=self.tls)
        return [each.split()[0] for each in self.calls()]

    def socket(self, state: str = "00010000", path: str = "/run/openvswitch/db.sock") -> str:
        """Return the shell command after which a socket is in the kernel's table."""
        return f"echo 'ffff: 00000002 00000000 {state} 0001 01 9 {path}' >> {self.sockets}"


@pytest.fixture(name="agent")
def _agent(tmp_path: Path, release: Release) -> AgentNode:
    return AgentNode(tmp_path, release)


def test_the_metadata_agent_waits_for_the_database_of_the_switch(agent: AgentNode) -> None:
    connected = agent.socket(state="00000000")
    other = agent.socket(path="/run/openvswitch/db.sock.old")
    assert agent.start_program(connected, other, agent.socket()) == ["sleep", "sleep", "sleep", "tini"]
    assert "neutron-ovn-metadata-agent" in agent.calls()[-1]


def test_the_metadata_agent_waits_for_the_certificate_of_its_node(agent: AgentNode) -> None:
    agent.tls.mkdir()
    key = agent.tls / "tls.key"
    assert agent.start_program(agent.socket(), f"touch {agent.tls}/tls.crt", f"touch {key}") == ["sleep"] * 3 + ["tini"]


def test_the_metadata_agent_starts_at_once_on_a_node_that_is_ready(agent: AgentNode) -> None:
    subprocess.run(["sh", "-c", agent.socket()], check=True)
    assert agent.start_program() == ["tini"]
    assert agent.has_become("tini")
