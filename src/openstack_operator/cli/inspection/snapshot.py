"""The objects of a namespace at one moment, as far as they explain the state of a cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...kube import MANAGED_BY
from ...plan import Object
from ...runtime.cache.warnings import SELECTOR, warning
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.errors import Forbidden, Missing
from ...runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, JOB, POD, STATEFUL_SET, VOLUME_CLAIM, WARNING, Kind
from ..kind_index import KINDS, KindEntry

WORKLOADS = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, JOB, VOLUME_CLAIM)
OURS = f"app.kubernetes.io/managed-by={MANAGED_BY}"
_CONCURRENCY = 8
"""Requests that run at a time: a server of a small cluster has other clients."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Objects of one namespace."""

    namespace: str
    resources: Sequence[Object] = ()
    """Resources of this operator's kinds."""
    workloads: Sequence[Object] = ()
    """Workloads and volume claims that the operator made."""
    pods: Sequence[Object] = ()
    warnings: Sequence[Mapping[str, Any]] = ()
    """Warning Events, each with the `kind`, `name` and `uid` of its object, `reason`, `message`, `first` and `last`."""
    unreadable: Sequence[str] = ()
    """Kinds that the user may not list, with what the server says."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def check_complete(self) -> None:
        """Raise LookupError if something may not be listed."""
        check_complete(self.unreadable)

    def about(self, kind: str, name: str, uid: str) -> Sequence[Object]:
        """Return the Warning Events about an object; without a uid, about any of that name."""
        return [
            dict(each)
            for each in self.warnings
            if (each["kind"], each["name"]) == (kind, name) and (not uid or each["uid"] in ("", uid))
        ]


async def read(
    client: Client,
    namespace: str,
    resources: Iterable[KindEntry] = KINDS,
    *,
    with_workloads: bool = True,
    with_pods: bool = True,
) -> Snapshot:
    """Return what the namespace holds; workloads, claims, Events and pods only where they are used. Raises Transient
    if the server does not answer.
    """
    limit = asyncio.Semaphore(_CONCURRENCY)
    refusals: list[str] = []

    async def listed(kind: Kind, **params: str) -> list[Object]:
        async with limit:
            return await list_objects(client, kind, namespace, params, refusals)

    kinds = [each.as_kind() for each in resources]
    resource_lists, workload_lists, pods, events = await asyncio.gather(
        asyncio.gather(*(listed(kind) for kind in kinds)),
        asyncio.gather(*(listed(kind, labelSelector=OURS) for kind in (WORKLOADS if with_workloads else ()))),
        listed(POD, labelSelector=OURS) if with_pods else _nothing(),
        asyncio.gather(*(listed(kind, fieldSelector=SELECTOR) for kind in ((WARNING,) if with_workloads else ()))),
    )
    return Snapshot(
        namespace=namespace,
        resources=[each for objects in resource_lists for each in objects],
        workloads=[each for objects in workload_lists for each in objects],
        pods=pods,
        warnings=[
            warning(msgspec.json.encode(each), WARNING).decode() for listed_events in events for each in listed_events
        ],
        unreadable=refusals,
    )


def check_complete(refusals: Sequence[str]) -> None:
    """Raise LookupError if there are refusals of lists."""
    if refusals:
        raise LookupError(f"you may not list {'; '.join(refusals)}")


async def _nothing() -> list[Object]:
    return []


async def list_objects(
    client: Client, kind: Kind, namespace: str, params: Mapping[str, str], refusals: list[str]
) -> list[Object]:
    """Return all objects of a kind; none where the cluster does not serve it, or the user may not list it."""
    objects: list[Object] = []
    position = ""
    while True:
        try:
            page = await client.page(kind, namespace, {**params, **({"continue": position} if position else {})})
        except Missing:
            return objects
        except Forbidden as error:
            refusals.append(str(error).removeprefix("the operator lacks a permission: "))
            return objects
        answer = msgspec.json.decode(page)
        objects += [{"apiVersion": kind.api_version, "kind": kind.kind, **each} for each in answer.get("items") or ()]
        if not (position := (answer.get("metadata") or {}).get("continue", "")):
            return objects
