"""Groups of compute nodes: each node has one nova-compute, with the options of its group."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.cli.inspection.configuration import effective
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import NodeSelection
from openstack_operator.plan import (
    Node,
    Object,
    OptionsError,
    Plan,
    SpecError,
    Step,
    Verdict,
    carry_out,
    conditions,
    key,
)
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.services.nova.model import NOVA
from openstack_operator.testing import context, granted
from openstack_operator.yaml_text import load
from tests.field_effects import RELEASES
from tests.planning import release_of
from tests.unit.services.test_nova import PUBLISHED, SECRETS, made, planned

GPU: Mapping[str, Any] = {
    "name": "gpu",
    "nodeSelector": {"gpu": "true"},
    "config": {"pci": {"device_spec": '{"vendor_id": "10de"}'}},
}
PINNED: Mapping[str, Any] = {
    "name": "pinned",
    "nodeSelector": {"cpu": "pinned", "zone": "a"},
    "config": {"compute": {"cpu_dedicated_set": "2-17"}, "libvirt": {"cpu_mode": "host-passthrough"}},
}
COMMON = {"libvirt": {"cpu_mode": "host-model"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SERVICE_FOLDER = Path(__file__).parent.parent.parent.parent / "src" / "openstack_operator" / "services"
RECORD = next(each for each in SERVICES if each.resource is NOVA)


def with_groups(*groups: Mapping[str, Any], **compute: Any) -> dict[str, Any]:
    return {"compute": {"config": COMMON, "groups": list(groups), **compute}}


def daemon_sets(plan: Plan) -> dict[str, Object]:
    """Return the DaemonSets of nova-compute by name."""
    return {name: obj for (kind, name), obj in made(plan).items() if kind == "DaemonSet" and name.endswith("-compute")}


def conf(plan: Plan, daemons: str) -> str:
    return kube.secret_data(made(plan)["Secret", f"{daemons}-config"])["nova.conf"]


def every_node() -> list[dict[str, str]]:
    """Return labels of nodes, in all combinations that groups and cells look at, and others."""
    values: dict[str, tuple[str, ...]] = {
        "openstack-compute-node": ("", "enabled"),
        "openstack-cell": ("", "cell1", "cell2", "unknown"),
        "gpu": ("", "true", "false"),
        "cpu": ("", "pinned"),
        "zone": ("", "a", "b"),
    }
    return [
        {name: value for name, value in zip(values, combination, strict=True) if value}
        for combination in product(*values.values())
    ]


@pytest.mark.parametrize(
    "groups", [(), (GPU,), (GPU, PINNED), (PINNED, GPU)], ids=["none", "one", "two", "two in the other order"]
)
def test_a_node_has_one_nova_compute(groups: tuple[Mapping[str, Any], ...]) -> None:
    cells = {"cells": [{"name": "cell1"}, {"name": "cell2"}]}
    selections = {
        name: NodeSelection.of(each) for name, each in daemon_sets(planned({**with_groups(*groups), **cells})).items()
    }
    for labels in every_node():
        cell = labels.get("openstack-cell", "cell1")
        is_compute_node = "openstack-compute-node" in labels and cell != "unknown"
        group = next((each["name"] for each in groups if each["nodeSelector"].items() <= labels.items()), "")
        expected = [f"nova-{cell}-{group}-compute" if group else f"nova-{cell}-compute"] if is_compute_node else []
        assert [name for name, each in selections.items() if each.takes("node", labels)] == expected, labels


def test_an_affinity_of_the_user_holds_in_each_group() -> None:
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["one"]}]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    plan = planned(with_groups(GPU, affinity=affinity, nodeSelector={}))
    group, others = (NodeSelection.of(each) for each in daemon_sets(plan).values())
    for labels in ({"rack": "two"}, {"rack": "two", "gpu": "true"}):
        assert not group.takes("node", labels)
        assert not others.takes("node", labels)
    assert group.takes("node", {"rack": "one", "gpu": "true"})
    assert others.takes("node", {"rack": "one"})


def test_roles_have_the_names_that_no_kubelet_may_set() -> None:
    checks = 0
    group = {"name": "far", "nodeSelector": {"openstack-cell": "far", "gpu": "true"}}
    plain = context(NOVA, with_groups(group), release=release_of("debian"), published=PUBLISHED, secrets=SECRETS)
    restricted = replace(plain, permissions=replace(plain.permissions, node_labels="restricted"))
    for each in daemon_sets(RECORD.plan(restricted)).values():
        pod = each["spec"]["template"]["spec"]
        text = str({"selector": pod["nodeSelector"], "affinity": pod["affinity"]["nodeAffinity"]})
        checks += 1
        assert "'openstack-cell'" not in text
        assert "node-restriction.kubernetes.io/openstack-cell" in text
    assert checks


def test_options_of_a_group_are_over_those_of_all_compute_nodes() -> None:
    plan = planned(with_groups(GPU, PINNED))
    assert "cpu_mode = host-passthrough" in conf(plan, "nova-cell1-pinned-compute")
    assert "cpu_dedicated_set = 2-17" in conf(plan, "nova-cell1-pinned-compute")
    assert "cpu_mode = host-model" in conf(plan, "nova-cell1-gpu-compute")
    assert 'device_spec = {"vendor_id": "10de"}' in conf(plan, "nova-cell1-gpu-compute")
    assert conf(plan, "nova-cell1-compute") == conf(planned({"compute": {"config": COMMON}}), "nova-cell1-compute")


def test_config_shows_the_options_of_a_group_and_their_field() -> None:
    spec = with_groups(GPU, PINNED)
    secrets = [each for each in planned(spec).objects if each["kind"] == "Secret"]
    for each in secrets:
        each["data"] = {name: base64.b64encode(text.encode()).decode() for name, text in kube.secret_data(each).items()}
    live = {"apiVersion": NOVA.api_version, "kind": "Nova", "metadata": {"name": "nova"}, "spec": spec}
    options, _ = effective([live], secrets)
    shown = {(each.secret, each.name): each for each in options if each.section in ("libvirt", "compute")}
    pinned = shown["nova-cell1-pinned-compute-config", "cpu_dedicated_set"]
    assert (pinned.value, pinned.source) == ("2-17", "user: Nova/nova, spec.compute.groups[1].config")
    common = shown["nova-cell1-gpu-compute-config", "cpu_mode"]
    assert (common.value, common.source) == ("host-model", "user: Nova/nova, spec.compute.config")


def test_pods_are_old_for_the_operator_if_they_are_for_kubernetes() -> None:
    """A template with another affinity is another revision of the DaemonSet, which waits for the operator."""
    plain, one, two = (
        daemon_sets(planned(changes))["nova-cell1-compute"]["spec"]["template"]
        for changes in ({"compute": {"config": COMMON}}, with_groups(GPU), with_groups(GPU, PINNED))
    )
    assert plain["spec"] != one["spec"] != two["spec"]
    assert len({each["metadata"]["annotations"][kube.TEMPLATE_DIGEST] for each in (plain, one, two)}) == 3


def test_no_other_nova_compute_may_be_on_the_node() -> None:
    """A pod that ends counts, too: the scheduler waits until it is gone."""
    plan = planned(with_groups(GPU))
    daemons = daemon_sets(plan)
    affinities = [each["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"] for each in daemons.values()]
    [term] = affinities[0][REQUIRED]
    assert affinities == [affinities[0]] * 2
    assert term["topologyKey"] == "kubernetes.io/hostname"
    # Expressions mean the same on labels of pods as on those of nodes.
    labels, expressions = (term["labelSelector"][name] for name in ("matchLabels", "matchExpressions"))
    selection = NodeSelection(labels, ({"matchExpressions": expressions},))
    excluded = {
        obj["metadata"]["name"]
        for obj in plan.objects
        if "template" in obj.get("spec", {})
        and selection.takes("", obj["spec"]["template"]["metadata"].get("labels", {}))
    }
    assert excluded == set(daemons)


def test_a_node_has_one_nova_compute_while_its_group_goes() -> None:
    """Pods without an anti-affinity of their own would wait for the scheduler's next try, five minutes later."""
    gpu, other = "nova-cell1-gpu-compute", "nova-cell1-compute"
    groups, none = daemon_sets(planned(with_groups(GPU))), {"compute": {"config": COMMON}}
    pods = [_pod("gpu0", gpu, groups[gpu]), _pod("other", other, groups[other])]
    ending = {**pods[0], "metadata": {**pods[0]["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    plain = daemon_sets(planned(none))[other]
    for each in (pods[0], ending):
        template = daemon_sets(planned(none, pods=[each, pods[1]]))[other]["spec"]["template"]
        anti_affinity = groups[other]["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
        assert template["spec"]["affinity"]["podAntiAffinity"] == anti_affinity
        assert template["spec"]["nodeSelector"] == plain["spec"]["template"]["spec"]["nodeSelector"]
    assert daemon_sets(planned(none, pods=[pods[1]]))[other] == plain


def carried_out(plan: Plan) -> tuple[list[str], Mapping[str, Verdict]]:
    """Return the names of the pods that a pass ends, and the conditions; all workloads are ready at once."""
    names: list[str] = []

    async def apply(each: Step) -> list[Object]:
        names.extend(pod["metadata"]["name"] for pod in each.ends)
        return [granted(obj) for obj in each.objects]

    verdicts = asyncio.run(carry_out(plan, apply, kube.judge, lambda each: True))
    return names, conditions(plan, verdicts)


def test_a_change_of_a_group_reaches_its_nodes_alone_and_in_waves() -> None:
    def live(daemons: Mapping[str, Object]) -> dict[Any, Object]:
        objects = [granted(each) for each in daemons.values()]
        for each in objects:
            each["metadata"] = {**each["metadata"], "uid": each["metadata"]["name"]}
        return {key(each): each for each in objects}

    old, changed = (
        planned(with_groups({**GPU, "config": each})) for each in (GPU["config"], {"DEFAULT": {"debug": True}})
    )
    places = {"gpu0": "nova-cell1-gpu-compute", "gpu1": "nova-cell1-gpu-compute", "other": "nova-cell1-compute"}
    pods = [_pod(node, owner, daemon_sets(old)[owner]) for node, owner in places.items()]
    nodes = {node: Node(node) for node in places}
    waiting = planned(
        with_groups({**GPU, "config": {"DEFAULT": {"debug": True}}}),
        children=live(daemon_sets(changed)),
        pods=pods,
        nodes=nodes,
    )
    names, by_type = carried_out(waiting)
    assert names == ["gpu0"]
    message = by_type["ComputeRolloutReady"].message
    assert message.startswith("1 of 3 nodes have the change; waits for node gpu0 (nova-compute ends)")
    assert waiting.outcome.details["compute"]["behind"] == ["gpu0", "gpu1"]


def _pod(node: str, owner: str, daemons: Object) -> Object:
    controller = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": owner, "controller": True}
    metadata = {"name": node, "namespace": "openstack", "uid": node, "ownerReferences": [controller]}
    ready = [{"type": each, "status": "True"} for each in ("Ready", "ContainersReady")]
    return {
        "metadata": {**daemons["spec"]["template"]["metadata"], **metadata},
        "spec": {"nodeName": node},
        "status": {"conditions": ready},
    }


def test_nodes_of_all_groups_count() -> None:
    def daemons(group: str, nodes: int) -> Object:
        status = {"desiredNumberScheduled": nodes, "numberReady": nodes}
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": f"nova-cell1-{group}compute"},
            "status": status,
        }

    children = {key(each): each for each in (daemons("gpu-", 2), daemons("", 3))}
    plan = planned(with_groups(GPU), children=children)
    job = made(plan)[next(name for name in made(plan) if name[1].startswith("nova-discover-hosts"))]
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "5"
    assert plan.outcome.details["cells"][0]["computeNodes"] == 5


def test_a_hypervisor_cluster_has_groups() -> None:
    manifests = load(SERVICE_FOLDER / "hypervisorcluster" / "cases" / "minimal.yaml")
    manifests[0]["spec"] |= with_groups(GPU)
    planned_one = next(OfflineCluster(SERVICES, ACTUATORS, RELEASES).render(manifests, "openstack"))
    names = [each["metadata"]["name"] for each in planned_one.objects if each["kind"] == "DaemonSet"]
    assert [name for name in names if name.endswith("-compute")] == [
        "hypervisors-cell1-gpu-compute",
        "hypervisors-cell1-compute",
    ]


def test_a_node_of_two_groups_is_in_the_first_and_reported() -> None:
    both = {"openstack-compute-node": "enabled", "gpu": "true", "cpu": "pinned", "zone": "a"}
    nodes = {
        "n1": Node("n1", both),
        "n2": Node("n2", {**both, "zone": "b"}),
        "n3": Node("n3", {name: value for name, value in both.items() if name != "openstack-compute-node"}),
    }
    verdict = carried_out(planned(with_groups(PINNED, GPU), nodes=nodes))[1]["ComputeReady"]
    assert verdict.ready
    assert verdict.message == "node n1 has the labels of the groups pinned, gpu, and is in pinned"
    assert "n1" not in carried_out(planned(with_groups(GPU), nodes=nodes))[1]["ComputeReady"].message


REFUSED = [
    (with_groups({**GPU, "name": "x-y"}) | {"cells": [{"name": "a"}, {"name": "a-x"}]}, None),
    (
        with_groups(GPU) | {"cells": [{"name": "a"}, {"name": "a-gpu"}]},
        r"spec\.compute\.groups\[0\]\.name: two groups or cells would share DaemonSet a-gpu-compute",
    ),
    (
        with_groups(GPU, {**PINNED, "name": "b-gpu"}) | {"cells": [{"name": "a"}, {"name": "a-b"}]},
        r"spec\.compute\.groups\[0\]\.name: two groups or cells would share DaemonSet a-b-gpu-compute",
    ),
    (
        with_groups(GPU, nodeSelector={"gpu": "false"}),
        r"spec\.compute\.groups\[0\]\.nodeSelector: compute\.nodeSelector has gpu=false, .*; remove gpu",
    ),
    (
        with_groups(GPU, {**GPU, "name": "more", "nodeSelector": {"gpu": "true", "zone": "a"}}),
        r"spec\.compute\.groups\[1\]\.nodeSelector: the earlier group gpu takes .*; move this group before it",
    ),
    (
        with_groups(*({"name": f"g{n}", "nodeSelector": {f"a{n}": "1", f"b{n}": "1"}} for n in range(6))),
        r"spec\.compute\.groups: too many groups with several labels; use one label for each group",
    ),
    (with_groups(*({"name": f"g{n}", "nodeSelector": {f"a{n}": "1"}} for n in range(16))), None),
]


@pytest.mark.parametrize(("spec", "refusal"), REFUSED)
def test_groups_without_nodes_and_names_of_others_are_refused(spec: dict[str, Any], refusal: str | None) -> None:
    if refusal is None:
        assert daemon_sets(planned(spec))
        return
    with pytest.raises(SpecError, match=refusal):
        planned(spec)


WRONG = {
    "an option of the operator": ({"vnc": {"enabled": False}}, "vnc.enabled"),
    "an option of the environment": ({"DEFAULT": {"my_ip": "10.0.0.1"}}, "DEFAULT.my_ip"),
    "no value": ({"libvirt": {"cpu_mode": "fast"}}, "libvirt.cpu_mode"),
    "the name of the group": (
        {"gpu": {}, "compute": {"shutdown_retry_interval": "soon"}},
        "compute.shutdown_retry_interval",
    ),
    "no name": ({"DEFAULT": {"a b": "c"}}, "DEFAULT.'a b'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_options_of_a_group_are_checked_as_all_others(case: str) -> None:
    options, path = WRONG[case]
    spec = with_groups({**GPU, "name": "compute" if "name" in case else "gpu", "config": options})
    manifest = {"apiVersion": NOVA.api_version, "kind": "Nova", "metadata": {"name": "nova"}, "spec": spec}
    with pytest.raises(OptionsError) as error:
        list(OfflineCluster(SERVICES, ACTUATORS, RELEASES).render([manifest], "openstack"))
    assert [each for each, _ in error.value.problems] == [f"spec.compute.groups[0].config.{path}"]
