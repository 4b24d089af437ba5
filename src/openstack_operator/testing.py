"""Stand-ins for the world: contexts to plan with, and simulators of the controllers that finish what is applied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from .api import Model, Resource, references
from .cli.preview.finished import granted, granted_status
from .plan import Context, InstalledKinds, Object, Release, ResolvedRef, SpecError, Transient
from .registry import SERVERS
from .runtime.cache.entries import Change
from .runtime.cache.informer import Informer
from .runtime.cache.store import Store
from .runtime.kubernetes.client import Client
from .runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, JOB, STATEFUL_SET

__all__ = ["NOW", "Simulator", "context", "granted", "granted_status"]

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def context(
    resource: Resource[Any],
    spec: Mapping[str, Any] | None = None,
    *,
    release: Release,
    published: Mapping[str, Mapping[str, str]] | None = None,
    served: Iterable[str] = (),
    **changes: Any,
) -> Context[Any]:
    """Return a context of a resource named after its kind in the namespace `openstack`, its referents ready.

    `published` maps a kind to what its resources publish; `served` are handles of external kinds; `changes`
    are further fields of Context.
    """
    parsed = resource.spec.model_validate(spec or {})
    contracts = published or {}
    visible = [ref for _, ref in references(parsed) if ref.kind in contracts or not ref.optional]
    refs = {ref: ResolvedRef(contracts.get(ref.kind, {}), namespace=ref.namespace_in("")) for ref in visible}
    fields: dict[str, Any] = {"owner": resource.role.lower(), "namespace": "openstack", "refs": refs, "now": NOW}

    def releases(_: Model) -> Release:
        return release

    fields["releases"] = releases
    fields |= {"installed_kinds": InstalledKinds(served), "servers": SERVERS}
    return Context(kind=resource.role, spec=parsed, release=release, **(fields | changes))


class Simulator:
    """Stand-in for the kubelet and the workload controllers at a real API server: applied objects finish at once.

    `skip` leaves objects as they are, by (kind, name): for tests of objects that are not ready.
    """

    KINDS = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, JOB)

    def __init__(
        self,
        client: Client,
        namespace: str | None = None,
        skip: Callable[[str, str], bool] = lambda kind, name: False,
    ) -> None:
        self._client = client
        self._skip = skip
        self._tasks = set[asyncio.Task[None]]()
        self._informers = [Informer(client, Store(kind, self._on_change), namespace=namespace) for kind in self.KINDS]

    async def run(self) -> None:
        """Run until canceled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())

    async def wait_until_synced(self) -> None:
        """Return once every existing object was read."""
        for informer in self._informers:
            await informer.synced.wait()

    def _on_change(self, change: Change) -> None:
        if change.new is None or change.new.meta.deletion_timestamp or self._skip(change.kind.kind, change.meta.name):
            return
        live = change.new.decode()
        desired = granted_status(live, change.new.meta.generation)
        status = live.get("status") or {}
        if any(status.get(name, 0) != value for name, value in desired.items() if name != "conditions"):
            task = asyncio.create_task(self._finish(change, desired))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, change: Change, desired: Object) -> None:
        try:
            await self._client.merge_status(change.kind, change.meta.namespace, change.meta.name, desired)
        except (Transient, SpecError) as error:
            # Deleted or changed meanwhile, which the watch reports; a refused status shows as a test that hangs.
            print(f"simulator: {change.kind.kind}/{change.meta.name}: {error}")
