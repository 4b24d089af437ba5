"""OVNCluster: an OVNNetwork in other words, and an OVNChassis for each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import MissingReference, Node, Object, Plan, Release, SpecError, key
from openstack_operator.services.ovnnetwork import service
from openstack_operator.services.ovnnetwork.cluster_model import OVN_CLUSTER
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.ovncluster import plan
from openstack_operator.testing import context, granted
from tests.planning import objects

HYPERVISOR = {"node-role.kubernetes.io/hypervisor": ""}
SPEC = {"controller": {"nodeSelector": HYPERVISOR}}
CHASSIS = "OVNChassis.ovn.c5c3.io"


def made(release: Release, spec: Mapping[str, Any] | None = None, **changes: Any) -> Plan:
    changed: dict[str, Any] = {"owner": "ovn", **changes}
    return plan(context(OVN_CLUSTER, spec, release=release, **changed))


def pod(node: str, component: str = "chassis") -> Object:
    return {"metadata": {"name": f"ovn-{node}", "labels": {kube.COMPONENT: component}}, "spec": {"nodeName": node}}


def live(*names: str, **spec: Any) -> dict[tuple[str, str], Object]:
    return {(CHASSIS, name): {"metadata": {"name": name}, "spec": spec} for name in names}


def nodes(*names: str, labels: Mapping[str, str] = HYPERVISOR) -> dict[str, Node]:
    return {name: Node(f"uid-of-{name}", labels) for name in names}


def chassis(plan: Plan) -> list[str]:
    return [name for kind, name in objects(plan) if kind == CHASSIS]


def test_an_ovncluster_makes_the_objects_of_an_ovnnetwork(release: Release) -> None:
    theirs = made(release)
    ours = service.plan(context(OVN_NETWORK, release=release, owner="ovn"))
    assert set(objects(theirs)) == {*objects(ours), ("ConfigMap", "ovn-nodes")}
    changed = {name for name, obj in objects(ours).items() if objects(theirs)[name] != obj}
    assert changed == {("DaemonSet", f"ovn-{name}") for name in ("chassis", "gateway", "controller")}
    assert theirs.outcome.published == {**ours.outcome.published, "nodes": "openvswitch=enabled"}
    assert set(ours.condition.values()) == set(theirs.condition.values())
    assert (OVN_CLUSTER.role, OVN_NETWORK.role) == ("OVNNetwork", "OVNNetwork")


def test_each_program_runs_the_image_of_its_kind(release: Release) -> None:
    def images(spec: Mapping[str, Any]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for (_, name), obj in objects(made(release, spec)).items():
            for container in (obj.get("spec") or {}).get("template", {}).get("spec", {}).get("containers", ()):
                found.setdefault(container["image"], set()).add(f"{name} {container['name']}")
        return found

    relay = {"relay": {"replicas": 1}}
    default = next(iter(images({})))
    both = images(
        {"ovnImage": {"repository": "a/ovn", "tag": "1"}, "ovsImage": {"repository": "a/ovs", "tag": "2"}} | relay
    )
    switches = {f"ovn-{name} {program}" for name in ("chassis", "gateway") for program in ("ovs-vswitchd", "ovs-db")}
    assert set(both) == {"a/ovn:1", "a/ovs:2"}
    assert both["a/ovs:2"] == switches
    one = images({"ovsImage": {"repository": "a/ovs", "tag": "2"}})
    assert (set(one), one["a/ovs:2"]) == ({default, "a/ovs:2"}, switches)
    one = images({"ovnImage": {"repository": "a/ovn", "tag": "1"}})
    assert (set(one), one[default]) == ({default, "a/ovn:1"}, switches)


def test_the_databases_differ_in_size_where_they_are_to(release: Release) -> None:
    spec = {"northbound": {"replicas": 3, "storage": {"size": "4Gi", "storageClass": "fast"}}}
    found = made(release, spec)
    sets = {name: objects(found)["StatefulSet", f"ovn-{name}"]["spec"] for name in ("nb", "sb")}
    claims = {name: each["volumeClaimTemplates"][0]["spec"] for name, each in sets.items()}
    assert [each["replicas"] for each in sets.values()] == [3, 1]
    assert claims["nb"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "4Gi"}},
    }
    assert "storageClassName" not in claims["sb"]
    assert [found.outcome.published[name].count(",") for name in ("northbound", "southbound")] == [2, 0]
    assert objects(found)["Deployment", "ovn-northd"]["spec"]["replicas"] == 2


def test_a_volume_that_cannot_grow_is_named_by_the_c5c3_field(release: Release) -> None:
    old = objects(made(release, {"southbound": {"storage": {"size": "1Gi"}}}))["StatefulSet", "ovn-sb"]
    grown = {"southbound": {"storage": {"size": "2Gi"}}}
    claim = objects(made(release, grown, children={key(old): granted(old)}))["PersistentVolumeClaim", "data-ovn-sb-0"]
    assert claim["metadata"]["annotations"][kube.FIELD] == "spec.southbound.storage.size"


@pytest.mark.proves("OVNCluster", "status.endpoints.northbound", "status.endpoints.southbound")
def test_database_addresses_are_published_and_made_if_different(release: Release) -> None:
    host = "openstack.svc.cluster.local"
    own = made(release)
    assert own.outcome.details["endpoints"] == {
        "northbound": f"tcp:ovn-nb.{host}:6641",
        "southbound": f"tcp:ovn-sb.{host}:6642",
    }
    asked = {"nbConnection": {"service": {"name": "networks", "port": 7000}}}
    other = made(release, {"neutronIntegration": asked})
    assert other.outcome.details["endpoints"]["northbound"] == f"tcp:networks.{host}:7000"
    made_for_it = objects(other)["Service", "networks"]["spec"]
    assert made_for_it["ports"] == [{"name": "ovsdb", "port": 7000, "protocol": "TCP", "targetPort": 6641}]
    assert made_for_it["selector"] == objects(own)["Service", "ovn-nb"]["spec"]["selector"]
    assert other.outcome.published == own.outcome.published


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"controller": {"nodeSelector": {"a": "b"}}, "ovs": {"nodeSelector": {"a": "c"}}},
            "spec.ovs.nodeSelector: ovs and controller run on the same nodes",
        ),
        (
            {"neutronIntegration": {"nbConnection": {"service": {"name": "ovn-nb", "port": 7000}}}},
            "spec.neutronIntegration.nbConnection.service.port: the members behind Service ovn-nb",
        ),
        (
            {"neutronIntegration": {"sbConnection": {"service": {"name": "ovn-relay", "port": 7000}}}},
            "spec.neutronIntegration.sbConnection.service.name: Service ovn-relay belongs to another owner",
        ),
        (
            {"tls": {"enabled": True, "certSecretRef": {"name": "mine"}}},
            "spec.tls.certSecretRef.name: there is no Secret",
        ),
    ],
)
def test_an_invalid_setting_is_refused_with_the_c5c3_field(
    release: Release, spec: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(SpecError) as refused:
        made(release, spec)
    assert str(refused.value).startswith(told)
    assert isinstance(refused.value, MissingReference) == ("there is no" in told)


def test_a_certificate_is_not_looked_for_where_tls_is_off(release: Release) -> None:
    assert (
        made(release, {"tls": {"certSecretRef": {"name": "mine"}}}).outcome.published["northbound"].startswith("tcp:")
    )


@pytest.mark.proves("OVNCluster", "status.chassisCount")
@pytest.mark.proves("OVNChassis", "spec.clusterRef.name", "spec.hostname", "spec.systemId")
def test_a_node_that_runs_a_controller_is_a_chassis_of_its_node(release: Release) -> None:
    there = nodes("a.example", "b") | nodes("other", labels={})
    found = made(release, SPEC, nodes=there, pods=[pod("a.example"), pod("b", "gateway"), pod("other", "nb")])
    assert chassis(found) == ["a.example", "b"]
    one = objects(found)[CHASSIS, "a.example"]
    assert one["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "a.example", "uid": "uid-of-a.example"}
    ]
    assert one["spec"] == {"clusterRef": {"name": "ovn"}, "hostname": "a.example", "systemId": "a.example"}
    assert found.outcome.published["nodes"] == "node-role.kubernetes.io/hypervisor="
    assert found.outcome.details["chassisCount"] == 2


@pytest.mark.parametrize(
    ("there", "pods", "kept"),
    [
        # A roll-out: without a pod for a moment.
        (nodes("a"), (), ["a"]),
        # Taken out of the selection: as long as its pod runs, it would only register anew.
        (nodes("a", labels={}), [pod("a")], ["a"]),
        (nodes("a", labels={}), (), []),
        ({}, [pod("a")], []),
    ],
    ids=["rolls", "leaves", "left", "gone"],
)
def test_a_chassis_stays_as_long_as_its_node_is_one(
    release: Release, there: Mapping[str, Node], pods: Sequence[Object], kept: list[str]
) -> None:
    assert chassis(made(release, SPEC, nodes=there, pods=pods, children=live("a"))) == kept
    assert chassis(made(release, SPEC, nodes=nodes("new"))) == []


@pytest.mark.proves(
    "OVNChassis", "spec.bridgeMappings[].physicalNetwork", "spec.bridgeMappings[].bridge", "spec.encapsulation.ip"
)
def test_settings_of_a_node_reach_its_switch_without_a_rollout(release: Release) -> None:
    there = nodes("a", "b", "c")
    said = live("a", bridgeMappings=[{"physicalNetwork": n, "bridge": f"br-{n}"} for n in ("two", "one")])
    said |= live("b", bridgeMappings=[], encapsulation={"type": "geneve", "ip": "fd00::7"}) | live("c", hostname="c")
    found, before = (objects(made(release, SPEC, nodes=there, children=each)) for each in (said, live("a", "b", "c")))
    assert found["ConfigMap", "ovn-nodes"]["data"] == {
        "a": "ovn-bridge-mappings=one:br-one,two:br-two\n",
        "b": "ovn-bridge-mappings=\novn-encap-ip=fd00::7\n",
    }
    assert before["ConfigMap", "ovn-nodes"]["data"] == {}
    assert found["DaemonSet", "ovn-chassis"] == before["DaemonSet", "ovn-chassis"]


@pytest.mark.proves("OVNCluster", "status.activeControllers")
def test_controllers_that_are_ready_are_counted(release: Release) -> None:
    controllers = granted(objects(made(release, SPEC))["DaemonSet", "ovn-controller"])
    counted = made(release, SPEC, children={key(controllers): controllers})
    assert counted.outcome.details["activeControllers"] == 1
