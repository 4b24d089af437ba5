"""What the scale subresource of a resource shows."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.api import Resource, Scale, crd
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import Object, Release
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.runtime.rollout.scale import scale_status
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan as memcached
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.services.placement.service import plan as placement
from openstack_operator.testing import context, granted
from tests.field_effects import RELEASES

SCALED = [each for each in RESOURCES if each.scale]
CONTRACTS = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
}


def shown(release: Release, resource: Resource[Any], *live: Object, **changes: Any) -> dict[str, Any]:
    children = {(each["kind"], each["metadata"]["name"]): each for each in live}
    return dict(scale_status(resource.scale, context(resource, release=release, children=children, **changes)))


def workload(release: Release, spec: dict[str, Any]) -> Object:
    made = placement(context(PLACEMENT, spec, release=release, published=CONTRACTS))
    return next(obj for obj in made.objects if obj["kind"] == "Deployment")


def test_pods_are_those_of_the_live_workload_and_not_those_asked_for(release: Release) -> None:
    live = granted(workload(release, {"replicas": 2, "api": {"replicas": 5}}))
    assert shown(release, PLACEMENT, live)["replicas"] == 5


def test_a_pod_that_a_rollout_adds_is_counted(release: Release) -> None:
    live = workload(release, {"replicas": 2}) | {"status": {"replicas": 3}}
    assert shown(release, PLACEMENT, live)["replicas"] == 3


def test_the_selector_is_that_of_the_workload_in_one_line(release: Release) -> None:
    live = workload(release, {})
    assert shown(release, PLACEMENT, live)["selector"] == (
        "app.kubernetes.io/component=api,app.kubernetes.io/instance=placement,openstack.k8s.io/kind=placement"
    )
    told = dict(pair.split("=") for pair in shown(release, PLACEMENT, live)["selector"].split(","))
    assert told.items() <= live["spec"]["template"]["metadata"]["labels"].items()


def test_a_workload_without_pods_has_none(release: Release) -> None:
    assert shown(release, PLACEMENT, workload(release, {"replicas": 0}))["replicas"] == 0


def test_scale_is_empty_without_a_workload_of_ours(release: Release) -> None:
    assert shown(release, PLACEMENT) == {}
    external = {"provider": "external", "external": {"servers": ["cache.example.org"]}}
    assert list(memcached(context(MEMCACHED, external, release=release)).objects) == []
    assert shown(release, MEMCACHED) == {}


def test_other_workloads_are_not_counted(release: Release) -> None:
    live = granted(workload(release, {"replicas": 2}))
    other = {**live, "metadata": {**live["metadata"], "name": "placement-other"}}
    assert shown(release, PLACEMENT, other) == {}
    assert (
        scale_status(None, context(PLACEMENT, release=release, children={("Deployment", "placement-api"): live})) == {}
    )


def test_a_long_name_is_cut_as_that_of_the_workload_is(release: Release) -> None:
    name = "memcached-of-a-cloud-with-a-name-that-is-as-long-as-names-may-be"[:63]
    made = memcached(context(MEMCACHED, {"replicas": 3}, release=release, owner=name))
    live = granted(next(obj for obj in made.objects if obj["kind"] == "StatefulSet"))
    assert shown(release, MEMCACHED, live, owner=name)["replicas"] == 3
    assert scale_status(Scale("server"), context(MEMCACHED, release=release, owner=name)) == {}


@pytest.mark.parametrize(
    "resource", {each.kind: each for each in reversed(SCALED)}.values(), ids=lambda each: each.kind
)
def test_the_number_of_a_resource_is_that_of_the_workload_shown(resource: Resource[Any]) -> None:
    scale = resource.scale
    assert scale
    name = resource.kind.lower()
    # Several pods of Glance need a volume that they can share.
    shared = {"storage": {"accessMode": "ReadWriteMany"}} if name == "glance" else {}
    made = {(obj["kind"], obj["metadata"]["name"]): obj for obj in _in_a_cloud(name, replicas=3, **shared)}
    before = {(obj["kind"], obj["metadata"]["name"]): obj for obj in _in_a_cloud(name, **shared)}
    counted = [key for key, obj in made.items() if _pods(obj) != _pods(before[key])]
    assert counted == [(scale.kind, f"{name}-{scale.component}")]
    assert _pods(made[counted[0]]) == 3


def _pods(obj: Object) -> int | None:
    return obj["spec"].get("replicas") if obj["kind"] in ("Deployment", "StatefulSet") else None


def _in_a_cloud(service: str, **template: Any) -> list[Object]:
    spec = {service: {"enabled": True, **template}, "tls": {"enabled": False}}
    cloud = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "OpenStackControlPlane", "metadata": {"name": "cloud"}}
    planned = OfflineCluster(SERVICES, ACTUATORS, RELEASES).render([{**cloud, "spec": spec}])
    return next(each.objects for each in planned if each.id.name == service)


def test_services_of_one_number_of_pods_can_be_scaled() -> None:
    assert {each.handle for each in SCALED} == {
        *("Keystone", "Glance", "Placement", "Memcached", "Horizon", "Octavia", "Cortex.cortex.c5c3.io"),
        *("Keystone.keystone.openstack.c5c3.io", "Glance.glance.openstack.c5c3.io"),
        "Placement.placement.openstack.c5c3.io",
    }


@pytest.mark.parametrize("resource", SCALED, ids=lambda each: each.crd_name)
def test_each_path_of_the_subresource_is_a_field(resource: Resource[Any]) -> None:
    version = crd(resource)["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    types = {}
    for name, path in version["subresources"]["scale"].items():
        part, field = path.removeprefix(".").split(".")
        types[name] = properties[part]["properties"][field]["type"]
    assert types == {"specReplicasPath": "integer", "statusReplicasPath": "integer", "labelSelectorPath": "string"}
    # Without a number the API server has no answer at all.
    assert properties["spec"]["properties"]["replicas"]["default"] == 1
    assert properties["spec"]["default"] == {}
