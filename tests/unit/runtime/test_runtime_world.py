"""What the operator remembers of what it made."""

from __future__ import annotations

from typing import Any, cast

import pytest

from openstack_operator.plan import Transient
from openstack_operator.runtime.cache.entries import Cached, Change, Meta, OwnerReference, Request, entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import SECRET, VOLUME_CLAIM, Catalog, Kind
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.pki.model import PKI

CLOUD, AUTHORITY = Kind.of(CONTROL_PLANE), Kind.of(PKI)
LABELS = {"openstack.k8s.io/kind": "pki", "app.kubernetes.io/instance": "internal"}


def meta(name: str, version: int, owner: Kind | None = None, **changes: Any) -> Cached:
    owners = [OwnerReference(owner.kind, "cloud", "u1", owner.api_version, controller=True)] if owner else []
    known: dict[str, Any] = {"uid": f"{name}-{version}", "owner_references": tuple(owners)}
    return Cached(Meta(name, resource_version=str(version), namespace="x", **(known | changes)), b"{}")


@pytest.fixture
def world() -> World:
    """A cloud, its PKI and the Secret with the authority's key."""
    found = World(cast("Client", None), Catalog([CONTROL_PLANE, PKI]), [], lambda change: None)
    found.stores[CLOUD].put(meta("cloud", 1))
    found.stores[AUTHORITY].put(meta("internal", 2, CLOUD))
    found.stores[SECRET].put(secret(3))
    return found


def secret(version: int) -> Cached:
    return meta("internal-authority", version, labels=LABELS, annotations={"openstack.k8s.io/irreplaceable": "true"})


def lost(world: World) -> list[str]:
    return [held.meta.name for held in world.stores[SECRET].deleted("PKI", "x", "internal")]


@pytest.mark.parametrize("first", ["resource", "secret"])
def test_a_returning_resource_finds_its_irreplaceable_secret(world: World, first: str) -> None:
    for kind in (AUTHORITY, SECRET) if first == "resource" else (SECRET, AUTHORITY):
        world.stores[kind].remove(meta("internal", 10) if kind is AUTHORITY else secret(11))
    assert lost(world) == ["internal-authority"], "the cloud makes its PKI anew, of the same authority"
    world.stores[AUTHORITY].put(meta("internal", 12, CLOUD))
    assert lost(world) == ["internal-authority"]
    world.stores[SECRET].put(secret(13))
    assert lost(world) == []


@pytest.mark.parametrize("first", ["resource", "secret"])
@pytest.mark.parametrize("cloud", ["ends", "was never there"])
def test_irreplaceable_secrets_of_a_resource_that_does_not_return_are_forgotten(
    world: World, first: str, cloud: str
) -> None:
    if cloud == "ends":
        world.stores[CLOUD].put(meta("cloud", 4, uid="cloud-1", deletion_timestamp="2026-01-01T00:00:00Z"))
    else:
        world.stores[AUTHORITY].put(meta("internal", 4, uid="internal-2"))
    for kind in (AUTHORITY, SECRET) if first == "resource" else (SECRET, AUTHORITY):
        world.stores[kind].remove(meta("internal", 10) if kind is AUTHORITY else secret(11))
    assert lost(world) == [], "a later one of that name begins with a key of its own"


def claim(version: int, size: str, message: str = "") -> Cached:
    """Return a claim of 20Gi that a StatefulSet controls, with a volume of that size."""
    owner = {"kind": "StatefulSet", "apiVersion": "apps/v1", "name": "internal", "uid": "s1", "controller": True}
    metadata = {"name": "data", "namespace": "x", "uid": "c1", "resourceVersion": str(version), "labels": LABELS}
    conditions = [{"type": "NodeResizeError", "status": "True", "message": message}] if message else []
    return entry(
        {
            "metadata": {**metadata, "ownerReferences": [owner]},
            "spec": {"resources": {"requests": {"storage": "20Gi"}}},
            "status": {"capacity": {"storage": size}, "conditions": conditions},
        },
        VOLUME_CLAIM,
    )


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (claim(1, "10Gi"), claim(2, "20Gi"), True),
        (claim(1, "10Gi"), claim(2, "10Gi", "no space"), True),
        (claim(1, "10Gi"), claim(2, "10Gi"), False),
        (claim(1, "20Gi"), claim(2, "20Gi"), False),
    ],
)
def test_a_volume_that_grows_concerns_the_resource_that_asked_for_it(
    world: World, old: Cached, new: Cached, wakes: bool
) -> None:
    owners = [Request(AUTHORITY.handle, "x", "internal")] if wakes else []
    assert world.volume_owners(Change(VOLUME_CLAIM, old, new)) == owners


