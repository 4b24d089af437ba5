"""Fields of OVNCluster: each changes what it says, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from openstack_operator import pki
from openstack_operator.plan import MissingReference, Object, SpecError
from openstack_operator.testing import NOW
from tests.field_effects import OWN_IMAGE, POD, Leaves, changes, check, pods, resulting_leaves, row, version
from tests.fields import description

KIND = "OVNCluster"
NB, SB, NORTHD, RELAY = "StatefulSet/ovn-nb", "StatefulSet/ovn-sb", "Deployment/ovn-northd", "Deployment/ovn-relay"
SWITCHES = ("DaemonSet/ovn-chassis", "DaemonSet/ovn-gateway")
CONTROLLERS = "DaemonSet/ovn-controller"
NODES = (*SWITCHES, CONTROLLERS)
REMOTE = f"{CONTROLLERS} pod.containers[ovn-controller].env[OVN_REMOTE]"
POLICIES = ("NetworkPolicy/ovn-", "NetworkPoliciesReady")
APPLIED = "the objects are applied; the network plug-in of the cluster enforces them, or does not"
HOST = "openstack.svc.cluster.local"


def both(rest: str, value: Any) -> Leaves:
    """The same in the switches of all nodes, whether they are gateways or not."""
    return {f"{name} {rest}": value for name in SWITCHES}


def everywhere(rest: str, value: Any) -> Leaves:
    """The same in switches and controllers."""
    return {f"{name} {rest}": value for name in NODES}


def versions(*workloads: str) -> Leaves:
    """The pods say the tag of the image."""
    return {field: tag for workload in workloads for field, tag in version(workload).items()}


def switch(variable: str, value: str) -> Leaves:
    return both(f"pod.containers[ovs-vswitchd].env[{variable}].value", value)


def on_nodes(field: str) -> ParameterSet:
    """Settings of the pods of the switch that hold on each node."""
    expected: Mapping[str, Leaves] = {
        "image": both("pod.containers[ovs-vswitchd].image", OWN_IMAGE)
        | both("pod.containers[ovs-db].image", OWN_IMAGE)
        | versions(*SWITCHES),
        "resources": both("pod.containers[ovs-vswitchd].resources.requests.cpu", "7m")
        | both("pod.containers[ovs-vswitchd].resources.requests.memory", "70Mi")
        | both("pod.containers[ovs-vswitchd].resources.limits.cpu", "8")
        | both("pod.containers[ovs-vswitchd].resources.limits.memory", "8Gi"),
        "nodeSelector": everywhere("pod.nodeSelector.own", "yes")
        | everywhere("pod.nodeSelector.openvswitch", None)
        | {"published.nodes": "own=yes"},
        "tolerations": everywhere("pod.tolerations[0].key", "own"),
        "affinity": everywhere("pod.affinity.nodeAffinity.own", "rule"),
        "priorityClassName": everywhere("pod.priorityClassName", "own"),
    }
    # A gateway's pod leaves nodes that are none to the other DaemonSet, which is an affinity, too.
    also = ("DaemonSet/ovn-chassis pod.affinity.nodeAffinity", *(f"{name} pod.tolerations" for name in NODES))
    return row(KIND, f"spec.ovs.{field}", POD[field], expected[field], *also)


def member(field: str, name: str, text: str) -> ParameterSet:
    """Three members of a database, each of which its clients are told of."""
    others = {"StatefulSet", "Service", "Secret"}
    expected: Leaves = {
        f"StatefulSet/ovn-{name} spec.replicas": 3,
        f"published.{text}": re.compile(rf"ovn-{name}-0\..*,.*ovn-{name}-1\..*,.*ovn-{name}-2\."),
        f"{NORTHD} spec.replicas": 2,
    }
    also = [f"{sort}/ovn-{name}" for sort in others]
    also += [NORTHD, "PodDisruptionBudget/ovn-northd ", "published.southbound", "endpoint"]
    also += [REMOTE]
    return row(KIND, f"spec.{field}.replicas", 3, expected, *also)


def volume(field: str, name: str) -> list[ParameterSet]:
    claim = f"StatefulSet/ovn-{name} spec.volumeClaimTemplates[0].spec"
    return [
        row(KIND, f"spec.{field}.storage.size", "4Gi", {f"{claim}.resources.requests.storage": "4Gi"}),
        row(KIND, f"spec.{field}.storage.storageClass", "fast", {f"{claim}.storageClassName": "fast"}),
    ]


THREE = {"northbound": {"replicas": 3}, "southbound": {"replicas": 3}, "relay": {"replicas": 2}}
IMAGES = POD["image"]
CONTROLLER = f"{CONTROLLERS} pod.containers[ovn-controller]"


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *pods(KIND, "spec.northbound", NB, THREE, f"{NORTHD} annotations.openstack.k8s.io/ovn-schemas"),
        *pods(KIND, "spec.southbound", SB, THREE),
        *pods(KIND, "spec.northd", NORTHD, THREE),
        *pods(KIND, "spec.relay", RELAY, THREE),
        *(on_nodes(field) for field in POD if field not in {"antiAffinity", "topologySpreadConstraints"}),
        member("northbound", "nb", "northbound"),
        member("southbound", "sb", "southbound"),
        *volume("northbound", "nb"),
        *volume("southbound", "sb"),
        row(KIND, "spec.northd.replicas", 2, {f"{NORTHD} spec.replicas": 2}, NORTHD, "PodDisruptionBudget/ovn-northd "),
        row(
            KIND,
            "spec.relay.replicas",
            2,
            {
                f"{RELAY} spec.replicas": 2,
                f"{REMOTE}.value": f"tcp:ovn-relay.{HOST}:6642",
                "published.southboundForNodes": f"tcp:ovn-relay.{HOST}:6642",
                "RelayReady": "",
            },
            f"{RELAY} ",
            "Service/ovn-relay ",
            "PodDisruptionBudget/ovn-relay ",
            *POLICIES,
        ),
        row(
            KIND,
            "spec.gateway.nodeSelector",
            {"way": "out"},
            {
                "DaemonSet/ovn-gateway pod.nodeSelector.way": "out",
                "DaemonSet/ovn-gateway pod.nodeSelector.openstack-gateway": None,
            },
            "DaemonSet/ovn-chassis pod.affinity.nodeAffinity",
        ),
        row(KIND, "spec.datapath", "netdev", switch("OVS_DATAPATH", "netdev")),
        row(
            KIND,
            "spec.tunnelInterface",
            "eth1",
            switch("OVS_TUNNEL_INTERFACE", "eth1"),
            *(f"{name} pod.containers[ovs-vswitchd].env[OVS_TUNNEL_INTERFACE].name" for name in SWITCHES),
        ),
        row(KIND, "spec.bridgeMappings", {"provider": "br-p"}, switch("OVN_BRIDGE_MAPPINGS", "provider:br-p")),
        row(
            KIND,
            "spec.externalBridge.name",
            "br-out",
            switch("OVN_BRIDGE_MAPPINGS", "physnet1:br-out") | switch("OVS_EXTERNAL_BRIDGE", "br-out"),
        ),
        row(
            KIND,
            "spec.externalBridge.address",
            "192.0.2.1/24",
            {"DaemonSet/ovn-gateway pod.containers[ovs-vswitchd].env[OVS_EXTERNAL_ADDRESS].value": "192.0.2.1/24"},
        ),
        row(KIND, "spec.externalBridge.interface", "eth2", switch("OVS_EXTERNAL_INTERFACE", "eth2")),
        row(
            KIND,
            "spec.ovnImage",
            IMAGES,
            {f"{name} pod.containers[main].image": OWN_IMAGE for name in (NB, SB, NORTHD, RELAY)}
            | {f"{CONTROLLER}.image": OWN_IMAGE}
            | versions(NB, SB, NORTHD, RELAY, CONTROLLERS),
            f"{NORTHD} annotations.openstack.k8s.io/ovn-schemas",
            base={"relay": {"replicas": 1}},
        ),
        row(
            KIND,
            "spec.ovsImage",
            IMAGES,
            both("pod.containers[ovs-vswitchd].image", OWN_IMAGE)
            | both("pod.containers[ovs-db].image", OWN_IMAGE)
            | versions(*SWITCHES),
        ),
        row(
            KIND,
            "spec.controller.nodeSelector",
            {"own": "yes"},
            everywhere("pod.nodeSelector.own", "yes")
            | everywhere("pod.nodeSelector.openvswitch", None)
            | {"published.nodes": "own=yes"},
        ),
        row(
            KIND,
            "spec.controller.resources",
            POD["resources"],
            {
                f"{CONTROLLER}.resources.requests.cpu": "7m",
                f"{CONTROLLER}.resources.requests.memory": "70Mi",
                f"{CONTROLLER}.resources.limits.cpu": "8",
                f"{CONTROLLER}.resources.limits.memory": "8Gi",
            },
        ),
        *(
            row(
                KIND,
                f"spec.neutronIntegration.{field}.service",
                {"name": "own", "port": 7000},
                {
                    f"status.endpoints.{where}": f"tcp:own.{HOST}:7000",
                    "Service/own spec.ports[ovsdb].port": 7000,
                    "Service/own spec.ports[ovsdb].targetPort": port,
                },
                "Service/own ",
            )
            for field, where, port in (("nbConnection", "northbound", 6641), ("sbConnection", "southbound", 6642))
        ),
        row(
            KIND,
            "spec.retention",
            "Delete",
            {
                f"StatefulSet/ovn-{name} spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Delete"
                for name in ("nb", "sb")
            },
        ),
        row(
            KIND,
            "spec.networkPolicies.enabled",
            True,
            {
                # Databases are shut in any case; with this, services open them for themselves.
                f"NetworkPolicy/ovn-{name} spec.ingress[2].from[0].podSelector.matchExpressions[0].key": None
                for name in ("nb", "sb")
            },
            "NetworkPolicy/ovn-",
        ),
        row(
            KIND,
            "spec.networkPolicies.nodes",
            ["192.0.2.0/24"],
            {
                "NetworkPolicy/ovn-sb-nodes spec.ingress[0].from[0].ipBlock.cidr": "192.0.2.0/24",
                "NetworkPoliciesReady": APPLIED,
            },
            base={"networkPolicies": {"enabled": True}},
        ),
        row(
            KIND,
            "spec.networkPolicies.allowFrom",
            [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            {"NetworkPolicy/ovn spec.ingress[0].from[1].podSelector.matchLabels.app": "prometheus"},
            base={"networkPolicies": {"enabled": True}},
        ),
    ],
)
def test_a_field_changes(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(KIND, f"spec.ovs.{field}", POD[field], {}, says="does nothing")
        for field in ("antiAffinity", "topologySpreadConstraints")
    ],
)
def test_workloads_of_every_node_ignore_replicas_and_placement(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)
    assert "run once on every node" in description(kind, path)


@pytest.mark.proves(KIND, "spec.encapType")
def test_packets_travel_by_geneve_and_nothing_else_may_be_written() -> None:
    assert {value for field, value in resulting_leaves(KIND, {}).items() if "env[OVN_ENCAP_TYPE].value" in field} == {
        "geneve"
    }
    with pytest.raises(SpecError, match=r"^spec\.encapType: Input should be 'geneve'"):
        resulting_leaves(KIND, {"encapType": "vxlan"})


BY = pki.authority("drawn", "openstack/own", NOW)
NAMES = frozenset(f"{wild}ovn-{name}.{HOST}" for name in ("nb", "sb", "relay") for wild in ("*.", ""))
PAIR = pki.issue(BY, pki.Request(common="ovn", names=NAMES, life=timedelta(days=3650), calls=True), "own", NOW)
MINE: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "mine"},
    "stringData": {"tls.crt": PAIR.cert, "tls.key": PAIR.key, "ca.crt": BY.cert},
}
CERTIFIED = {"tls": {"enabled": True, "pkiRef": {"name": "internal"}}}
ALL = (
    *(NB, SB, NORTHD, RELAY, *NODES, *POLICIES, "RelayReady", "ChassisAuthorityReady"),
    "Service/ovn-",
    "Secret/ovn-",
    "published.",
    "status.endpoints.",
    "endpoint",
)
BY_TLS: Leaves = {
    f"{NORTHD} pod.containers[main].env[OVN_NB_DB].value": f"ssl:ovn-nb-0.ovn-nb.{HOST}:16641",
    f"{REMOTE}.value": f"ssl:ovn-relay.{HOST}:16642",
    f"{CONTROLLERS} pod.volumes[node-certificate].hostPath.path": "/var/lib/openstack-tls/chassis-tls",
    f"{RELAY} pod.volumes[tls].secret.secretName": "ovn-relay-tls",
    "status.endpoints.southbound": f"ssl:ovn-sb.{HOST}:16642",
    "CertificateReady": "",
}


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(KIND, "spec.tls.enabled", True, BY_TLS, *ALL, base={"tls": {"pkiRef": {"name": "internal"}}}),
        row(
            KIND,
            "spec.tls.pkiRef.name",
            "other",
            {"uses PKI/other": True, "uses PKI/internal": None},
            "Secret/ovn-",
            base=CERTIFIED,
        ),
        row(
            KIND,
            "spec.tls.required",
            True,
            {f"StatefulSet/ovn-{name} pod.containers[main].env[OVN_PLAIN].value": "no" for name in ("nb", "sb")}
            | {f"Service/ovn-{name} spec.ports[ovsdb].port": None for name in ("nb", "sb")},
            NB,
            SB,
            RELAY,
            "Service/ovn-",
            *POLICIES,
            base=CERTIFIED,
        ),
    ],
)
def test_encryption(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)


@pytest.mark.proves(KIND, "spec.tls.certSecretRef.name")
def test_a_certificate_of_the_users_own_is_shown_by_all() -> None:
    found = changes(
        resulting_leaves(KIND, {}),
        resulting_leaves(KIND, {"tls": {"enabled": True, "certSecretRef": {"name": "mine"}}}, MINE),
    )
    assert {field: found[field] for field in BY_TLS} == BY_TLS
    assert found["Secret/ovn-tls tls.crt"] == PAIR.cert
    with pytest.raises(MissingReference, match=r"spec\.tls\.certSecretRef\.name: there is no Secret 'mine'"):
        resulting_leaves(KIND, {"tls": {"enabled": True, "certSecretRef": {"name": "mine"}}})
