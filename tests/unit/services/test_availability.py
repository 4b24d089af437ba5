"""A cloud with three MariaDB members: numbers of pods that its user leaves unset, and what exists once all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.api import handle
from openstack_operator.plan import HIGHLY_AVAILABLE, SINGLE_COPY, Context, Object, Plan, Release, State
from openstack_operator.registry import SERVICES
from openstack_operator.services import controlplane
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.testing import context
from tests.fields import OFF_BY_DEFAULT

THREE = {"mariadb": {"replicas": 3}}
EXTERNAL = {"provider": "external", "external": {"host": "db.example.org", "secretRef": {"name": "db"}}}
OPTIONAL = ("cinder", *OFF_BY_DEFAULT, "cortex")
BY_HANDLE = {each.resource.handle: each for each in SERVICES}


def cloud(release: Release, spec: dict[str, Any], *live: Object) -> Plan:
    children = {(handle(each["apiVersion"], each["kind"]), each["metadata"]["name"]): each for each in live}
    spec = {"tls": {"enabled": False}, **THREE, **spec}
    return controlplane.SERVICE.make_plan(
        context(CONTROL_PLANE, spec, release=release, owner="cloud", children=children)
    )


def specs(planned: Plan) -> dict[str, Any]:
    return {obj["metadata"]["name"]: obj["spec"] for obj in planned.objects}


def existing(kind: str, name: str, spec: dict[str, Any], message: str = "", group: str = "openstack.k8s.io") -> Object:
    report = {"type": SINGLE_COPY, "status": "True", "reason": "OneReplica", "message": message}
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": [report] if message else []},
    }


def test_unset_replicas_follow_those_of_mariadb(release: Release) -> None:
    enabled: dict[str, Any] = {name: {"enabled": True} for name in (*OPTIONAL, "etcd", "valkey", "ceph", "tempest")}
    made = specs(cloud(release, {**enabled, "storageBackend": "ceph"}))
    assert {name: made[name]["replicas"] for name in ("mariadb", "rabbitmq", "ovn", "etcd", "valkey")} == dict.fromkeys(
        ("mariadb", "rabbitmq", "ovn", "etcd", "valkey"), 3
    )
    pairs = ("memcached", "keystone", "glance", "placement", "neutron", "nova", *OPTIONAL)
    assert {name: made[name]["replicas"] for name in pairs} == dict.fromkeys(pairs, 2)
    assert made["valkey"]["sentinel"] == {"enabled": True}
    assert (made["ceph"]["monitors"], made["ceph"]["osds"]) == ({"replicas": 3}, {"replicas": 3})
    assert "replicas" not in made["tempest"]


def test_a_cloud_with_fewer_mariadb_is_as_before(release: Release) -> None:
    for mariadb in (
        {},
        {"replicas": 1},
        {"provider": "external", "external": {"host": "db.example.org", "secretRef": {"name": "db"}}},
    ):
        made = cloud(release, {"mariadb": mariadb})
        assert not any("replicas" in spec for name, spec in specs(made).items() if name != "mariadb")
        assert not any(HIGHLY_AVAILABLE in each["metadata"]["annotations"] for each in made.objects)


def test_replicas_of_the_user_win(release: Release) -> None:
    spec: dict[str, Any] = {
        "rabbitmq": {"replicas": 1},
        "memcached": {"replicas": 0},
        "nova": {"replicas": 1, "api": {"replicas": 3}},
        "valkey": {"enabled": True, "replicas": 1},
        "ceph": {"enabled": True, "osds": {"replicas": 5, "storageSize": "50Gi"}, "monitors": {"storageSize": "3Gi"}},
        "ovn": {"northbound": {"replicas": 1}},
    }
    made = specs(cloud(release, spec))
    assert made["rabbitmq"]["replicas"] == 1
    assert made["memcached"]["replicas"] == 0
    assert (made["nova"]["replicas"], made["nova"]["api"]) == (1, {"replicas": 3})
    assert (made["valkey"]["replicas"], "sentinel" in made["valkey"]) == (1, False)
    assert made["ceph"]["osds"] == {"replicas": 5, "storageSize": "50Gi"}
    assert made["ceph"]["monitors"] == {"replicas": 3, "storageSize": "3Gi"}
    assert (made["ovn"]["replicas"], made["ovn"]["northbound"]) == (3, {"replicas": 1})


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, None),
        ({"glance": {"storage": {"accessMode": "ReadWriteMany"}}}, 2),
        ({"glance": {"storageType": "pvc"}, "storageBackend": "ceph"}, None),
        ({"glance": {"storage": {"backend": "file"}}, "storageBackend": "ceph"}, None),
        ({"glance": {"storageType": "swift"}}, 2),
        ({"glance": {"storage": {"backends": [{"name": "a", "type": "ceph"}, {"name": "b", "type": "pvc"}]}}}, None),
        ({"storageBackend": "ceph"}, 2),
    ],
)
def test_glance_has_two_pods_only_if_they_can_share_its_images(
    spec: dict[str, Any], count: int | None, release: Release
) -> None:
    assert specs(cloud(release, spec))["glance"].get("replicas") == count


def test_backups_on_a_volume_of_one_node_keep_one_pod(release: Release) -> None:
    files = {"enabled": True, "backup": {"type": "posix"}}
    made = specs(cloud(release, {"cinder": files}))["cinder"]
    assert (made["replicas"], made["backup"]) == (2, {"type": "posix", "replicas": 1})
    shared = {"type": "posix", "files": {"accessMode": "ReadWriteMany"}}
    assert specs(cloud(release, {"cinder": {**files, "backup": shared}}))["cinder"]["backup"] == shared


def test_servers_by_others_and_of_kolla_have_no_number_of_ours(release: Release) -> None:
    external = {"provider": "external", "external": {"servers": ["cache.example.org"]}}
    made = specs(cloud(release, {"memcached": external, "imageProfile": "kolla"}))
    assert "replicas" not in made["memcached"]
    assert "replicas" not in made["ovn"]


def test_an_existing_cloud_keeps_what_it_could_not_undo(release: Release) -> None:
    """Members of RabbitMQ, etcd, Valkey and Ceph cannot be removed again; all networks depend on OVN's databases; a new
    name server has no zones yet.
    """
    live = (
        existing("RabbitMQ", "rabbitmq", {}),
        existing("Etcd", "etcd", {"replicas": 1}),
        existing("Valkey", "valkey", {"replicas": 1}),
        existing("CephStorage", "ceph", {"osds": {"replicas": 3}}),
        existing("Designate", "designate", {"replicas": 1}),
        existing("OVNNetwork", "ovn", {"replicas": 1}),
        existing("Memcached", "memcached", {"replicas": 1}),
    )
    enabled = {name: {"enabled": True} for name in ("etcd", "valkey", "ceph", "designate")}
    made = specs(cloud(release, enabled, *live))
    for name in ("rabbitmq", "etcd", "valkey", "designate", "ovn"):
        assert (made[name]["replicas"], "sentinel" in made[name]) == (1, False)
    assert (made["ceph"]["monitors"], made["ceph"]["osds"]) == ({"replicas": 1}, {"replicas": 3})
    assert made["memcached"]["replicas"] == 2


def test_numbers_that_were_chosen_for_it_stay(release: Release) -> None:
    live = (
        existing("RabbitMQ", "rabbitmq", {"replicas": 3}),
        existing("Valkey", "valkey", {"replicas": 3, "sentinel": {"enabled": True}}),
    )
    made = specs(cloud(release, {"valkey": {"enabled": True}}, *live))
    assert made["rabbitmq"]["replicas"] == 3
    assert (made["valkey"]["replicas"], made["valkey"]["sentinel"]) == (3, {"enabled": True})


def test_a_number_by_kubectl_scale_stays(release: Release) -> None:
    live = [existing(kind, kind.lower(), {"replicas": 4}) for kind in ("Keystone", "Memcached", "Nova")]
    made = specs(cloud(release, {}, *live))
    assert (made["keystone"]["replicas"], made["memcached"]["replicas"]) == (4, 4)
    # It has no subresource `scale`: somebody wrote 4 in the template, and removed it again.
    assert made["nova"]["replicas"] == 2


def test_a_controlplane_of_c5c3_has_the_same_numbers(release: Release) -> None:
    spec: dict[str, Any] = {"infrastructure": THREE, "global": {"storageBackend": "ceph", "tls": {"enabled": False}}}
    live = existing("Keystone", "keystone", {"replicas": 4}, "once", "keystone.openstack.c5c3.io")
    children = {(handle(live["apiVersion"], "Keystone"), "keystone"): live}
    ctx: Context[Any] = context(C5C3_CONTROL_PLANE, spec, release=release, owner="cloud", children=children)
    planned = controlplane.C5C3_SERVICE.make_plan(ctx)
    made = specs(planned)
    assert {name: made[name]["replicas"] for name in ("rabbitmq", "ovn", "memcached", "keystone", "glance")} == {
        "rabbitmq": 3,
        "ovn": 3,
        "memcached": 2,
        "keystone": 4,
        "glance": 2,
    }
    assert made["ceph"]["osds"] == {"replicas": 3}
    assert planned.outcome.extra_conditions[SINGLE_COPY].message == "once"


def single_copies(kind: str, release: Release, spec: dict[str, Any], **changes: Any) -> str:
    """The message of a resource's condition; empty without one."""
    ctx: Context[Any] = context(BY_HANDLE[kind].resource, spec, release=release, **changes)
    verdict = BY_HANDLE[kind].make_plan(ctx).outcome.extra_conditions.get(SINGLE_COPY)
    assert verdict is None or (verdict.state, verdict.reason) == (State.READY, "OneReplica")
    return verdict.message if verdict else ""


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("RabbitMQ", {}, "StatefulSet/rabbitmq-server (1 replica)"),
        ("RabbitMQ", {"replicas": 3}, ""),
        (
            "OVNNetwork",
            {"northbound": {"replicas": 1}, "southbound": {"replicas": 3}},
            "StatefulSet/ovnnetwork-nb (1 replica)",
        ),
        (
            "OVNNetwork",
            {},
            (
                "StatefulSet/ovnnetwork-nb (1 replica), StatefulSet/ovnnetwork-sb (1 replica), "
                "Deployment/ovnnetwork-northd (1 replica)"
            ),
        ),
        # The pod that looks at its health is left out.
        (
            "CephStorage",
            {"monitors": {"replicas": 3}},
            "Deployment/cephstorage-mgr (1 replica), StatefulSet/cephstorage-osd (1 replica)",
        ),
        # The pod with the command line is left out.
        ("Keystone", {}, "Deployment/keystone-api (1 replica)"),
        ("Keystone", {"replicas": 2}, ""),
        ("Glance", {}, "Deployment/glance-api (1 replica; its volume is ReadWriteOnce)"),
        ("Glance", {"storage": {"accessMode": "ReadWriteMany"}}, "Deployment/glance-api (1 replica)"),
    ],
)
def test_a_resource_of_such_a_cloud_names_what_exists_once(
    kind: str, spec: dict[str, Any], message: str, release: Release
) -> None:
    spec = {"replicas": 3, **spec} if kind == "OVNNetwork" and spec else spec
    published = PUBLISHED | ({"CephStorage": {}} if kind == "CephStorage" else {})
    assert single_copies(kind, release, spec, annotations={HIGHLY_AVAILABLE: "true"}, published=published) == message
    assert single_copies(kind, release, spec, published=published) == ""


PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306", "adminSecret": "mariadb-admin", "secret": "mariadb-admin"},
    "Memcached": {"servers": "memcached:11211"},
    "Keystone": {"internalURL": "http://keystone:5000", "publicURL": "http://keystone:5000"},
}


def test_a_server_by_another_operator_counts(release: Release) -> None:
    message = single_copies(
        "RabbitMQ",
        release,
        {"provider": "rabbitmq-cluster-operator"},
        annotations={HIGHLY_AVAILABLE: "true"},
        served=["RabbitmqCluster.rabbitmq.com"],
    )
    assert message == "RabbitmqCluster/rabbitmq (1 replica)"


def test_single_copies_are_reported_by_a_cloud_that_is_ready(release: Release) -> None:
    live = (
        existing("Glance", "glance", {}, "Deployment/glance-api (1 replica; its volume is ReadWriteOnce)"),
        existing("RabbitMQ", "rabbitmq", {}, "StatefulSet/rabbitmq-server (1 replica)"),
    )
    verdict = cloud(release, {}, *live).outcome.extra_conditions[SINGLE_COPY]
    assert verdict.state is State.READY
    assert verdict.message == (
        "Deployment/glance-api (1 replica; its volume is ReadWriteOnce), StatefulSet/rabbitmq-server (1 replica)"
    )
    assert SINGLE_COPY not in cloud(release, {}).outcome.extra_conditions
    assert SINGLE_COPY not in cloud(release, {"mariadb": {}}, *live).outcome.extra_conditions


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"rabbitmq": {"replicas": 3}}, "spec.rabbitmq with"),
        (
            {"ovn": {"northbound": {"replicas": 3}}, "etcd": {"enabled": True, "replicas": 3}},
            "spec.ovn, spec.etcd with",
        ),
        ({}, ""),
        # Nobody runs it; a store for other programs; a server of somebody else.
        ({"etcd": {"replicas": 3}}, ""),
        ({"valkey": {"enabled": True, "replicas": 3, "sentinel": {"enabled": True}}}, ""),
        ({"rabbitmq": {"replicas": 3}, "mariadb": EXTERNAL}, ""),
    ],
)
def test_a_single_mariadb_beside_replicated_servers_is_reported(
    spec: dict[str, Any], named: str, release: Release
) -> None:
    planned = cloud(release, {"mariadb": {"replicas": 1}, **spec})
    found = planned.outcome.extra_conditions.get(SINGLE_COPY)
    assert (found.state if found else None) is (State.READY if named else None)
    assert named in (found.message if found else "")
    assert ("spec.mariadb.replicas" in found.message) if found else not named