def told(world: World) -> dict[str, str]:
    return dict(world.published_before("PKI", "x", "internal"))


def test_contract_of_a_deleted_resource_holds_until_it_publishes_again(world: World) -> None:
    held = world.find("PKI", "x", "internal")
    assert held
    world.publish(held, {"secret": "internal-authority"})
    assert told(world) == {}, "it is there and speaks for itself"
    world.stores[AUTHORITY].remove(meta("internal", 10, CLOUD, uid="internal-2"))
    assert told(world) == {"secret": "internal-authority"}
    world.stores[AUTHORITY].put(new := meta("internal", 12, CLOUD))
    assert told(world) == {}
    assert world.published(new) == {"secret": "internal-authority"}
    assert world.publish(new, {"secret": "other"}), "which is news"


def test_a_resource_that_does_not_return_has_no_contract(world: World) -> None:
    held = world.find("PKI", "x", "internal")
    assert held
    world.publish(held, {"secret": "internal-authority"})
    world.stores[AUTHORITY].remove(meta("internal", 10, CLOUD, uid="internal-2"))
    world.stores[CLOUD].put(meta("cloud", 11, uid="cloud-1", deletion_timestamp="2026-01-01T00:00:00Z"))
    assert told(world) == {}


def test_a_hint_to_what_is_too_much_names_kinds_in_full(world: World) -> None:
    """kubectl takes `pkis` for those of any group; kinds of the core have none."""
    made_for = {"openstack.k8s.io/kind": "openstackcontrolplane", "app.kubernetes.io/instance": "cloud"}
    cloud, authority = Request(CLOUD.handle, "x", "cloud"), Request(AUTHORITY.handle, "x", "internal")
    world.check_complete(cloud)
    for number, kind in enumerate((SECRET, AUTHORITY, SECRET)):
        world.budget.refuse(world.stores[kind], meta(f"more-{number}", 20 + number, labels=made_for))
    with pytest.raises(Transient) as caught:
        world.check_complete(cloud)
    assert str(caught.value) == (
        "the pkis, secrets of this namespace with the operator's labels exceed 32 MiB; delete "
        "what is not the operator's: kubectl get pkis.openstack.k8s.io,secrets -n x "
        "-l app.kubernetes.io/managed-by=openstack-operator"
    )
    world.check_complete(authority)


def stored(name: str, content: bytes, **changes: Any) -> Cached:
    return Cached(meta(name, 1, **changes).meta, content)


def test_cluster_without_a_trace_of_an_operator_is_new() -> None:
    world = World(cast("Client", None), Catalog([CONTROL_PLANE, PKI]), [], lambda change: None)
    assert world.is_new()
    world.stores[CLOUD].put(stored("cloud", b'{"spec":{}}'))
    of_others = OwnerReference("Deployment", "other", "u2", "apps/v1", controller=True)
    world.stores[SECRET].put(stored("stranger", b"{}", owner_references=(of_others,)))
    assert world.is_new()


@pytest.mark.parametrize(
    ("kind", "trace"),
    [
        (CLOUD, stored("cloud", b'{"spec":{},"status":{}}')),
        (CLOUD, stored("cloud", b'{"spec":{}}', finalizers=("openstack.k8s.io/cleanup",))),
        (SECRET, meta("of-cloud", 1, CLOUD)),
        (VOLUME_CLAIM, meta("retained", 1)),
    ],
    ids=["status", "finalizer", "object", "retained object"],
)
def test_cluster_with_a_trace_of_an_operator_is_not_new(kind: Kind, trace: Cached) -> None:
    world = World(cast("Client", None), Catalog([CONTROL_PLANE, PKI]), [], lambda change: None)
    world.stores[kind].put(trace)
    assert not world.is_new()
