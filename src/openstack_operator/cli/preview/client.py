"""A client whose writes the API server checks and completes, and does not store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import httpx2 as httpx
import msgspec

from ...kube.foreign import without_fields
from ...plan import Object, SpecError
from ...plan.steps import WORKLOADS
from ...runtime.cache.entries import entry
from ...runtime.cache.world import World
from ...runtime.kubernetes.bodies import APPLY
from ...runtime.kubernetes.client import FIELD_MANAGER, Client
from ...runtime.kubernetes.errors import Conflict, Missing, NotAdmitted
from ...runtime.kubernetes.kinds import EVENT, JOB, POD, SECRET, Kind
from .finished import granted_status

KUBECTL = "kubectl"
"""Name under which kubectl applies on the server."""
_FIRST_VERSION = 10**15
"""Resource version of the first object of a preview: later than any of a cluster."""


class Address(NamedTuple):
    """Place of an object."""

    kind: Kind
    namespace: str
    name: str


@dataclass
class Write:
    """Write of one object, with all that follow it."""

    before: Object | None
    """As the cluster has it; None if it has none."""
    after: Object | None
    """None once it is deleted."""
    edited_at: int = 0
    """Version of the first write of more than the status."""
    replaced_at: int = 0
    """Version of the last write of another pod template."""


class DryRunClient(Client):
    """A client that sends each write as a dry run and keeps the answer.

    It reads its own answers first, then the cluster. Workloads that it writes are finished at once. `world` takes its
    deletions; it has to be set before the first write.
    """

    world: World

    def __init__(self, http: httpx.AsyncClient) -> None:
        super().__init__(http)
        self.written: dict[Address, Write] = {}
        """Objects written so far, in the order of their first write."""
        self.version = _FIRST_VERSION
        """Resource version of the latest write; it grows with each that changes something."""
        self._merged = set[Address]()
        """Objects whose lists were replaced as a whole, which a later dry run does not know."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """Return the object as it would be by now, None where there would be none."""
        if write := self.written.get(Address(kind, namespace or "", name)):
            return write.after
        return await super().get(kind, namespace, name)

    async def _send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **options: Any
    ) -> httpx.Response:
        if method == "DELETE":
            # Of a deletion that has a body, the API server reads all options there and none in the query.
            body = {**(body or {}), "dryRun": ["All"]}
        elif method != "GET":
            options["params"] = {**(options.get("params") or {}), "dryRun": "All"}
        return await super()._send(method, path, body, content_type, **options)

    async def _apply(self, kind: Kind, obj: Object, sub: str | None) -> Object:
        if kind is POD:
            # Labels that follow the state of a pod are not foreseen.
            raise Conflict("pods stay as they are")
        address = _address(kind, obj)
        if sub == "status":
            if (live := await self.get(*address)) is None or live["metadata"]["uid"] != obj["metadata"]["uid"]:
                raise Missing(f"{kind.kind}/{address.name} is gone")
            return self._keep(address, {**live, "status": obj["status"]}, is_status=True)
        try:
            return self._keep(address, await super()._apply(kind, obj, sub))
        except NotAdmitted:
            raise
        except SpecError:
            write = self.written.get(address)
            if write is None or (write.after is not None and address not in self._merged):
                raise
            if write.after is not None:
                # The lists that stand in the way are replaced, which the server does not know.
                return write.after
            # The server still has the one that the preview deleted, whose fixed fields are no longer in the way.
            return self._keep(address, cast("Object", merge_patch(write.before, obj)))

    async def apply_as_user(self, kind: Kind, manifest: Object, manager: str, *, force: bool) -> Object:
        """Apply a manifest as `kubectl apply --server-side` does, and return the whole object. Raises Conflict, unless
        by `force`, if another manager set a field to another value.
        """
        address = _address(kind, manifest)
        query = {"fieldManager": manager, "force": str(force).lower()}
        path = kind.path(address.namespace, address.name)
        answer = await self._request("PATCH", path, manifest, APPLY, params=query)
        return self._keep(address, cast("Object", msgspec.json.decode(answer)))

    async def create(self, kind: Kind, obj: Object, *, manager: str = FIELD_MANAGER) -> Object:
        """Create an object, and return it. Raises Conflict when it would exist."""
        if kind is EVENT:
            return obj
        address = _address(kind, obj)
        if await self.get(*address) is not None:
            raise Conflict(f"{kind.kind}/{address.name} exists")
        if address in self.written:
            # The cluster still has the one that the preview deleted, and would refuse another one.
            return self._keep(address, {**obj, "metadata": {**obj["metadata"], "uid": f"again-{self.version}"}})
        return self._keep(address, await super().create(kind, obj, manager=manager))

    async def replace(self, kind: Kind, obj: Object, sub: str | None = None) -> Object:
        """Replace an object, and return it. Raises Conflict where `metadata.resourceVersion` is not the present one."""
        address = _address(kind, obj)
        live = await self.get(*address)
        if live is None or live["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise Conflict(f"{kind.kind}/{address.name} changed")
        before = self._before(address)
        if before is None or "resourceVersion" not in before["metadata"]:
            return self._keep(address, obj)
        metadata = {**obj["metadata"], "resourceVersion": before["metadata"]["resourceVersion"]}
        return self._keep(address, await super().replace(kind, {**obj, "metadata": metadata}, sub))

    async def merge(self, kind: Kind, obj: Object, *, manager: str = FIELD_MANAGER) -> Object:
        """Send a merge patch (RFC 7386): it replaces whole lists. Raises Conflict for another uid."""
        address = _address(kind, obj)
        if self._before(address) is None and (live := await self.get(*address)) is not None:
            return self._keep(address, cast("Object", merge_patch(live, obj)))
        answer = self._keep(address, await super().merge(kind, obj, manager=manager))
        self._merged.add(address)
        return answer

    async def patch_json(self, kind: Kind, namespace: str, name: str, operations: list[Object]) -> Object:
        """Carry out the operations that the operator uses: the version, finalizers and owners of an object, and fields
        that go.
        """
        address = Address(kind, namespace, name)
        live = await self.get(*address)
        if live is None:
            raise Missing(f"{kind.kind}/{name} is gone")
        metadata = dict(live["metadata"])
        removals = [each["path"] for each in operations if each["op"] == "remove" and each["path"].startswith("/spec/")]
        if removals:
            return self._keep(address, without_fields(live, removals))
        for operation in operations:
            field = operation["path"].removeprefix("/metadata/")
            if field == "resourceVersion" and operation["value"] != metadata[field]:
                raise Conflict(f"{kind.kind}/{name} changed")
            metadata[field] = operation["value"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self._remove(address, live)
            return {**live, "metadata": metadata}
        return self._keep(address, {**live, "metadata": metadata})

    async def disown_fields(self, kind: Kind, obj: Object) -> Object:
        """Return the object as it is: who owns its fields does not show in a preview."""
        if (live := await self.get(*_address(kind, obj))) is None:
            raise Missing(f"{kind.kind}/{obj['metadata']['name']} is gone")
        return live

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, policy: str) -> Object | None:
        """Delete exactly the object with that uid. Returns what is left of it while finalizers hold it."""
        if kind is POD:
            # They would come back from the newest template, one wave after the other.
            raise Conflict("pods stay as they are")
        address = Address(kind, namespace, name)
        live = await self.get(*address)
        if live is None:
            return None
        if live["metadata"]["uid"] != uid:
            raise Conflict(f"{kind.kind}/{name} was replaced meanwhile")
        if (before := self._before(address)) and before["metadata"]["uid"] == uid:
            # The server's policies have a say in it, too.
            await super().delete(kind, namespace, name, uid, policy)
        return self._delete(address, live, orphan=policy == "Orphan")

    def _delete(self, address: Address, live: Object, *, orphan: bool = False) -> Object | None:
        if live["metadata"].get("finalizers"):
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            metadata = {"deletionTimestamp": stamp, **live["metadata"]}
            return self._keep(address, {**live, "metadata": metadata})
        self._remove(address, live, orphan=orphan)
        return None

    def _remove(self, address: Address, live: Object, *, orphan: bool = False) -> None:
        """Remove an object, and what Kubernetes removes with it."""
        write = self.written.setdefault(address, Write(live, live))
        self.version += 1
        write.after, write.edited_at = None, write.edited_at or self.version
        uid = live["metadata"]["uid"]
        for kind, store in self.world.stores.items():
            for child in store:
                owners = [owner.uid for owner in child.meta.owner_references]
                if uid not in owners or orphan or child.meta.deletion_timestamp is not None:
                    continue
                remainder = self._delete(Address(kind, child.meta.namespace, child.meta.name), child.decode())
                if remainder is None:
                    store.remove(child)
                else:
                    store.put(entry(remainder, kind))

    def _before(self, address: Address) -> Object | None:
        """Return the object as the cluster has it."""
        if write := self.written.get(address):
            return write.before
        stores = [self.world.stores.get(address.kind), self.world.foreign if address.kind is SECRET else None]
        objects = (store.get(address.namespace, address.name) for store in stores if store is not None)
        return next((each.decode() for each in objects if each), None)

    def remember(self, kind: Kind, live: Object) -> None:
        """Note an object as the cluster has it, of which no store has all."""
        metadata = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
        stored = {**live, "metadata": metadata}
        self.written.setdefault(_address(kind, live), Write(stored, stored))

    def finish(self, kind: Kind, live: Object) -> None:
        """Take what a workload has begun for done."""
        address = _address(kind, live)
        status = {**(live.get("status") or {}), **granted_status(live, live["metadata"].get("generation", 1))}
        new = self._keep(address, {**live, "status": status}, is_status=True)
        self.world.stores[kind].put(entry(new, kind))

    def _keep(self, address: Address, answer: Object, *, is_status: bool = False) -> Object:
        """Take in the answer to a write, and return the object as the cluster would have it: with one uid for its life,
        a later version if it differs, and, for a workload, the status of one that is finished.
        """
        before = self.written[address].after if address in self.written else self._before(address)
        metadata = {name: value for name, value in answer["metadata"].items() if name != "managedFields"}
        new = {**answer, "metadata": metadata}
        if before is not None:
            metadata |= {name: before["metadata"][name] for name in _STABLE_METADATA if name in before["metadata"]}
            if not is_status:
                new = {**new, **({"status": before["status"]} if "status" in before else {})}
            if new == before:
                return before
            is_edited = any(new.get(field) != before.get(field) for field in new if field not in _UNCOUNTED)
            metadata["generation"] = before["metadata"].get("generation", 1) + is_edited
        metadata.setdefault("generation", 1)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        if address.kind.kind in WORKLOADS or address.kind is JOB:
            new["status"] = {**(new.get("status") or {}), **granted_status(new, metadata["generation"])}
        write = self.written.setdefault(address, Write(before, None))
        write.after = new
        if not is_status:
            write.edited_at = write.edited_at or self.version
            if before is not None and _template(before) != _template(new):
                write.replaced_at = self.version
        return new


def _template(live: Object) -> Any:
    return (live.get("spec") or {}).get("template")


_STABLE_METADATA = ("uid", "creationTimestamp", "resourceVersion", "generation")
"""Metadata that a write does not change, or that is counted here."""
_UNCOUNTED = frozenset({"metadata", "status"})
"""Fields whose change makes no new generation."""


def _address(kind: Kind, obj: Object) -> Address:
    return Address(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def merge_patch(live: Any, patch: Any) -> Any:
    """Return a value after a merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    fields = cast("Mapping[str, Any]", patch)
    base = dict(cast("Mapping[str, Any]", live)) if isinstance(live, Mapping) else {}
    for name, value in fields.items():
        if value is None:
            base.pop(name, None)
        else:
            base[name] = merge_patch(base.get(name), value)
    return base
