"""Nodes of another Kubernetes cluster join an OVN by one Secret: what it has, and what their cluster makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import kube, pki
from openstack_operator.parts.secrets.node_certificates import ON_NODE, STORED_ON_NODE
from openstack_operator.plan import Key, MissingReference, Node, Object, Plan, Release, SpecError, State
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import NOW, context
from tests.planning import draws, rolled_out

pytestmark = pytest.mark.security

LABELS = {"openvswitch": "enabled"}


class Databases:
    """The cluster with the databases, which admits `far` and `further`."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.draw = draws()
        self.now = NOW
        self.children: dict[Key, Object] = {}
        by = plan_pki(context(PKI, release=release))
        self.published = {"PKI": by.outcome.published}
        self.secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in by.objects if obj["kind"] == "Secret"}

    def plan(self, *nodes: str, **spec: Any) -> Plan:
        remote = {"host": "ovn.example.org", "nodes": ["far", "further"]}
        spec = {"tls": {"pkiRef": {"name": "pki"}}, "remoteChassis": remote, **spec}
        given: dict[str, Any] = {"secrets": self.secrets, "children": self.children, "release": self.release}
        at = context(OVN_NETWORK, spec, owner="ovn", published=self.published, **given)
        there = {name: Node(name, LABELS) for name in nodes}
        made = plan(replace(at, nodes=there, draw=self.draw, now=self.now))
        self.children = rolled_out(made)
        if service := self.children.get(("Service", "ovn-remote")):
            service["spec"]["ports"][0]["nodePort"] = 30642
        return made

    @property
    def secret(self) -> Object:
        return self.children["Secret", "ovn-remote-chassis"]

    @property
    def files(self) -> dict[str, str]:
        return kube.secret_data(self.secret)


@pytest.fixture(name="databases")
def _databases(release: Release) -> Databases:
    databases = Databases(release)
    databases.plan()
    databases.plan()
    return databases


def switches(databases: Databases, files: dict[str, str], *nodes: str, **changes: Any) -> Plan:
    """Return the plan of the nodes' cluster, which knows the Secret alone."""
    at = context(
        OVN_NETWORK,
        {"external": {"secretRef": {"name": "carried"}}},
        owner="ovn",
        release=databases.release,
        secrets={"carried": files},
        **changes,
    )
    return plan(replace(at, nodes={name: Node(name, LABELS) for name in nodes}, now=databases.now))


def verdicts(made: Plan, name: str) -> list[Any]:
    return [step.verdict for step in made if step.name == name and step.verdict]


def test_the_secret_has_an_address_and_a_certificate_for_each_node(databases: Databases) -> None:
    files = databases.files
    pairs = [f"node-{node}.{end}" for node in ("far", "further") for end in ("crt", "key")]
    assert sorted(files) == ["ca.crt", *pairs, "southbound"]
    assert files["southbound"] == "ssl:ovn.example.org:30642"
    assert pki.common(files["node-far.crt"]) == "far"
    relay = kube.secret_data(databases.children["Secret", "ovn-relay-tls"])
    assert pki.is_trusted(files["node-far.crt"], [relay["ca.crt"]])
    members = kube.secret_data(databases.children["Secret", "ovn-tls"])
    assert not pki.is_trusted(files["node-far.crt"], [members["ca.crt"]]), "members of the databases refuse nodes"


def test_remote_chassis_secret_waits_for_an_address(release: Release) -> None:
    databases = Databases(release)
    made = databases.plan()
    assert ("Secret", "ovn-remote-chassis") not in databases.children
    [verdict] = verdicts(made, "RemoteChassis")
    assert (verdict.state, verdict.message) == (State.PROGRESSING, "waits for an address of Service ovn-remote")


def test_only_the_port_of_relays_with_tls_is_open(databases: Databases) -> None:
    [port] = databases.children["Service", "ovn-remote"]["spec"]["ports"]
    assert port["port"] == 16642
    [rule] = [
        rule for rule in databases.children["NetworkPolicy", "ovn-relay"]["spec"]["ingress"] if "from" not in rule
    ]
    assert [each["port"] for each in rule["ports"]] == [16642]


