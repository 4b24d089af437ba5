"""Each node that runs ovn-controller has a certificate of its own, which the databases' members do not trust."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import kube, pki
from openstack_operator.parts.secrets.node_certificates import ON_NODE, STORED_ON_NODE
from openstack_operator.plan import Key, Node, Object, Plan, Release, State
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.services.pki.trust_rollout import without_trust
from openstack_operator.testing import NOW, context
from tests.planning import rolled_out

pytestmark = pytest.mark.security


class Cloud:
    """An OVN whose controllers run on some nodes."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.drawn = 0
        self.children: dict[Key, Object] = {}
        self.now = NOW
        self.uids: dict[str, str] = {}
        """Uids of nodes, where they are not their names."""
        self.pods: tuple[Object, ...] = ()

    def draw(self) -> str:
        self.drawn += 1
        return f"drawn {self.drawn}"

    def plan(self, *nodes: str, **spec: Any) -> Plan:
        by = plan_pki(context(PKI, release=self.release))
        secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in by.objects if obj["kind"] == "Secret"}
        given: dict[str, Any] = {"secrets": secrets, "children": self.children, "release": self.release}
        spec = {"tls": {"pkiRef": {"name": "pki"}}, **spec}
        at = context(OVN_NETWORK, spec, owner="ovn", published={"PKI": by.outcome.published}, **given)
        labels = {"openvswitch": "enabled"}
        there = {"other": Node("other"), **{name: Node(self.uids.get(name, name), labels) for name in nodes}}
        made = plan(replace(at, nodes=there, pods=self.pods, draw=self.draw, now=self.now))
        self.children = rolled_out(made)
        return made

    def complete(self, node: str) -> None:
        """Have the Job of a node end well."""
        self.jobs[node]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    def files(self, secret: str) -> dict[str, str]:
        return kube.secret_data(self.children["Secret", secret])

    @property
    def certified(self) -> set[str]:
        return {name for kind, name in self.children if kind == "Secret" and name.startswith("ovn-chassis-tls-")}

    @property
    def jobs(self) -> dict[str, Object]:
        jobs = [obj for (kind, _), obj in self.children.items() if kind == "Job"]
        return {job["spec"]["template"]["spec"]["nodeName"]: job for job in jobs}


@pytest.fixture(name="cloud")
def _cloud(release: Release) -> Cloud:
    return Cloud(release)


def test_each_node_has_a_key_of_its_own(cloud: Cloud) -> None:
    cloud.plan("one", "two.example.org")
    one, two = cloud.files("ovn-chassis-tls-one"), cloud.files("ovn-chassis-tls-two.example.org")
    assert one["tls.key"] != two["tls.key"]
    assert [pki.common(files["tls.crt"]) for files in (one, two)] == ["one", "two.example.org"]
    assert one["ca.crt"] == cloud.files("ovn-tls")["ca.crt"], "of the databases' certificates"
    assert not pki.is_trusted(one["tls.crt"], [cloud.files("ovn-tls")["ca.crt"]]), "members do not trust nodes"
    assert pki.is_trusted(one["tls.crt"], [cloud.files("ovn-relay-tls")["ca.crt"]])
    assert pki.calls(one["tls.crt"])


