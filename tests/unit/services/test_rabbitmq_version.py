"""RabbitMQ from one version to another: what a plan does, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openstack_operator.plan import Object, Plan, Release, SpecError, Step, key
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.services.rabbitmq.service import plan
from openstack_operator.testing import context, granted

THREE = {"replicas": 3}


def of_version(release: Release, version: str) -> Release:
    """The release with another version of RabbitMQ."""
    return replace(
        release, components={**release.components, "rabbitmq": replace(release["rabbitmq"], version=version)}
    )


def made(release: Release, spec: dict[str, Any], running: str = "", **changes: Any) -> Plan:
    """Return the plan, beside members of a version that runs."""
    children: dict[tuple[str, str], Object] = {}
    if running:
        objects = plan(context(RABBITMQ, spec, release=of_version(release, running))).objects
        children = {key(obj): granted(obj) for obj in objects if obj["kind"] == "StatefulSet"}
    return plan(context(RABBITMQ, spec, release=release, children=children, **changes))


def pods(*ready: bool) -> list[Object]:
    return [
        {
            "metadata": {"name": f"rabbitmq-server-{ordinal}", "namespace": "openstack", "labels": {}},
            "status": {"conditions": [{"type": "Ready", "status": str(each)}]},
        }
        for ordinal, each in enumerate(ready)
    ]


def gate(made_plan: Plan) -> Step | None:
    return next((step for step in made_plan if step.name == "Version"), None)


def server(made_plan: Plan) -> Step:
    return next(step for step in made_plan if step.name == "Server")


@pytest.mark.parametrize("running", ["", "4.0", "4.0.9"])
def test_without_another_major_version_nothing_waits(release: Release, running: str) -> None:
    assert gate(made(release, THREE, running)) is None


def test_an_upgrade_waits_until_all_members_serve(release: Release) -> None:
    waiting = made(release, THREE, "3.13", pods=pods(True, False, True))
    step = gate(waiting)
    assert step
    assert step.barrier
    assert step in server(waiting).after
    assert step.verdict
    assert step.verdict.message == (
        "the upgrade to RabbitMQ 4.0 waits until all members serve; rabbitmq-server-1"
        " down. Repair them, or set the old version again"
    )
    begins = gate(made(release, THREE, "3.13", pods=pods(True, True, True)))
    assert begins
    assert begins.verdict
    assert begins.verdict.ready


@pytest.mark.parametrize("spec", [{}, THREE])
def test_an_upgrade_that_rabbitmq_does_not_support_is_refused(release: Release, spec: dict[str, Any]) -> None:
    message = r"spec.release: 3.12 runs and cannot be upgraded to 4.0; upgrade to 3.13"
    with pytest.raises(SpecError, match=message):
        made(release, spec, "3.12")
    with pytest.raises(
        SpecError, match=r"spec.release: 4.0 cannot read the data of the running 4.2; set the old version again"
    ):
        made(release, spec, "4.2")
    with pytest.raises(SpecError, match=r"spec.image: 3.13.7 cannot read the data of the running 4.0"):
        made_with_image(release, spec)


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_version_without_an_image_can_be_taken_back(release: Release, replicas: int) -> None:
    spec = {"replicas": replicas}
    objects = plan(context(RABBITMQ, spec, release=of_version(release, "4.2"))).objects
    children = {key(obj): granted(obj) for obj in objects if obj["kind"] == "StatefulSet"}
    [live] = children.values()
    live["status"] = {"replicas": replicas, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}
    live["status"]["observedGeneration"] = live["metadata"].get("generation", 0)
    name = live["metadata"]["name"]
    without_image = [("StatefulSet", name, "4.2")]
    back = plan(context(RABBITMQ, spec, release=release, children=children, without_image=without_image))
    assert gate(back) is None
    live["status"]["updatedReplicas"] = 2
    with pytest.raises(SpecError, match=r"of the running 4.2"):
        plan(context(RABBITMQ, spec, release=release, children=children, without_image=without_image))


def made_with_image(release: Release, spec: dict[str, Any]) -> Plan:
    objects = plan(context(RABBITMQ, spec, release=release)).objects
    children = {key(obj): granted(obj) for obj in objects if obj["kind"] == "StatefulSet"}
    image = {"image": "registry.example.org/rabbitmq:3.13.7"}
    return plan(context(RABBITMQ, spec | image, release=release, children=children))


def test_to_a_version_without_a_way_in_place_services_move(release: Release) -> None:
    new = made(release, {"version": "4.3"})
    (workload,) = server(new).workloads
    assert workload["spec"]["template"]["spec"]["containers"][0]["image"] == release["rabbitmq"].versions["4.3"].image
    assert new.outcome.published["quorumOnly"] == "true"
    assert "quorumOnly" not in made(release, {}).outcome.published
    running = {key(obj): granted(obj) for obj in server(made(release, {})).workloads}
    message = r"spec.version: 4.0 cannot be upgraded .* create another RabbitMQ of that version, and move the services"
    with pytest.raises(SpecError, match=message):
        plan(context(RABBITMQ, {"version": "4.3"}, release=release, children=running))


def test_a_version_with_khepri_has_one_member(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.replicas.*one alone"):
        made(release, {"version": "4.3", "replicas": 3})
