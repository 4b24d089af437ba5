"""OVNNetwork: what must hold besides its goldens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Release, SpecError, Step, UnsupportedError, carry_out, conditions, key
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.testing import context, granted
from tests.planning import planner

result = planner(plan, OVN_NETWORK, owner="ovn")


def planned(release: Release, spec: dict[str, Any] | None = None) -> dict[tuple[str, str], Object]:
    return {key(obj): obj for obj in result(release, spec).objects}


def pod(objects: dict[tuple[str, str], Object], name: str) -> Object:
    return objects["DaemonSet", name]["spec"]["template"]["spec"]


def environment(pod: Object) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for c in pod["containers"] for e in c.get("env", ())}


def test_the_contract(release: Release) -> None:
    assert result(release).outcome.published == {
        "northbound": "tcp:ovn-nb-0.ovn-nb.openstack.svc.cluster.local:6641",
        "southbound": "tcp:ovn-sb-0.ovn-sb.openstack.svc.cluster.local:6642",
        "southboundForNodes": "tcp:ovn-sb-0.ovn-sb.openstack.svc.cluster.local:6642",
    }


def test_nodes_read_relays_and_everybody_else_the_members(release: Release) -> None:
    made = result(release, {"replicas": 3, "relay": {"replicas": 2, "priorityClassName": "seven"}})
    members = made.outcome.published["southbound"]
    relays = "tcp:ovn-relay.openstack.svc.cluster.local:6642"
    assert made.outcome.published["southboundForNodes"] == relays
    objects = {key(obj): obj for obj in made.objects}
    assert environment(pod(objects, "ovn-controller"))["OVN_REMOTE"] == relays
    # Another address must not restart the switch of a node.
    assert "OVN_REMOTE" not in environment(pod(objects, "ovn-chassis"))
    relay, northd = (objects["Deployment", f"ovn-{name}"]["spec"]["template"]["spec"] for name in ("relay", "northd"))
    assert environment(relay)["OVN_SB_DB"] == environment(northd)["OVN_SB_DB"] == members
    assert objects["Deployment", "ovn-relay"]["spec"]["replicas"] == 2
    assert (relay["priorityClassName"], northd.get("priorityClassName")) == ("seven", None)
    assert ("PodDisruptionBudget", "ovn-relay") in objects


def test_without_relays_there_is_nothing_of_them(release: Release) -> None:
    assert not [name for _, name in planned(release) if "relay" in name]


def test_relays_are_not_supported_for_kolla(release: Release) -> None:
    with pytest.raises(UnsupportedError, match=r"spec\.relay\.replicas"):
        planned(release, {"relay": {"replicas": 1}, "imageProfile": "kolla"})


def test_only_the_seed_creates_a_cluster(release: Release) -> None:
    main = planned(release)["StatefulSet", "ovn-nb"]["spec"]["template"]["spec"]["containers"][0]
    env = {entry["name"]: entry.get("value") for entry in main["env"]}
    assert env["OVN_ADDRESS"] == "$(POD_NAME).ovn-nb.openstack.svc.cluster.local"
    assert env["OVN_SEED"] == "ovn-nb-0.ovn-nb.openstack.svc.cluster.local"
    assert main["lifecycle"]["preStop"]["exec"]["command"] == ["ovn-db-stop", "nb"]


def test_a_node_is_a_gateway_or_not_but_never_both(release: Release) -> None:
    objects = planned(release)
    gateway, chassis = pod(objects, "ovn-gateway"), pod(objects, "ovn-chassis")
    assert gateway["nodeSelector"] == {"openvswitch": "enabled", "openstack-gateway": "enabled"}
    assert chassis["nodeSelector"] == {"openvswitch": "enabled"}
    required = chassis["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "openstack-gateway", "operator": "NotIn", "values": ["enabled"]}
    assert required == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def test_only_gateways_say_so_and_bear_the_external_address(release: Release) -> None:
    objects = planned(release, {"externalBridge": {"address": "172.24.4.1/24"}})
    gateway = environment(pod(objects, "ovn-gateway"))
    chassis = environment(pod(objects, "ovn-chassis"))
    assert gateway["OVN_CMS_OPTIONS"] == "enable-chassis-as-gw"
    assert gateway["OVS_EXTERNAL_ADDRESS"] == "172.24.4.1/24"
    assert not {"OVN_CMS_OPTIONS", "OVS_EXTERNAL_ADDRESS"} & set(chassis)
    # Provider networks and distributed floating IPs need the bridge everywhere.
    assert chassis["OVS_EXTERNAL_BRIDGE"] == "br-ex"
    assert chassis["OVN_BRIDGE_MAPPINGS"] == "physnet1:br-ex"


def test_nodes_that_are_all_gateways_leave_no_other_chassis(release: Release) -> None:
    objects = planned(release, {"gateway": {"nodeSelector": {}}})
    assert pod(objects, "ovn-gateway")["nodeSelector"] == {"openvswitch": "enabled"}
    assert ("DaemonSet", "ovn-chassis") not in objects


def test_users_affinity_holds_beside_ours() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    narrowed = kube.exclude_nodes(affinity, {"one": "x", "two": "y"})
    required = narrowed["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    # Lacking one label is enough, and terms are alternatives.
    assert [[e["key"] for e in t["matchExpressions"]] for t in required["nodeSelectorTerms"]] == [
        ["zone", "one"],
        ["zone", "two"],
    ]
    assert len(term["matchExpressions"]) == 1, "the user's own value stays as it was"


def test_a_second_cloud_leaves_the_nodes_alone(release: Release) -> None:
    objects = planned(release, {"chassis": {"enabled": False}})
    assert not [kind for kind, _ in objects if kind == "DaemonSet"]


def test_nodes_of_one_ovnnetwork_are_one_condition(release: Release) -> None:
    assert set(result(release).condition.values()) == {
        "NetworkPolicies",
        "Northbound",
        "Southbound",
        "Northd",
        "Controllers",
    }


@pytest.mark.parametrize(
    ("spec", "gateways", "others", "said"),
    [
        ({}, 1, 0, ""),
        (
            {},
            1,
            1,
            "unset, so where a node's kernel has no openvswitch, servers on 2 nodes cannot reach servers on other",
        ),
        (
            {"datapath": "netdev"},
            0,
            2,
            "spec.tunnelInterface: unset, so servers on 2 nodes cannot reach servers on other",
        ),
        ({"datapath": "netdev", "tunnelInterface": "eth1"}, 0, 2, ""),
        ({"datapath": "system"}, 1, 2, ""),
    ],
)
async def test_several_nodes_are_told_what_a_switch_in_userspace_cannot(
    release: Release, spec: dict[str, Any], gateways: int, others: int, said: str
) -> None:
    counts = {"ovn-gateway": gateways, "ovn-chassis": others}
    children = {
        ("DaemonSet", name): {"kind": "DaemonSet", "status": {"desiredNumberScheduled": count}}
        for name, count in counts.items()
    }
    made = plan(context(OVN_NETWORK, spec, release=release, owner="ovn", children=children))

    async def apply(step: Step) -> Sequence[Object]:
        return [granted(obj) for obj in step.objects]

    found = conditions(made, await carry_out(made, apply, kube.judge, lambda _: True))
    # It is said, and stops nothing.
    assert found["Ready"].ready
    assert found["ControllersReady"].ready
    assert said in found["ControllersReady"].message
    assert bool(said) == bool(found["ControllersReady"].message)


def test_the_physical_network_follows_the_external_bridge(release: Release) -> None:
    env = environment(pod(planned(release, {"externalBridge": {"name": "br-wan"}}), "ovn-chassis"))
    assert env["OVN_BRIDGE_MAPPINGS"] == "physnet1:br-wan"


@pytest.mark.parametrize("network", ["", "a,b", "a:b", 'a"b', "a b"])
def test_names_that_would_break_the_mapping_are_refused(release: Release, network: str) -> None:
    with pytest.raises(SpecError, match=r"^spec.bridgeMappings"):
        planned(release, {"bridgeMappings": {network: "br-ex"}})


def test_a_switch_is_not_restarted_by_settings_it_does_not_use(release: Release) -> None:
    before = pod(planned(release), "ovn-gateway")
    elsewhere = {"storageSize": "9Gi", "northd": {"replicas": 3}, "northbound": {"priorityClassName": "high"}}
    assert pod(planned(release, elsewhere), "ovn-gateway") == before


def test_tunnels_have_an_interface_of_their_own_where_one_is_named(release: Release) -> None:
    for name in ("ovn-gateway", "ovn-chassis"):
        assert "OVS_TUNNEL_INTERFACE" not in environment(pod(planned(release), name))
        named = planned(release, {"tunnelInterface": "eth1"})
        assert environment(pod(named, name))["OVS_TUNNEL_INTERFACE"] == "eth1"
    with pytest.raises(UnsupportedError, match=r"^spec.tunnelInterface: "):
        planned(release, {"tunnelInterface": "eth1", "imageProfile": "kolla"})


def test_more_than_one_member_of_kollas_images_is_not_supported(release: Release) -> None:
    with pytest.raises(UnsupportedError, match=r"^spec.replicas: .* use 1$"):
        planned(release, {"replicas": 3, "imageProfile": "kolla"})


def test_kolla_images_run_the_same_plan() -> None:
    spec = OVN_NETWORK.spec.model_validate({"imageProfile": "kolla"})
    objects = planned(ReleaseFiles()(spec), {"imageProfile": "kolla"})
    main = objects["StatefulSet", "ovn-nb"]["spec"]["template"]["spec"]["containers"][0]
    assert main["securityContext"]["runAsUser"] == 0
    assert not main["securityContext"]["runAsNonRoot"], "the kubelet would refuse to start uid 0"


def test_each_container_of_a_node_has_its_own_image_and_resources(release: Release) -> None:
    spec = {
        "image": "example.org/ovn:all",
        "chassis": {
            "resources": {"limits": {"memory": "2Gi"}},
            "switchDatabase": {"resources": {"requests": {"memory": "24Mi"}}},
            "controller": {"image": "example.org/ovn:own"},
        },
    }
    [controller] = pod(planned(release, spec), "ovn-controller")["containers"]
    for name in ("ovn-gateway", "ovn-chassis"):
        switch, database = pod(planned(release, spec), name)["containers"]
        assert [c["image"][12:] for c in (switch, database, controller)] == ["ovn:all", "ovn:all", "ovn:own"]
        assert switch["resources"]["limits"]["memory"] == "2Gi"
        for container, memory in ((database, "24Mi"), (controller, "32Mi")):
            assert container["resources"]["requests"].items() >= {"cpu": "10m", "memory": memory}.items()


@pytest.mark.parametrize(
    "affinity",
    [
        {"nodeAffinity": "rack"},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "rack"}}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [["rack"]]}}},
    ],
)
def test_an_affinity_that_is_none_names_its_field(release: Release, affinity: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"spec\.chassis\.affinity: not an affinity"):
        result(release, {"chassis": {"affinity": affinity}})
