"""OVN from one version to another: the order of its programs, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openstack_operator.plan import Object, Plan, Release, SpecError, Step, key
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.testing import context, granted

Children = dict[tuple[str, str], Object]
PROGRAMS = {
    ("StatefulSet", "ovn-nb"),
    ("StatefulSet", "ovn-sb"),
    ("Deployment", "ovn-northd"),
    ("DaemonSet", "ovn-controller"),
}


def of_version(release: Release, version: str) -> Release:
    """The release with another version of OVN."""
    components = {
        name: replace(entry, version=version, versions={}) if name.startswith("ovn-") else entry
        for name, entry in release.components.items()
    }
    return replace(release, components=components)


def made(release: Release, children: Children | None = None, spec: dict[str, Any] | None = None) -> Plan:
    return plan(context(OVN_NETWORK, spec, owner="ovn", release=release, children=children or {}))


def live(release: Release, version: str) -> Children:
    """All workloads of a version, rolled out; controllers on two nodes."""
    objects = [obj for obj in made(of_version(release, version)).objects if key(obj) in PROGRAMS]
    children = {key(obj): granted(obj) for obj in objects}
    assert children.keys() == PROGRAMS
    rolled_out(children["DaemonSet", "ovn-controller"], updated=2)
    return children


def rolled_out(daemons: Object, updated: int) -> None:
    counts = {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2,
        "numberReady": 2,
        "updatedNumberScheduled": updated,
    }
    daemons["metadata"]["generation"] = 1
    daemons["status"] = {**counts, "observedGeneration": 1}


def step(made_plan: Plan, name: str) -> Step:
    return next(each for each in made_plan if each.name == name)


def has(made_plan: Plan, name: str) -> bool:
    return any(each.name == name for each in made_plan)


def test_without_another_version_there_is_no_order(release: Release) -> None:
    for children in ({}, live(release, "25.03"), live(release, "25.03.1")):
        steps = made(release, children)
        assert not has(steps, "Version")
        assert not has(steps, "Schema")
    assert step(steps, "Southbound") in step(steps, "Controller").after


def test_databases_wait_for_controllers_on_all_nodes(release: Release) -> None:
    children = live(release, "24.03")
    steps = made(release, children)
    gate = step(steps, "Version")
    assert gate.barrier
    assert gate.verdict
    assert gate.verdict.message == (
        "databases, relays and northd get OVN 25.03 after ovn-controller on all nodes; 0 of 2"
        " nodes have it; repair missing nodes, or exclude them (label openvswitch=enabled)"
    )
    assert all(gate in step(steps, name).after for name in ("Northbound", "Southbound", "Schema"))
    assert not step(steps, "Controller").after, "controllers work with the old databases"
    daemons = children["DaemonSet", "ovn-controller"] = live(release, "25.03")["DaemonSet", "ovn-controller"]
    rolled_out(daemons, updated=1)
    verdict = step(made(release, children), "Version").verdict
    assert verdict
    assert "1 of 2 nodes have it;" in verdict.message
    rolled_out(daemons, updated=2)
    verdict = step(made(release, children), "Version").verdict
    assert verdict
    assert verdict.ready


def test_northd_comes_after_the_schemas_and_these_after_all_members(release: Release) -> None:
    steps = made(release, live(release, "24.03"))
    schema = step(steps, "Schema")
    assert schema.barrier
    assert {step(steps, "Northbound"), step(steps, "Southbound")} <= set(schema.after)
    assert schema in step(steps, "Northd").after
    [job] = schema.objects
    [main] = job["spec"]["template"]["spec"]["containers"]
    assert main["command"][-4:] == [
        *("OVN_Northbound", "tcp:ovn-nb-0.ovn-nb.openstack.svc.cluster.local:6641"),
        *("OVN_Southbound", "tcp:ovn-sb-0.ovn-sb.openstack.svc.cluster.local:6642"),
    ]


def test_the_order_holds_until_northd_is_new(release: Release) -> None:
    children = live(release, "24.03")
    for component in ("nb", "sb"):
        children["StatefulSet", f"ovn-{component}"] = live(release, "25.03")["StatefulSet", f"ovn-{component}"]
    assert has(made(release, children), "Schema"), "its Job is the reason to go on"
    children["Deployment", "ovn-northd"] = live(release, "25.03")["Deployment", "ovn-northd"]
    assert not has(made(release, children), "Schema")


def test_an_upgrade_that_ovn_does_not_support_is_refused(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec.version: 23.09 runs and cannot be upgraded to 25.03; upgrade to 24.03"):
        made(release, live(release, "23.09"))
    with pytest.raises(
        SpecError, match=r"spec.version: 25.03 cannot read the data of the running 26.03; set that again, or restore a"
    ):
        made(release, live(release, "26.03"))


def test_a_version_without_an_image_can_be_taken_back(release: Release) -> None:
    children = live(release, "26.03")
    workloads = [each for each in children if each[0] != "DaemonSet"]
    for each in workloads:
        counts = {"replicas": 4, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}
        children[each]["status"] = {"observedGeneration": children[each]["metadata"].get("generation", 0), **counts}
    missing = [(*each, "26.03") for each in workloads]
    back = plan(context(OVN_NETWORK, None, owner="ovn", release=release, children=children, without_image=missing))
    assert not has(back, "Version")
    with pytest.raises(SpecError, match=r"25.03 cannot read the data of the running 26.03"):
        plan(context(OVN_NETWORK, None, owner="ovn", release=release, children=children, without_image=missing[1:]))


def test_the_version_of_an_image_without_one_is_not_known(release: Release) -> None:
    steps = made(release, live(release, "24.03"), {"image": "registry.example.org/ovn:stable"})
    assert not has(steps, "Version")
    [northd] = [obj for obj in steps.objects if obj["metadata"]["name"] == "ovn-northd"]
    assert "openstack.k8s.io/ovn-schemas" not in northd["metadata"].get("annotations", {})


def images(made_plan: Plan, name: str) -> set[str]:
    """Names of the images of a workload."""
    [workload] = [obj for obj in made_plan.objects if obj["metadata"]["name"] == name and "template" in obj["spec"]]
    containers = workload["spec"]["template"]["spec"]["containers"]
    return {each["image"].rpartition("/")[2].partition(":")[0] for each in containers}


def test_a_version_of_ovn_leaves_the_switch_as_it_is(release: Release) -> None:
    before, after = made(release), made(release, spec={"version": "26.03"})
    for name in ("ovn-nb", "ovn-sb", "ovn-northd", "ovn-controller"):
        assert (images(before, name), images(after, name)) == ({"ovn"}, {"ovn-26.03"})
    switches = {"ovn-gateway", "ovn-chassis"}
    plans = [[obj for obj in each.objects if obj["metadata"]["name"] in switches] for each in (before, after)]
    assert plans[0] == plans[1]


def test_a_version_that_the_release_does_not_have_is_refused(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec.version: .* has no ovn-nb 24.09; choose from 25.03, 26.03"):
        made(release, spec={"version": "24.09"})


def test_schemas_are_converted_though_northd_says_no_version(release: Release) -> None:
    """Of an image without a version only the databases tell that there is an upgrade, until all their pods are new."""
    children = live(release, "24.03")
    spec = {"northd": {"image": "registry.example.org/ovn:own"}}
    for component in ("nb", "sb"):
        children["StatefulSet", f"ovn-{component}"] = live(release, "25.03")["StatefulSet", f"ovn-{component}"]
    assert has(made(release, children, spec), "Schema")
    northd = next(obj for obj in made(release, children, spec).objects if obj["metadata"]["name"] == "ovn-northd")
    children["Deployment", "ovn-northd"] = granted(northd)
    assert not has(made(release, children, spec), "Schema"), "it came after them"


def test_without_switches_no_controller_is_awaited(release: Release) -> None:
    children = live(release, "24.03")
    del children["DaemonSet", "ovn-controller"]
    verdict = step(made(release, children, {"chassis": {"enabled": False}}), "Version").verdict
    assert verdict
    assert verdict.ready


def test_controllers_do_not_wait_for_a_switch_that_loses_its_own(release: Release) -> None:
    name = ("DaemonSet", "ovn-gateway")
    switch = next(granted(obj) for obj in made(release).objects if key(obj) == name)
    assert step(made(release, {name: switch}), "Controller").after
    switch["spec"]["template"]["spec"]["containers"].append({"name": "ovn-controller"})
    assert not step(made(release, {name: switch}), "Controller").after