def test_fields_are_called_as_in_the_kind_of_the_cloud(release: Release) -> None:
    spec = {"infrastructure": {"rabbitmq": {"replicas": 3}}}
    planned = controlplane.C5C3_SERVICE.make_plan(context(C5C3_CONTROL_PLANE, spec, release=release, owner="cloud"))
    message = planned.outcome.extra_conditions[SINGLE_COPY].message
    assert "spec.infrastructure.rabbitmq with" in message
    assert "spec.infrastructure.mariadb.replicas" in message


VOTING = ("MariaDB", "RabbitMQ", "Etcd", "OVNNetwork", "Valkey")


@pytest.mark.parametrize("kind", VOTING)
def test_an_even_number_of_voting_members_is_refused(kind: str, root: Path) -> None:
    """Two are worse than one: both have to run for a majority."""
    [service] = [each for each in SERVICES if each.resource.kind == kind and each.resource.group == "openstack.k8s.io"]
    text = (root / "deploy" / "crds" / f"{service.resource.plural}.yaml").read_text(encoding="utf-8")
    [version] = yaml.load(text, yaml.CSafeLoader)["spec"]["versions"]
    field = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]
    [rule] = field["x-kubernetes-validations"]
    assert (rule["rule"], field["minimum"]) == ("self % 2 == 1", 1)
    assert "use 1, 3 or 5" in rule["message"]
