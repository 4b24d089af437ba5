"""Content of a backup of a namespace besides the data of servers: resources that users wrote, and Secrets that cannot
be made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...api import Model, Resource, secret_references, whole_secrets
from ...kube import COMPONENT, HANDED_OVER, IRREPLACEABLE, OF_VOLUMES, REMEMBERED, fitting
from ...plan import CloudContents, Object
from ..cache.entries import Cached, Request
from ..cache.world import World
from ..kubernetes.kinds import DEPLOYMENT, SECRET, STATEFUL_SET, VOLUME_CLAIM, Kind

_MARKS = (IRREPLACEABLE, REMEMBERED)
_FORGOTTEN = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "openstack.k8s.io/applied",
        HANDED_OVER,
    }
)
"""Annotations that say how an object was written."""


class CloudReader:
    """Reads what the namespace of a cloud has, from what is watched."""

    def __init__(self, world: World, definitions: Sequence[Resource[Any]]) -> None:
        """Take the world, and the kinds that the operator serves."""
        self._world, self._definitions = world, definitions

    async def contents(self, namespace: str, order: CloudContents) -> Mapping[str, Any]:
        """Return the facts of `CloudContents`: `objects` in the shape of their YAML, without owners and status,
        `databases`, `networks`, `images`, `storages` and `identities`. Raises Transient.
        """
        world = self._world
        resources: list[Object] = []
        names: set[str] = set()
        for definition in self._definitions:
            # Who restores has the login to the repository already, and perhaps another one: neither these resources
            # are in a backup, nor Secrets that a schedule of backups names.
            items = () if definition.kind in order.left_out else self._items(definition, namespace)
            for item in items:
                if not definition.privileged:
                    names |= _secret_names(definition, item)
                if item.meta.controller is None and item.meta.deletion_timestamp is None:
                    resources.append(_stripped(_with_running_release(item.decode()), order))
        secrets = [
            _stripped(item.decode(), order)
            for item in world.stores[SECRET].of_namespace(namespace)
            if any(item.meta.annotations.get(mark) == "true" for mark in _MARKS)
            and item.meta.annotations.get(OF_VOLUMES) != "true"
            and item.meta.owner_labels[1] not in {each.lower() for each in order.left_out}
        ]
        # Other Secrets of the operator's it makes again.
        for name in sorted(names - {item.meta.name for item in world.stores[SECRET].of_namespace(namespace)}):
            if secret := await world.secret(namespace, name):
                secrets.append(_stripped(secret.decode(), order))
        return {
            "objects": [*secrets, *resources],
            "databases": self.servers(namespace, order.databases),
            "networks": self.servers(namespace, order.networks),
            "images": self.servers(namespace, order.images),
            "storages": self.servers(namespace, order.storages),
            "identities": self.servers(namespace, order.identities),
        }

    def servers(self, namespace: str, roles: Sequence[str]) -> list[Object]:
        """Return the servers of these roles, as `CloudContents` has them."""
        kinds = [Kind.of(each) for each in self._definitions if each.role in roles]
        return [
            _server(self._world, kind, item)
            for kind in kinds
            for item in self._world.stores[kind].of_namespace(namespace)
        ]

    def resources(self, namespace: str, kinds: Sequence[str]) -> list[Object]:
        """Return the live resources of these kinds, without those that are being deleted."""
        items = [item for each in self._definitions if each.kind in kinds for item in self._items(each, namespace)]
        return [item.decode() for item in items if item.meta.deletion_timestamp is None]

    def siblings(self, namespace: str, role: str) -> list[Object]:
        """Return the resources of a kind in a namespace, as `CloudDatabases` has them, and those that are gone while
        their programs run.
        """
        programs: dict[str, set[str]] = {}
        deployments = self._world.stores[DEPLOYMENT].of_namespace(namespace)
        for item in (*deployments, *self._world.pods.of_namespace(namespace)):
            _, kind, name = item.meta.owner_labels
            if kind == role.lower():
                programs.setdefault(name, set()).add(item.meta.labels.get(COMPONENT, ""))
        resources = [
            {
                "name": item.meta.name,
                "created": item.meta.creation_timestamp,
                "spec": item.decode().get("spec") or {},
                "deleted": item.meta.deletion_timestamp is not None,
                "programs": sorted(programs.pop(fitting(item.meta.name), ())),
            }
            for definition in self._definitions
            if definition.role == role
            for item in self._items(definition, namespace)
        ]
        return [
            *resources,
            *(
                {"name": name, "created": "", "spec": {}, "deleted": True, "programs": sorted(components)}
                for name, components in sorted(programs.items())
            ),
        ]

    def _items(self, definition: Resource[Any], namespace: str) -> Iterable[Cached]:
        return self._world.stores[Kind.of(definition)].of_namespace(namespace)


def _with_running_release(live: Object) -> Object:
    """Return a resource with the release that runs completely. Before the last step of an upgrade, programs of that
    release work with the databases, so that a restore can undo the upgrade.
    """
    release = (live.get("status") or {}).get("release")
    return {**live, "spec": {**live["spec"], "release": release}} if release and "release" in live["spec"] else live


def _secret_names(definition: Resource[Any], item: Cached) -> set[str]:
    """Return the names of the Secrets that a spec names; none of a spec that the operator refuses."""
    try:
        spec: Model = definition.spec.from_spec(item.decode().get("spec") or {})
    except ValueError:
        return set()
    return {ref.name for _, ref in (*secret_references(spec), *whole_secrets(spec))}


def _stripped(live: Object, order: CloudContents) -> Object:
    """Return an object as another cluster can take it: without its identity, its owners and its status."""
    metadata, forgotten = live["metadata"], {*_FORGOTTEN, *order.orders}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in forgotten}
    identity = {"name": metadata["name"], "labels": metadata.get("labels"), "annotations": annotations}
    fields = {name: live[name] for name in ("apiVersion", "kind", "type", "spec", "data", "immutable") if name in live}
    return {**fields, "metadata": {name: value for name, value in identity.items() if value}}


def _claim(live: Object) -> Object:
    """Return a volume claim that asks for a volume of the same size and class."""
    spec = {
        name: live["spec"][name] for name in ("accessModes", "resources", "storageClassName") if name in live["spec"]
    }
    metadata = {"name": live["metadata"]["name"], "labels": live["metadata"].get("labels") or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _server(world: World, kind: Kind, item: Cached) -> Object:
    """Return a server with its StatefulSets, its Deployments, its pods, its volume claims and its contract, and in its
    place the resource of another operator that runs it.
    """
    namespace, name = item.meta.namespace, item.meta.name
    children = list(world.children(Request(kind.handle, namespace, name)))
    # Those that the operator enlarged are its own.
    claims = [*world.volumes.owned(namespace, kind.role, name), *(each for of, each in children if of is VOLUME_CLAIM)]
    return {
        "name": name,
        "workloads": [child.decode() for each, child in children if each is STATEFUL_SET],
        "delegated": [
            child.decode()
            for each, child in children
            if each.operator and child.meta.controller and child.meta.controller.uid == item.meta.uid
        ],
        "deployments": [child.decode() for each, child in children if each is DEPLOYMENT],
        "pods": [pod.decode() for pod in world.pods.owned(namespace, kind.role, name)],
        "claims": [_claim(claim.decode()) for claim in claims],
        "published": dict(world.published(item)),
    }
