"""Fields that a user set by hand in a resource of a cloud: found by their manager, named, and removed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from openstack_operator.kube import FIELD
from openstack_operator.kube.foreign import KEEP_FIELDS, foreign_fields, without_fields
from openstack_operator.plan import Object
from openstack_operator.runtime.cache.entries import Cached, Request, entry
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, Kind
from openstack_operator.runtime.reconcile.apply_cache import ApplyCache
from openstack_operator.runtime.reconcile.foreign_fields import ForeignFields
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.placement.model import PLACEMENT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIND = Kind.of(PLACEMENT)
OURS = "openstack-operator"


def fields(*paths: str) -> Object:
    """Those paths in the shape of fieldsV1."""
    tree: Object = {}
    for path in paths:
        node = tree
        for name in path.split("."):
            node = node.setdefault(name if name[1:2] == ":" else f"f:{name}", {})
    return tree


def managed(manager: str, *paths: str, subresource: str = "") -> Object:
    where = {"subresource": subresource} if subresource else {}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields(*paths), **where}


def placement(spec: Object, *managers: Object, keep: str = "", kind: Kind = KIND) -> Object:
    annotations = {FIELD: "spec.placement", **({KEEP_FIELDS: keep} if keep else {})}
    metadata: Object = {"name": "placement", "namespace": "x", "uid": "u", "resourceVersion": "7"}
    metadata |= {"managedFields": [*managers], "annotations": annotations}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


REPLICAS = placement(
    {"region": "a", "replicas": 2}, managed(OURS, "spec.region"), managed("kubectl-edit", "spec.replicas")
)


@pytest.mark.parametrize(
    ("live", "paths"),
    [
        (REPLICAS, {"spec.replicas": "kubectl-edit"}),
        # Set by both to the same value, and later left out by the operator.
        (placement({"replicas": 2}, managed(OURS, "spec.replicas"), managed("helm", "spec.replicas")), {}),
        # The topmost field that is foreign as a whole, with its empty parents.
        (
            placement({"api": {"resources": {"cpu": 1}}}, managed("k", "spec.api.resources.cpu", "spec.api..")),
            {"spec.api": "k"},
        ),
        (
            placement(
                {"api": {"image": "a", "replicas": 3}},
                managed(OURS, "spec.api.image"),
                managed("k", "spec.api.replicas"),
            ),
            {"spec.api.replicas": "k"},
        ),
        (placement({"replicas": 2}, managed("kubectl", "spec.replicas", subresource="scale")), {}),
        (placement({"replicas": 2}, managed("python-httpx2", "spec.replicas")), {}),
        (placement({"replicas": 2}, managed("kube-controller-manager", "spec.replicas")), {}),
        (placement({}, managed("kubectl-edit", "spec.replicas")), {}),
        (placement({"replicas": 2}, managed("kubectl-edit", "metadata.labels.a", "status.phase")), {}),
    ],
)
def test_a_field_is_foreign_if_somebody_else_alone_owns_it(live: Object, paths: dict[str, str]) -> None:
    assert {each.path: each.manager for each in foreign_fields(live)} == paths


def test_restarts_and_restored_backups_are_no_foreign_fields_of_a_workload() -> None:
    template = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}, "spec": {"containers": []}}
    live = placement({"paused": True, "template": template, "selector": {}}, kind=DEPLOYMENT)
    restart = {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:kubectl.kubernetes.io/restartedAt": {}}}}}}
    live["metadata"]["managedFields"] = [
        managed(OURS, "spec.template.metadata.annotations.x", "spec.template.spec"),
        {"manager": "kubectl-rollout", "fieldsV1": restart},
        managed("kubectl-pause", "spec.paused"),
        managed("velero-server", "spec.selector", "spec.paused", "spec.template.spec.dnsPolicy"),
    ]
    assert [(each.path, each.manager) for each in foreign_fields(live)] == [("spec.paused", "kubectl-pause")]


def test_an_entry_of_a_list_is_found_by_its_key() -> None:
    containers = [{"name": "main"}, {"name": "side", "image": "x"}]
    live = placement({"template": {"spec": {"containers": containers}}}, kind=DEPLOYMENT)
    own = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"main"}': {}}}}}}
    other = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"side"}': {".": {}, "f:image": {}}}}}}}
    live["metadata"]["managedFields"] = [
        {"manager": OURS, "fieldsV1": own},
        {"manager": "kubectl-edit", "fieldsV1": other},
    ]
    (found,) = foreign_fields(live)
    assert (found.path, found.pointer) == ("spec.template.spec.containers[side]", "/spec/template/spec/containers/1")


class Cluster:
    """Holds one object, as the API server does."""

    def __init__(self, live: Object) -> None:
        self.live, self.reads, self.patches = live, 0, list[list[Object]]()
        self.fills_in = False
        """True if a removed field has a default in the definition, so that nothing changes."""
        self.client, self.catalog = self, SimpleNamespace(resources=(KIND, Kind.of(PKI)))

        def put(*_: object, **__: object) -> None:
            pass

        self.stores: Any = {kind: SimpleNamespace(put=put) for kind in (KIND, DEPLOYMENT)}
        self.apply_cache = ApplyCache()

    async def get(self, *_: object) -> Object:
        self.reads += 1
        return json.loads(json.dumps(self.live))

    async def patch_json(self, kind: Kind, namespace: str, name: str, operations: list[Object]) -> Object:
        del kind, namespace, name
        self.patches.append(operations)
        for each in operations[1:]:
            *parents, last = each["path"].strip("/").split("/")
            node: Any = self.live
            for parent in parents:
                node = node[int(parent) if isinstance(node, list) else parent]
            del node[int(last) if isinstance(node, list) else last]
        if not self.fills_in:
            metadata = self.live["metadata"]
            metadata["managedFields"] = metadata["managedFields"][:1]
            metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        return self.live

    async def look(self, kind: Kind = KIND, after: float = 0) -> tuple[ForeignFields, Cached]:
        now = NOW + timedelta(seconds=after)
        world: Any = self
        fields = ForeignFields(world, self.apply_cache, Request("OpenStackControlPlane", "x", "cloud"), "owner", now)
        return fields, await fields.remove(kind, entry(self.live, kind), "stamp")


def copy(live: Object) -> Object:
    return json.loads(json.dumps(live))


async def test_a_field_set_by_hand_is_removed_and_named_with_a_remedy() -> None:
    cluster = Cluster(copy(REPLICAS))
    fields, child = await cluster.look()
    assert child.decode()["spec"] == {"region": "a"}
    assert cluster.patches[0][0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    condition = fields.conditions()["ForeignFields"]
    assert condition.message == (
        "Placement/placement spec.replicas, which kubectl-edit set, was removed; to set it,"
        " use spec.placement.replicas of its resource, or list it in the annotation"
        " openstack.k8s.io/keep-fields"
    )
    assert condition.ready, "nothing that runs is worse"
    later, _ = await cluster.look(after=60)
    assert later.conditions()["ForeignFields"].reason == "Removed"
    assert later.removed == [], "an Event is written once"
    assert cluster.reads == 1, "without a foreign manager nobody asks the API server"
    last, _ = await cluster.look(after=601)
    assert last.conditions() == {}


async def test_entries_of_one_list_by_two_managers_are_removed_and_no_other() -> None:
    names = ["x", "b", "a", "c", "y"]
    live = placement(
        {"template": {"spec": {"containers": [{"name": name} for name in names]}}},
        *(
            {"manager": manager, "fieldsV1": _containers(*keys)}
            for manager, keys in ((OURS, "xy"), ("kubectl-edit", "ab"), ("other", "c"))
        ),
        kind=DEPLOYMENT,
    )
    cluster = Cluster(live)
    await cluster.look(DEPLOYMENT)
    assert cluster.live["spec"]["template"]["spec"]["containers"] == [{"name": "x"}, {"name": "y"}]


def _containers(*names: str) -> Object:
    entries = {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}} for name in names}
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": entries}}}}


async def test_a_field_that_returns_as_a_default_is_left_alone() -> None:
    cluster = Cluster(copy(REPLICAS))
    cluster.fills_in = True
    fields, _ = await cluster.look()
    assert fields.removed == []
    await cluster.look()
    assert len(cluster.patches) == 1


async def test_the_annotation_keeps_fields_which_the_condition_names() -> None:
    live = copy(REPLICAS)
    live["metadata"]["annotations"][KEEP_FIELDS] = "spec.api, spec.replicas"
    cluster = Cluster(live)
    fields, child = await cluster.look()
    assert child.decode()["spec"]["replicas"] == 2
    assert cluster.patches == []
    condition = fields.conditions()["ForeignFields"]
    assert (condition.reason, "kubectl-edit" in condition.message) == ("Allowed", True)


async def test_fields_that_no_template_has_belong_to_users() -> None:
    live = placement(
        {"authorityGeneration": 2}, managed("kubectl-patch", "spec.authorityGeneration"), kind=Kind.of(PKI)
    )
    cluster = Cluster(live)
    await cluster.look(Kind.of(PKI))
    assert cluster.patches == []


async def test_two_programs_that_write_without_an_end_are_slowed_down() -> None:
    cluster = Cluster(copy(REPLICAS))
    for _ in range(20):
        cluster.live = copy(REPLICAS)
        await cluster.look()
    assert len(cluster.patches) < 10


def test_a_preview_removes_the_same_fields() -> None:
    live = {"spec": {"a~/b": 1, "list": [{"name": "x"}, {"name": "y"}], "kept": 1}}
    assert without_fields(live, ["/spec/list/1", "/spec/a~0~1b"]) == {"spec": {"list": [{"name": "x"}], "kept": 1}}
    assert "a~/b" in live["spec"], "the object itself stays as it is"
