"""Which release runs completely in a resource, also if its status is lost."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.api import Resource
from openstack_operator.plan import RELEASE_ANNOTATION, Object
from openstack_operator.runtime.cache.entries import Cached, entry
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET, Kind
from openstack_operator.runtime.rollout.running_release import running_release
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.testing import granted

OLD, NEW = "2025.1", "2026.1"


def owner(resource: Resource[Any], status: Object) -> Cached:
    metadata = {"name": "it", "namespace": "openstack", "uid": "u", "resourceVersion": "1"}
    live = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "status": status}
    return entry(live, Kind.of(resource))


def workload(name: str, release: str, *, ready: bool = True) -> tuple[Kind, Cached]:
    annotations = {RELEASE_ANNOTATION: release} if release else {}
    metadata = {"name": name, "namespace": "openstack", "uid": name, "resourceVersion": "1", "annotations": annotations}
    live = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1}}
    return DEPLOYMENT, entry(granted(live) if ready else live, DEPLOYMENT)


def service(release: str, *, ready: bool = True) -> tuple[Kind, Cached]:
    metadata = {"name": "placement", "namespace": "openstack", "uid": "p", "resourceVersion": "1"}
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "Ready", "observedGeneration": 1}
    live = {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {**metadata, "generation": 1},
        "spec": {"release": release},
        "status": {"release": release, "conditions": [condition]},
    }
    kind = Kind.of(PLACEMENT)
    return kind, entry(live, kind)


SECRET_OF_IT = (
    SECRET,
    entry(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "openstack", "uid": "s", "resourceVersion": "1"},
        },
        SECRET,
    ),
)


def test_the_status_counts_first() -> None:
    assert running_release(owner(PLACEMENT, {"release": OLD}), [workload("api", NEW)]) == OLD


def test_without_a_status_it_is_what_runs() -> None:
    of_placement = owner(PLACEMENT, {})
    assert running_release(of_placement, [SECRET_OF_IT, workload("api", OLD)]) == OLD
    assert running_release(of_placement, [workload("api", NEW), workload("other", OLD), workload("plain", "")]) == OLD


@pytest.mark.parametrize("children", [[], [SECRET_OF_IT], [workload("plain", "")]])
def test_of_a_new_resource_none_runs(children: list[tuple[Kind, Cached]]) -> None:
    assert running_release(owner(PLACEMENT, {}), children) == ""


def test_workloads_that_never_ran_completely_have_no_release() -> None:
    assert running_release(owner(PLACEMENT, {}), [workload("api", OLD), workload("other", OLD, ready=False)]) == ""


def test_a_cloud_runs_what_its_resources_run() -> None:
    assert running_release(owner(CONTROL_PLANE, {}), [SECRET_OF_IT, service(OLD)]) == OLD
    assert running_release(owner(CONTROL_PLANE, {}), [service(OLD, ready=False)]) == ""