def test_a_job_on_the_node_stores_its_files_and_no_others(cloud: Cloud) -> None:
    cloud.plan("one", "two")
    spec = cloud.jobs["one"]["spec"]["template"]["spec"]
    secrets = [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume]
    assert secrets == ["ovn-chassis-tls-one"]
    [folder] = [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume]
    assert folder == "/var/lib/openstack-tls/chassis-tls"
    [main] = spec["containers"]
    assert main["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in main["securityContext"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    # A node that is away does not keep the cloud from being ready.
    assert cloud.jobs["one"]["metadata"]["annotations"][kube.BESIDE] == "true"


@pytest.mark.parametrize("name", ["ovn-gateway", "ovn-chassis", "ovn-controller"])
def test_a_node_mounts_no_secret(cloud: Cloud, name: str) -> None:
    """Of a DaemonSet's pods each node has one, and so could read whatever they mount."""
    cloud.plan("one")
    volumes = cloud.children["DaemonSet", name]["spec"]["template"]["spec"]["volumes"]
    assert [volume for volume in volumes if "secret" in volume] == []
    if name != "ovn-controller":
        return
    assert "/var/lib/openstack-tls/chassis-tls" in [each.get("hostPath", {}).get("path") for each in volumes]


def test_relays_know_the_role_of_nodes(cloud: Cloud) -> None:
    made = cloud.plan("one")
    assert made.outcome.published["southboundForNodes"].startswith("ssl:ovn-relay.")
    assert made.outcome.published["nodeCertificates"] == "true"
    relay = cloud.children["Deployment", "ovn-relay"]["spec"]
    assert relay["replicas"] == 1
    assert {"name": "OVN_ROLE", "value": "ovn-controller"} in relay["template"]["spec"]["containers"][0]["env"]
    cloud.plan("one", replicas=3)
    assert cloud.children["Deployment", "ovn-relay"]["spec"]["replicas"] == 2
    cloud.plan("one", relay={"replicas": 0})
    assert cloud.children["Deployment", "ovn-relay"]["spec"]["replicas"] == 1, "nodes reach no member"


def test_a_certificate_is_renewed_before_it_ends_by_another_job(cloud: Cloud) -> None:
    cloud.plan("one")
    before, job = cloud.files("ovn-chassis-tls-one"), cloud.jobs["one"]["metadata"]["name"]
    made = cloud.plan("one")
    assert cloud.files("ovn-chassis-tls-one") == before
    assert cloud.jobs["one"]["metadata"]["name"] == job
    due = pki.Pair(before["tls.key"], before["tls.crt"]).due
    assert min(step.wake for step in made if step.wake) == due
    cloud.now = due + timedelta(seconds=1)
    cloud.plan("one")
    assert cloud.files("ovn-chassis-tls-one")["tls.crt"] != before["tls.crt"]
    assert cloud.jobs["one"]["metadata"]["name"] != job


def test_a_node_that_is_not_selected_any_more_loses_its_certificate(cloud: Cloud) -> None:
    cloud.plan("one", "two")
    cloud.plan("one")
    assert cloud.certified == {"ovn-chassis-tls-one"}
    assert set(cloud.jobs) == {"one"}


def test_a_pod_with_forged_labels_gets_no_certificate_and_no_job(cloud: Cloud) -> None:
    """As anybody makes one who may create pods: the nodes are those of the cluster that the DaemonSets select."""
    labels = {kube.COMPONENT: "gateway", kube.WATCHED: "true"}
    metadata = {"name": "forged", "uid": "forged", "labels": labels}
    cloud.pods = tuple({"metadata": metadata, "spec": {"nodeName": node}, "status": {}} for node in ("other", "n" * 70))
    made = cloud.plan("one")
    assert (cloud.certified, set(cloud.jobs)) == ({"ovn-chassis-tls-one"}, {"one"})
    assert all(step.verdict is None for step in made if step.name == "NodeFiles")


def test_a_name_that_no_certificate_takes_is_said(cloud: Cloud) -> None:
    long = ".".join(["n" * 40] * 2)
    made = cloud.plan("one", long)
    assert cloud.certified == {"ovn-chassis-tls-one"}
    [verdict] = [step.verdict for step in made if step.name == "NodeFiles"]
    assert verdict
    assert verdict.state is State.READY, "the other nodes work"
    assert verdict.message.startswith(f"node {long}: its name has more than 64 characters")


def test_without_tls_nodes_need_none(cloud: Cloud) -> None:
    made = cloud.plan("one", tls=None)
    assert (cloud.certified, cloud.jobs) == (set(), {})
    assert "nodeCertificates" not in made.outcome.published
    assert ("Deployment", "ovn-relay") not in cloud.children


def test_a_job_runs_again_where_a_node_was_installed_again(cloud: Cloud) -> None:
    cloud.plan("one")
    before = cloud.jobs["one"]["metadata"]["name"]
    assert before.startswith("ovn-chassis-tls-one-")
    cloud.uids["one"] = "anew"
    cloud.plan("one")
    assert cloud.jobs["one"]["metadata"]["name"] != before


def test_a_secret_says_whether_its_node_has_the_files(cloud: Cloud) -> None:
    def annotations() -> tuple[str, str]:
        found = cloud.children["Secret", "ovn-chassis-tls-one"]["metadata"]["annotations"]
        return found[ON_NODE], found.get(STORED_ON_NODE, "")

    cloud.plan("one")
    assert annotations()[1] == "", "its Job has not ended"
    for _ in range(2):
        cloud.complete("one")
        cloud.plan("one")
    first = annotations()
    assert first[0] == first[1]
    cloud.now = pki.Pair(*(cloud.files("ovn-chassis-tls-one")[f"tls.{end}"] for end in ("key", "crt"))).due
    cloud.now += timedelta(seconds=1)
    cloud.plan("one")
    assert annotations()[0] != annotations()[1] == first[0]


@pytest.mark.parametrize("beside_switch", [False, True], ids=["own pod", "earlier version of the operator"])
def test_nodes_are_limited_after_all_show_their_own_certificate(cloud: Cloud, *, beside_switch: bool) -> None:
    """Before, they share one, which the role refuses."""

    def role() -> bool:
        env = cloud.children["Deployment", "ovn-relay"]["spec"]["template"]["spec"]["containers"][0]["env"]
        return any(each["name"] == "OVN_ROLE" for each in env)

    cloud.plan("one")
    controllers = cloud.children["DaemonSet", "ovn-controller"]
    if beside_switch:
        pod = controllers["spec"]["template"]["spec"]
        cloud.children["DaemonSet", "ovn-chassis"]["spec"]["template"]["spec"] = pod
        del cloud.children["DaemonSet", "ovn-controller"]
    volumes = controllers["spec"]["template"]["spec"]["volumes"]
    volumes[:] = [volume for volume in volumes if volume["name"] != "node-certificate"]
    del cloud.children["Deployment", "ovn-relay"]
    made = cloud.plan("one")
    assert not role()
    cloud.children["DaemonSet", "ovn-chassis"]["status"]["observedGeneration"] = 0
    cloud.plan("one")
    assert not role(), "a pod of the switch that is to be replaced may hold a controller"
    assert next(step for step in made if step.name == "Relay").barrier, "nodes change to relays that serve"
    targets = {obj["metadata"]["name"] for obj in made.objects if obj["kind"] == "NetworkPolicy"}
    assert {"ovn-relay-nodes", "ovn-sb-nodes"} <= targets, "some nodes still use members"
    cloud.plan("one")
    assert role()
    cloud.children["DaemonSet", "ovn-controller"]["status"]["observedGeneration"] = 0
    cloud.plan("one")
    assert role(), "whatever the nodes do later"


@pytest.mark.parametrize(
    ("stored", "pending"),
    [("new", []), ("old", ["OVNNetwork/ovn (files of ovn-chassis-tls-one on its node)"])],
    ids=["its node has them", "its node has those before"],
)
def test_an_authority_is_replaced_after_each_node_has_the_files(cloud: Cloud, stored: str, pending: list[str]) -> None:
    cloud.plan("one")
    secret = cloud.children["Secret", "ovn-chassis-tls-one"]
    owner = {"kind": "OVNNetwork", "name": "ovn"}
    metadata = secret["metadata"] | {"creationTimestamp": f"{NOW:%Y-%m-%dT%H:%M:%SZ}", "ownerReferences": [owner]}
    metadata["annotations"] = {ON_NODE: "new", STORED_ON_NODE: stored}
    metadata["labels"] = metadata["labels"] | {kube.KIND: "ovnnetwork", kube.INSTANCE: "ovn"}
    trusted = pki.split(cloud.files("ovn-chassis-tls-one")["ca.crt"])
    facts: dict[str, Any] = {"secrets": [secret | {"metadata": metadata}], "pods": []}
    assert without_trust(facts, trusted, NOW) == pending
