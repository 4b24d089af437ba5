"""Programs whose password was drawn again go before others, since accounts refuse them until their pods are new."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Key, Object, Plan, Release
from openstack_operator.registry import SERVICES
from openstack_operator.testing import NOW, context, granted
from tests.planning import draws, objects

PLACEMENT = next(each for each in SERVICES if each.resource.handle == "Placement")
CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "Memcached": {"servers": "m:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
}
CREDENTIALS = ("Secret", "placement-credentials")


def planned(release: Release, children: Mapping[Key, Object], **changes: Any) -> Plan:
    ctx = context(
        PLACEMENT.resource, release=release, published=CONTRACTS, children=dict(children), draw=draws(), **changes
    )
    return PLACEMENT.make_plan(ctx)


def as_running(plan: Plan) -> dict[Key, Object]:
    return {name: granted(obj) for name, obj in objects(plan).items()}


def is_urgent(plan: Plan) -> list[bool]:
    return [step.urgent for step in plan if step.workloads]


@pytest.mark.parametrize("removed", ["database", "identity"])
def test_programs_whose_password_was_removed_wait_for_no_other_roll_out(release: Release, removed: str) -> None:
    running = as_running(planned(release, {}))
    assert is_urgent(planned(release, running)) == [False]
    secret = running[CREDENTIALS]
    data = {name: value for name, value in secret["data"].items() if name != removed}
    redrawn = planned(release, {**running, CREDENTIALS: {**secret, "data": data}})
    assert is_urgent(redrawn) == [True]
    # In the passes after that the password is in the Secret, and the pods may still have the removed one.
    written = {**running, CREDENTIALS: objects(redrawn)[CREDENTIALS]}
    assert is_urgent(planned(release, written)) == [True]
    assert is_urgent(planned(release, written, now=NOW + timedelta(hours=1))) == [False]


def test_first_and_restored_passwords_are_not_urgent(release: Release) -> None:
    first = planned(release, {})
    assert is_urgent(first) == [False]
    running = as_running(first)
    deleted = running.pop(CREDENTIALS)
    back = planned(release, running, deleted_secrets={"placement-credentials": deleted})
    assert is_urgent(back) == [False]
    assert kube.secret_data(objects(back)[CREDENTIALS]) == kube.secret_data(deleted)


def test_a_password_that_a_service_did_not_have_is_not_urgent(release: Release) -> None:
    running = as_running(planned(release, {}))
    secret = running[CREDENTIALS]
    data = {name: value for name, value in secret["data"].items() if name != "database"}
    annotations = {**secret["metadata"]["annotations"], "openstack.k8s.io/drawn": "identity"}
    earlier = {**secret, "data": data, "metadata": {**secret["metadata"], "annotations": annotations}}
    assert is_urgent(planned(release, {**running, CREDENTIALS: earlier})) == [False]


def test_a_time_in_the_future_is_not_urgent(release: Release) -> None:
    running = as_running(planned(release, {}))
    secret = kube.annotated(running[CREDENTIALS], {"openstack.k8s.io/redrawn-at": "2999-01-01T00:00:00Z"})
    assert is_urgent(planned(release, {**running, CREDENTIALS: secret})) == [False]