def test_without_tls_no_node_of_another_cluster_joins(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.tls: nodes of other clusters need TLS"):
        Databases(release).plan(tls=None)


def test_relays_run_also_if_this_cluster_has_no_switches(databases: Databases) -> None:
    databases.plan(chassis={"enabled": False})
    assert ("Deployment", "ovn-relay") in databases.children
    assert "node-far.key" in databases.files


def test_a_node_of_this_cluster_gets_no_second_certificate(databases: Databases) -> None:
    made = databases.plan("far")
    assert "node-far.key" not in databases.files
    [verdict] = verdicts(made, "RemoteChassis")
    assert verdict.state is State.FAILED
    assert verdict.message.startswith("spec.remoteChassis.nodes: far: nodes of this cluster")


def test_a_certificate_is_renewed_in_the_secret(databases: Databases) -> None:
    before = databases.files
    databases.plan()
    assert databases.files == before
    databases.now = pki.Pair(before["node-far.key"], before["node-far.crt"]).due + timedelta(seconds=1)
    databases.plan()
    assert databases.files["node-far.crt"] != before["node-far.crt"]


def test_a_service_that_is_made_again_keeps_the_last_address(databases: Databases) -> None:
    del databases.children["Service", "ovn-remote"]
    databases.plan()
    assert databases.files["southbound"] == "ssl:ovn.example.org:30642"


def test_a_pki_waits_a_day_for_other_authorities_to_be_carried(databases: Databases) -> None:
    def is_carried() -> bool:
        notes = databases.secret["metadata"]["annotations"]
        return notes[ON_NODE] == notes[STORED_ON_NODE]

    assert is_carried(), "the first ones are awaited by nobody"
    other = pki.authority("another", "another", databases.now).cert
    bundle = databases.secrets[databases.published["PKI"]["bundleSecret"]]
    databases.secrets[databases.published["PKI"]["bundleSecret"]] = {"ca.crt": bundle["ca.crt"] + other}
    databases.plan()
    assert other in databases.files["ca.crt"]
    assert not is_carried()
    databases.now += timedelta(hours=23)
    databases.plan()
    assert not is_carried()
    databases.now += timedelta(hours=2)
    databases.plan()
    assert is_carried()


def test_nodes_elsewhere_follow_the_address_with_their_own_certificates(databases: Databases) -> None:
    made = switches(databases, databases.files, "far", "further")
    made_objects = rolled_out(made)
    kinds = {kind for kind, _ in made_objects}
    assert kinds == {"DaemonSet", "Secret", "Job", "NetworkPolicy"}
    controller = made_objects["DaemonSet", "ovn-controller"]["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "OVN_REMOTE", "value": "ssl:ovn.example.org:30642"} in controller["env"]
    far = kube.secret_data(made_objects["Secret", "ovn-chassis-tls-far"])
    assert far == {
        "tls.crt": databases.files["node-far.crt"],
        "tls.key": databases.files["node-far.key"],
        "ca.crt": databases.files["ca.crt"],
    }
    assert made.outcome.published["southboundForNodes"] == "ssl:ovn.example.org:30642"


def test_the_condition_names_nodes_that_the_secret_does_not_know(databases: Databases) -> None:
    made = switches(databases, databases.files, "far", "unknown")
    [verdict] = verdicts(made, "NodeCertificates")
    assert (verdict.state, "no valid certificate for unknown:" in verdict.message) == (State.READY, True)
    assert ("Secret", "ovn-chassis-tls-unknown") not in rolled_out(made)


def test_a_certificate_for_another_node_is_none(databases: Databases) -> None:
    swapped = {
        **databases.files,
        **{f"node-far.{end}": databases.files[f"node-further.{end}"] for end in ("crt", "key")},
    }
    made = switches(databases, swapped, "far")
    [verdict] = verdicts(made, "NodeCertificates")
    assert "no valid certificate for far" in verdict.message


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"southbound": None}, "key 'southbound' of Secret 'carried' is missing"),
        ({"ca.crt": None}, "key 'ca.crt' of Secret 'carried' has no certificate"),
        (
            {"ca.crt": "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n"},
            "key 'ca.crt' of Secret 'carried' has no certificate",
        ),
        ({"southbound": "tcp:ovn.example.org:6642"}, "key 'southbound' of Secret 'carried' is not `ssl:HOST:PORT`"),
    ],
)
def test_missing_parts_of_an_external_secret_are_named(
    databases: Databases, changes: dict[str, str | None], text: str
) -> None:
    files = {name: value for name, value in {**databases.files, **changes}.items() if value is not None}
    with pytest.raises(SpecError, match=r"^spec\.external\.secretRef: ") as error:
        switches(databases, files, "far")
    assert text in str(error.value)


def test_a_secret_that_does_not_exist_is_named(databases: Databases) -> None:
    at = context(OVN_NETWORK, {"external": {"secretRef": {"name": "carried"}}}, release=databases.release)
    with pytest.raises(MissingReference, match=r"there is no Secret 'carried' in this namespace"):
        plan(at)
