"""Members of OVN's databases keep their cluster's list; a switch starts after its node is described."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.testing import context
from tests.planning import release_of

from .programs import Machine, planned_container

A, B, C, D = (f"ovn-nb-{number}.ovn-nb.openstack.svc.cluster.local" for number in range(4))
UNKNOWN = "unknown cluster"

# Answers in turn with each file of a folder, and goes on with the last one.
OVS_APPCTL = """\
case $4 in
cluster/status)
    set -- answers/*
    cat "$1"
    code=0
    if grep -q 'unknown cluster\\|no such' "$1"; then code=2; fi
    [ $# -eq 1 ] || rm "$1"
    exit $code
    ;;
cluster/kick) [ "$6" != stays ] || exit 2 ;;
esac
"""


def server(host: str, *, sid: str = "", silent: int | None = 40, scheme: str = "tcp") -> str:
    """Return the line of a server, which sent its last message `silent` ms ago, or none to this leader."""
    sid = sid or f"s{host[7]}"
    heard = "" if silent is None else f" last msg {silent} ms ago"
    return f"    {sid} ({sid} at {scheme}:{host}:6643) next_index=7 match_index=6{heard}"


def status(*servers: str, role: str = "follower", leader: str = "s0", state: str = "cluster member") -> str:
    """Return what `cluster/status` answers of a server; as ovsdb-server of 3.5 does."""
    return f"""\
s2
Name: OVN_Northbound
Cluster ID: c1 (c1a5bd5d-2c3e-4b9d-9b53-0b9c0d5b7c0a)
Server ID: s2 (s2a5bd5d-2c3e-4b9d-9b53-0b9c0d5b7c0b)
Address: tcp:{C}:6643
Status: {state}
Role: {role}
Term: 3
Leader: {leader}
Vote: s0

Election timer: 5000
Log: [2, 9]
Entries not yet committed: 0
Entries not yet applied: 0
Connections: ->s0 <-s1
Disconnections: 0
Servers:
""" + "".join(f"{each}\n" for each in servers)


def own(host: str = C, scheme: str = "tcp") -> str:
    """Return the line of the server that answers."""
    return f"    s2 (s2 at {scheme}:{host}:6643) (self)"


class Member(Machine):
    """The third member of a northbound database, with other hosts in the record."""

    def __init__(self, folder: Path, release: Release) -> None:
        super().__init__(folder)
        planned = plan(context(OVN_NETWORK, {"replicas": 3}, release=release, owner="ovn"))
        self.spec: Object = planned_container(planned, "StatefulSet", "ovn-nb")
        self.answers = folder / "answers"
        self.answers.mkdir()
        self.database = folder / "ovnnb_db.db"
        self.database.write_text("data")
        self.program("ovs-appctl", OVS_APPCTL)
        self.program("ovn-db-stop")
        self.program("sleep")
        self.record_hosts(A, B, C)

    def record_hosts(self, *hosts: str) -> None:
        """Write the record of members."""
        (self.home / "members").write_text(",".join(hosts))

    def answer(self, *texts: str) -> None:
        """Set the next answers of the server."""
        for number, text in enumerate(texts):
            (self.answers / str(number)).write_text(text)

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return self.run(self.spec, command=command, OVN_ADDRESS=C, RECORD_FOLDER=self.home, STATE_FOLDER=self.home)

    def is_ready(self) -> bool:
        """Run the probe."""
        return self._run(self.spec["readinessProbe"]["exec"]["command"]).returncode == 0

    def stop(self) -> bool:
        """Run the hook before the end."""
        return self._run(self.spec["lifecycle"]["preStop"]["exec"]["command"]).returncode == 0

    @property
    def requests(self) -> list[str]:
        """Return the changes that the server was to make."""
        words = [call.split() for call in self.calls() if call.startswith("ovs-appctl")]
        assert all(each[2:4] == ["-t", "/run/ovn/ovnnb_db.ctl"] and each[5] == "OVN_Northbound" for each in words)
        return [" ".join([each[4].removeprefix("cluster/"), *each[6:]]) for each in words if "status" not in each[4]]


@pytest.fixture(name="member")
def _member(tmp_path: Path, release: Release) -> Member:
    return Member(tmp_path, release)


def test_a_member_is_ready_while_its_cluster_has_a_leader(member: Member) -> None:
    member.answer(status(own(), server(A), server(B)))
    assert member.is_ready()
    assert member.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        status(own(), server(A), server(B), leader="unknown", role="candidate"),
        status(own(), server(A), server(B), state="joining cluster"),
        'ovs-appctl: cannot connect to "/run/ovn/ovnnb_db.ctl" (no such file)',
        UNKNOWN,
    ],
)
def test_a_member_without_a_leader_is_not_ready_and_keeps_its_data(member: Member, answer: str) -> None:
    member.answer(answer)
    assert not member.is_ready()
    assert member.requests == []
    assert member.database.exists()


@pytest.mark.parametrize("scheme", ["tcp", "ssl"])
def test_a_member_that_is_not_listed_leaves(member: Member, scheme: str) -> None:
    member.record_hosts(A, B)
    member.answer(status(server(B, scheme=scheme), own(scheme=scheme), server(A, scheme=scheme)))
    assert member.is_ready(), "it takes part until it has left"
    assert member.requests == ["leave"]


def test_a_leaving_member_is_ready_until_it_has_left(member: Member) -> None:
    member.record_hosts(A, B)
    member.answer(status(own(), server(A), server(B), state="leaving cluster"), UNKNOWN)
    assert member.is_ready()
    assert member.database.exists()
    for _ in range(2):
        assert not member.is_ready()
    assert [each.name for each in member.home.glob("ovnnb*")] == ["ovnnb_db.db.left"]


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param([server(B)], id="a listed member is not in it"),
        pytest.param([server(A), server(B), server(D)], id="a removed member counts"),
        pytest.param([server(A), server(B), server(B, sid="old")], id="a lost disk counts"),
        pytest.param([server(A), server(D)], id="a removed member counts and a listed one is not in it"),
    ],
)
def test_a_member_leaves_no_cluster_that_is_not_as_listed(member: Member, servers: list[str]) -> None:
    """The rest could be a minority of it."""
    member.record_hosts(A, B)
    member.answer(status(own(), *servers))
    assert member.is_ready()
    assert member.requests == []


LONG_SILENT, SILENT = 900_000, 20_000


@pytest.mark.parametrize(
    ("servers", "requests"),
    [
        pytest.param([server(A), server(B)], [], id="all answer"),
        pytest.param([server(A), server(B, silent=LONG_SILENT)], [], id="a member is away"),
        pytest.param([server(A), server(B, silent=None)], [], id="a member has not answered this leader"),
        pytest.param([server(B, sid="old", silent=SILENT), server(B)], ["kick old"], id="a new disk answers"),
        pytest.param([server(B, sid="old", silent=None), server(B)], ["kick old"], id="the old disk never answered"),
        pytest.param([server(B, sid="old", silent=9_000), server(B)], [], id="the old disk answered just now"),
        pytest.param([server(B, sid="old", silent=SILENT), server(B, silent=SILENT)], [], id="neither disk answers"),
        pytest.param([server(A), server(D, silent=SILENT)], [], id="a removed member may still leave"),
        pytest.param([server(A), server(D, silent=LONG_SILENT)], ["kick s3"], id="a removed member is away"),
        pytest.param([server(A), server(D, silent=None)], [], id="a removed member has not answered this leader"),
    ],
)
def test_a_leader_removes_only_servers_that_will_not_come_back(
    member: Member, servers: list[str], requests: list[str]
) -> None:
    member.answer(status(own(), *servers, role="leader", leader="self"))
    assert member.is_ready()
    assert member.requests == requests
    member.answer(status(own(), *servers))
    assert member.is_ready()
    assert member.requests == requests, "a follower removes none"


def test_a_removal_that_fails_prevents_no_other(member: Member) -> None:
    removed = [server(D, sid=sid, silent=LONG_SILENT) for sid in ("stays", "goes")]
    member.answer(status(own(), server(A), server(B), *removed, role="leader", leader="self"))
    assert member.is_ready()
    assert sorted(member.requests) == ["kick goes", "kick stays"]


def test_a_listed_member_stops_without_leaving(member: Member) -> None:
    member.answer(status(own(), server(A), server(B)))
    assert member.stop()
    assert member.calls() == ["ovn-db-stop nb"]
    assert member.database.exists()


def test_a_member_that_is_not_listed_leaves_before_it_stops(member: Member) -> None:
    member.record_hosts(A, B)
    others = own(), server(A), server(B)
    member.answer(status(*others, server(D)), status(*others), status(*others, state="leaving cluster"), UNKNOWN)
    assert member.stop()
    assert member.requests == ["leave", "leave"], "not while the removed member counts"
    assert member.calls()[-2:] == [
        "ovs-appctl --timeout=3 -t /run/ovn/ovnnb_db.ctl cluster/status OVN_Northbound",
        "ovn-db-stop nb",
    ]
    assert [each.name for each in member.home.glob("ovnnb*")] == ["ovnnb_db.db.left"]


def test_a_member_that_cannot_leave_stops_after_fifteen_seconds(member: Member) -> None:
    member.record_hosts(A, B)
    member.answer(status(own(), server(A), server(B), server(D)))
    assert member.stop()
    assert member.requests == []
    assert member.calls().count("sleep 1") == 15
    assert member.calls()[-1] == "ovn-db-stop nb"
    assert member.database.exists()


def test_a_switch_starts_after_its_node_is_described(machine: Machine) -> None:
    """As with kolla's images, which describe no node."""
    release = release_of("kolla")
    planned = plan(context(OVN_NETWORK, {"imageProfile": "kolla"}, release=release, owner="ovn"))
    spec = planned_container(planned, "DaemonSet", "ovn-gateway")
    [prepare] = [each["value"] for each in spec["env"] if each["name"] == "PREPARE"]
    machine.program("ovs-vsctl")
    machine.program("dumb-init")
    # Kubernetes replaces references to variables that come before.
    assert spec["env"][-1]["name"] == "PREPARE"
    for name, value in {"OVS_SYSTEM_ID": "node1", "OVN_REMOTE": "ssl:a:1,ssl:b:1", "OVN_ENCAP_IP": "10.0.0.1"}.items():
        prepare = prepare.replace(f"$({name})", value)
    assert machine.run(spec, PREPARE=prepare).returncode == 0
    assert machine.has_become("dumb-init"), "it gets the signal to stop"
    describe, switch = machine.calls()[1:]
    assert 'external_ids:ovn-remote="ssl:a:1,ssl:b:1"' in describe
    assert switch.startswith("dumb-init --single-child -- ovs-vswitchd unix:/run/openvswitch/db.sock")
    machine.program("ovs-vsctl", "case $* in *show) ;; *) exit 1 ;; esac")
    assert machine.run(spec, PREPARE=prepare).returncode != 0
    assert machine.calls()[-1].startswith("ovs-vsctl"), "a switch of a node without a description does not start"
