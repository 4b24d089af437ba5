"""The condition with fields of a spec that have no effect."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.kube import FIELD
from openstack_operator.plan import FIELDS_IGNORED, SHARED_FIELDS, Context, Release, State
from openstack_operator.registry import SERVICES
from openstack_operator.testing import context

BY_HANDLE = {each.resource.handle: each for each in SERVICES}


def message(kind: str, spec: dict[str, Any], release: Release, **changes: Any) -> str:
    """The message of the condition; empty without one."""
    service = BY_HANDLE[kind]
    ctx: Context[Any] = context(service.resource, spec, release=release, **changes)
    verdict = service.make_plan(ctx).outcome.extra_conditions.get(FIELDS_IGNORED)
    assert verdict is None or (verdict.state, verdict.reason) == (State.READY, "NoEffect")
    return verdict.message if verdict else ""


def test_a_spec_whose_fields_all_act_has_no_such_condition(release: Release) -> None:
    assert message("Etcd", {"replicas": 3, "storageSize": "20Gi"}, release) == ""


@pytest.mark.parametrize(
    ("kind", "spec", "text"),
    [
        ("Etcd", {"networkPolicies": {"enabled": True}}, ""),
        (
            "CephStorage",
            {"rook": {"failureDomain": "zone"}},
            "spec.rook.failureDomain: only mode rook uses it; remove it, or set that",
        ),
        (
            "Memcached",
            {"provider": "external", "external": {"servers": ["a.example.org"]}, "replicas": 2, "memory": "64Mi"},
            "spec.replicas: this operator does not run an external server; remove it",
        ),
    ],
)
def test_the_condition_names_each_field_and_what_to_do(
    kind: str, spec: dict[str, Any], text: str, release: Release
) -> None:
    assert message(kind, spec, release) == text


def test_monitoring_without_metrics_is_named_where_this_operator_runs_the_pods(release: Release) -> None:
    published = {
        "MariaDB": {"host": "mariadb", "port": "3306"},
        "Keystone": {"internalURL": "http://keystone", "publicURL": "http://keystone", "region": "RegionOne"},
        "Memcached": {"servers": "memcached:11211"},
    }
    spec = {"monitoring": {"enabled": True}}
    text = "spec.monitoring.enabled: no pod of this resource serves metrics; set tls"
    assert message("Placement", spec, release, published=published) == text
    assert message("RabbitMQ", spec, release) == "", "it serves some"
    # Of pods that another operator runs, that one knows.
    provided = {"provider": "rabbitmq-cluster-operator", "retention": "Delete"}
    assert message("RabbitMQ", {**provided, **spec}, release) == ""


def test_a_broker_whose_volumes_go_with_it_says_so_though_nobody_asked(release: Release) -> None:
    """Retain is the default of `retention`, and the cluster operator of RabbitMQ keeps nothing."""
    spec, served = {"provider": "rabbitmq-cluster-operator"}, ["RabbitmqCluster.rabbitmq.com"]
    text = "spec.retention: RabbitMQ's cluster operator always deletes the volumes"
    assert message("RabbitMQ", spec, release, served=served).startswith(text)
    assert message("RabbitMQ", {**spec, "retention": "Retain"}, release, served=served).startswith(text)
    both = message("RabbitMQ", {**spec, "networkPolicies": {"enabled": True}}, release, served=served)
    assert text in both
    assert "spec.networkPolicies.enabled: this operator's policies do not apply" in both
    assert message("RabbitMQ", {**spec, "retention": "Delete"}, release, served=served) == ""
    assert message("RabbitMQ", {}, release, served=served) == ""


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"OPENSTACK_CINDER_FEATURES": {"enable_backup": True}, "LANGUAGES": [["en", "English"]]}, ""),
        # A key of the user's own choice.
        ({"PROJECT_TABLE_EXTRA_INFO": {"phone": "Phone"}}, ""),
        (
            {"OPENSTACK_NEUTRON_NETWORK": {"enable_rooter": True, "enable_ipv6": False}},
            (
                "spec.config.local_settings.OPENSTACK_NEUTRON_NETWORK.enable_rooter: Horizon knows no such key of "
                "OPENSTACK_NEUTRON_NETWORK; did you mean enable_router?"
            ),
        ),
        (
            {"ALLOWED_PRIVATE_SUBNET_CIDR": {"x": ["10.0.0.0/8"]}},
            (
                "spec.config.local_settings.ALLOWED_PRIVATE_SUBNET_CIDR.x: Horizon knows no such key of "
                "ALLOWED_PRIVATE_SUBNET_CIDR; its keys are ipv4, ipv6"
            ),
        ),
        ({"OPENSTACK_HEAT_STACK": {"on": {"a": 1}}}, "spec.config.local_settings.OPENSTACK_HEAT_STACK.on.a: Horizon"),
    ],
)
def test_a_key_that_horizon_does_not_know_is_named(settings: dict[str, Any], text: str, release: Release) -> None:
    published = {"Keystone": {"internalURL": "http://k:5000/v3", "publicURL": "http://k:5000/v3"}}
    published["Memcached"] = {"servers": "memcached:11211"}
    spec = {"config": {"local_settings": settings}}
    found = message("Horizon", spec, release, published=published)
    assert found.startswith(text) if text else found == ""


def test_a_field_shared_by_the_cloud_is_not_reported_as_ignored(release: Release) -> None:
    spec, fields = {"rook": {"failureDomain": "zone"}}, {SHARED_FIELDS: "rook=spec.ceph"}
    assert message("CephStorage", spec, release)
    assert message("CephStorage", spec, release, annotations=fields) == ""


def test_a_cloud_tells_what_its_resources_ignore_by_its_own_fields(release: Release) -> None:
    text = "spec.rook.failureDomain, spec.rook.monitors: only mode rook uses it; remove it"
    condition = {"type": FIELDS_IGNORED, "status": "True", "reason": "NoEffect", "message": text}
    ceph = {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "CephStorage",
        "metadata": {"name": "ceph", "annotations": {FIELD: "spec.ceph"}},
        "status": {"conditions": [condition]},
    }
    children = {("CephStorage", "ceph"): ceph}
    own = {"expose": {"host": "cloud.example.org"}}
    assert message("OpenStackControlPlane", own, release, children=children) == (
        "spec.expose.host: only expose.type NodePort or LoadBalancer or Ingress or Gateway uses it; remove "
        "it, or set that; spec.ceph.rook.failureDomain, spec.ceph.rook.monitors: only mode rook uses it; remove it"
    )
