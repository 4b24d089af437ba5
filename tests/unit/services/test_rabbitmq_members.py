"""RabbitMQ's members: what is told of them, and what a human may order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import RECOVERY, Object, Plan, Release, SpecError, conditions, key
from openstack_operator.plan.verdict import READY
from openstack_operator.services.rabbitmq.members import FORCE
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.services.rabbitmq.service import plan
from openstack_operator.testing import context

NAMES = [f"rabbitmq-server-{n}" for n in range(3)]
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
CRASHED = {"waiting": {"reason": "CrashLoopBackOff"}}


def pod(name: str, state: Object, *, ready: bool = False) -> Object:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "namespace": "openstack", "uid": name},
        "status": {"conditions": conditions, "containerStatuses": [{"state": state}]},
    }


def server(**status: str) -> dict[tuple[str, str], Object]:
    metadata = {"name": "rabbitmq-server", "creationTimestamp": "2025-12-31T00:00:00Z"}
    claim = {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}
    template = {"spec": {"containers": [{"name": "server"}]}}
    spec = {"replicas": 3, "volumeClaimTemplates": [claim], "template": template}
    revisions = {"currentRevision": "a", "updateRevision": "a"}
    live = {"kind": "StatefulSet", "metadata": metadata, "spec": spec, "status": {**revisions, **status}}
    return {("StatefulSet", "rabbitmq-server"): live}


def planned(release: Release, *pods: Object, **changes: Any) -> Plan:
    children: dict[tuple[str, str], Object] = {**server(), **changes.pop("children", {})}
    ctx = context(RABBITMQ, {"replicas": 3}, release=release, children=children, pods=pods, **changes)
    return plan(ctx)


def recovery(result: Plan) -> str:
    """What the server's condition says of a recovery; empty where there is none."""
    verdicts = {step: step.verdict or READY for step in result}
    found = conditions(result, verdicts)["ServerReady"]
    return found.message if found.reason == RECOVERY else ""


def test_members_report_whom_they_wait_for(release: Release) -> None:
    result = planned(release, pod(NAMES[0], RUNNING), pod(NAMES[1], CRASHED))
    assert result.outcome.members == (
        {"name": NAMES[0], "state": "Waiting", "message": f"waits for {NAMES[1]}, {NAMES[2]}"},
        {"name": NAMES[1], "state": "Down", "message": "CrashLoopBackOff"},
        {"name": NAMES[2], "state": "Absent", "message": "it has no pod"},
    )
    assert recovery(result).startswith(f"{NAMES[0]} waiting: waits for {NAMES[1]}, {NAMES[2]}; ")


def test_a_cluster_that_serves_recovers_from_nothing(release: Release) -> None:
    result = planned(release, *(pod(name, RUNNING, ready=True) for name in NAMES))
    assert [member["state"] for member in result.outcome.members] == ["Serving"] * 3
    assert recovery(result) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"now": datetime(2025, 12, 31, 0, 1, tzinfo=UTC)},
        {"children": server(updateRevision="b")},
    ],
    ids=["first start", "rolling update"],
)
def test_first_starts_and_rollouts_are_no_recovery(release: Release, changes: dict[str, Any]) -> None:
    assert recovery(planned(release, pod(NAMES[0], RUNNING), **changes)) == ""


def test_a_single_member_is_not_watched(release: Release) -> None:
    result = plan(context(RABBITMQ, release=release))
    assert result.outcome.members == ()
    (template,) = (obj["spec"]["template"] for obj in result.objects if obj["kind"] == "StatefulSet")
    assert kube.WATCHED not in template["metadata"]["labels"]


def order(result: Plan) -> dict[str, str]:
    objects = {key(obj): obj for obj in result.objects}
    return kube.secret_data(objects.get(("Secret", "rabbitmq-orders")))


def test_an_order_is_taken_while_nobody_serves_and_stays_the_same(release: Release) -> None:
    down = [pod(NAMES[0], RUNNING), pod(NAMES[1], RUNNING)]
    annotations = {FORCE: NAMES[0]}
    taken = planned(release, *down, annotations=annotations, draw=lambda: "one")
    assert order(taken) == {"member": NAMES[0], "token": "one"}
    assert f"{NAMES[0]} starts alone, as ordered" in recovery(taken)
    (held,) = (obj for obj in taken.objects if key(obj) == ("Secret", "rabbitmq-orders"))
    children = {key(held): held}
    again = planned(release, *down, annotations=annotations, children=children, draw=lambda: "two")
    assert order(again) == {"member": NAMES[0], "token": "one"}
    assert order(planned(release, *down, children=children)) == {}, "withdrawn with the annotation"


def test_no_order_is_taken_while_a_member_serves(release: Release) -> None:
    result = planned(release, pod(NAMES[1], RUNNING, ready=True), annotations={FORCE: NAMES[0]})
    assert order(result) == {}


def test_an_order_for_nobody_is_refused(release: Release) -> None:
    with pytest.raises(SpecError, match=r"force-boot\]: there is no member 'me'; choose from rabbitmq-server-0, "):
        planned(release, annotations={FORCE: "me"})
