"""Kubernetes Events for what changes for the user, each told once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

import structlog

from ..kube import MANAGED_BY
from ..plan import Object, SpecError, Transient
from .client import Client
from .kinds import EVENT, Kind
from .store import Cached

_log: structlog.stdlib.BoundLogger = structlog.get_logger()
_NOTE = 1024
"""The API server's limit of a note."""


class Recorder:
    """Writes Events."""

    def __init__(self, client: Client, host: str = MANAGED_BY) -> None:
        self._client = client
        self._host = host
        self._told: dict[str, tuple[str, str]] = {}

    async def tell(self, held: Cached, kind: Kind, before: Mapping[str, Object], after: Mapping[str, Object]) -> None:
        """Tells of a Ready that flips and of a failure that appears. What a resource of ours owns tells only of
        failures and of losing its readiness; that it became ready is news of its owner.
        """
        old, new = before.get("Ready"), after["Ready"]
        became_ready = new["status"] == "True" and (old is None or old["status"] != "True")
        lost = old is not None and old["status"] == "True" and new["status"] == "False"
        failed = "Stalled" in after and ("Stalled" not in before or before["Stalled"]["reason"] != new["reason"])
        if failed or lost:
            await self.warn(held, kind, new["reason"], new["message"] or f"{kind.kind} is no longer ready")
        elif became_ready and held.meta.controller is None:
            await self.note(held, kind, "Ready", f"{kind.kind} is ready")

    async def note(self, held: Cached, kind: Kind, reason: str, note: str) -> None:
        """Tells of something that went as it should."""
        await self._write(held, kind, "Normal", reason, note)

    async def warn(self, held: Cached, kind: Kind, reason: str, note: str) -> None:
        """Tells of something that needs the user's attention."""
        await self._write(held, kind, "Warning", reason, note)

    async def _write(self, held: Cached, kind: Kind, type_: str, reason: str, note: str) -> None:
        meta = held.meta
        if self._told.get(meta.uid) == (reason, note):
            return
        if len(self._told) > 10_000:
            self._told.clear()
        self._told[meta.uid] = reason, note
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{meta.name[:200]}.{secrets.token_hex(8)}", "namespace": meta.namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": type_,
            "reason": reason,
            "note": note[:_NOTE],
            "action": "Reconcile",
            "reportingController": "openstack.k8s.io/openstack-operator",
            "reportingInstance": self._host[:128],
            "regarding": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
        }
        try:
            await self._client.create(EVENT, event)
        except (Transient, SpecError) as error:
            # Events are a courtesy; the condition says the same.
            _log.debug("cannot write event", kind=kind.kind, name=meta.name, error=str(error))
