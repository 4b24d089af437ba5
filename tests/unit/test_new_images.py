"""A new image is tried before a workload that ends an old pod first gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from openstack_operator.kube import is_dispensable, judge
from openstack_operator.plan import Key, Object, Plan, Release, State, carry_out, conditions, key
from openstack_operator.registry import SERVICES
from openstack_operator.testing import context, granted
from tests.planning import objects

CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "RabbitMQ": {"host": "mq", "port": "5672"},
    "Memcached": {"servers": "m:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
    "Glance": {"internalURL": "http://glance-api:9292"},
    "Placement": {"internalURL": "http://placement-api:8778"},
    "Neutron": {"internalURL": "http://neutron-api:9696", "metadataSecret": "neutron-credentials"},
    "OVNNetwork": {"northbound": "tcp:nb:6641", "southbound": "tcp:sb:6642"},
}
SECRETS = {"neutron-credentials": {"metadata": "shared"}}
BY_KIND = {each.resource.handle: each for each in SERVICES}
NEW = "registry.example.org/new:1"


def planned(release: Release, kind: str, spec: Mapping[str, Any], children: Mapping[Key, Object] | None = None) -> Plan:
    service = BY_KIND[kind]
    ctx = context(
        service.resource, spec, release=release, published=CONTRACTS, secrets=SECRETS, children=dict(children or {})
    )
    return service.make_plan(ctx)


def running(release: Release, kind: str, spec: Mapping[str, Any] | None = None) -> dict[Key, Object]:
    return {name: granted(obj) for name, obj in objects(planned(release, kind, spec or {})).items()}


def trials(plan: Plan) -> list[Object]:
    return [obj for obj in plan.objects if obj["kind"] == "Job" and "-new-images-" in obj["metadata"]["name"]]


@pytest.mark.parametrize(
    ("kind", "spec", "workload"),
    [
        ("Glance", {"api": {"image": NEW}}, ("Deployment", "glance-api")),
        ("Nova", {"scheduler": {"image": NEW}}, ("StatefulSet", "nova-scheduler")),
        ("Nova", {"compute": {"image": NEW}}, ("DaemonSet", "nova-cell1-compute")),
        ("MariaDB", {"image": NEW}, ("StatefulSet", "mariadb-server")),
    ],
)
async def test_a_recreating_workload_keeps_its_pod_until_the_new_image_started(
    release: Release, kind: str, spec: Mapping[str, Any], workload: Key
) -> None:
    live = running(release, kind)
    plan = planned(release, kind, spec, live)
    (job,) = trials(plan)
    pod, replaced = job["spec"]["template"]["spec"], objects(plan)[workload]["spec"]["template"]["spec"]
    assert [each["image"] for each in pod["containers"]] == [NEW]
    assert not any(volume for volume in pod.get("volumes", ()) if "persistentVolumeClaim" in volume)
    assert pod["nodeSelector"] == replaced["nodeSelector"]
    written: list[Key] = []
    has_started = False

    async def apply(step: Any) -> list[Object]:
        written.extend(key(obj) for obj in step.objects)
        return [obj if obj["kind"] == "Job" and not has_started else granted(obj) for obj in step.objects]

    def verdict(obj: Object) -> Any:
        return judge(obj)

    verdicts = await carry_out(plan, apply, verdict, lambda step: any(key(obj) in live for obj in step.workloads))
    assert workload not in written
    assert conditions(plan, verdicts)["NewImagesReady"].state is State.PROGRESSING
    has_started = True
    await carry_out(plan, apply, verdict, lambda step: any(key(obj) in live for obj in step.workloads))
    assert workload in written


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Placement", {"api": {"image": NEW}}),
        ("Glance", {"config": {"DEFAULT": {"debug": True}}}),
        ("Glance", {}),
    ],
)
def test_images_are_tried_only_if_new_and_old_pods_would_end(
    release: Release, kind: str, spec: Mapping[str, Any]
) -> None:
    assert trials(planned(release, kind, spec, running(release, kind))) == []
    assert trials(planned(release, kind, spec)) == []


def test_workloads_with_the_same_new_image_share_one_trial(
    release: Release,
) -> None:
    spec = {"scheduler": {"image": NEW, "replicas": 3}, "conductor": {"image": NEW, "replicas": 3}}
    before = {name: {**part, "image": None} for name, part in spec.items()}
    plan = planned(release, "Nova", spec, running(release, "Nova", before))
    (job,) = trials(plan)
    assert "podAntiAffinity" not in job["spec"]["template"]["spec"].get("affinity", {})
    assert not is_dispensable(job)


def test_a_try_is_gone_once_the_workload_has_the_image(release: Release) -> None:
    spec = {"api": {"image": NEW}}
    assert trials(planned(release, "Glance", spec, running(release, "Glance", spec))) == []
