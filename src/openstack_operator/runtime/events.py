"""Kubernetes Events for what changes for the user, each told once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

import structlog

from ..kube import MANAGED_BY, POD_REASONS, conditions
from ..plan import RECOVERY, Object, SpecError, Transient
from .client import Client
from .kinds import EVENT, Kind
from .store import Cached

_log: structlog.stdlib.BoundLogger = structlog.get_logger()
_NOTE = 1024
"""The API server's limit of a message."""


RECREATION = "Recreated"
"""Reason of an Event about what was gone and comes back."""
_REFUSALS = {"InvalidSpec", "MissingReference"}
"""Reasons that are told again with another message: it names another field."""


def _stalls_anew(before: Mapping[str, Object], after: Mapping[str, Object]) -> bool:
    """Whether something does not get better by itself that was not so, or not for this reason."""
    was, stalled = before.get("Stalled"), after.get("Stalled")
    if stalled is None or was is None:
        return stalled is not None
    other = was["message"] != stalled["message"]
    return was["reason"] != stalled["reason"] or (stalled["reason"] in _REFUSALS and other)


def _is_news(reason: str) -> bool:
    return reason == RECOVERY or reason in POD_REASONS


class Recorder:
    """Writes Events."""

    def __init__(self, client: Client, host: str = MANAGED_BY) -> None:
        self._client = client
        self._host = host
        self._told: dict[str, tuple[str, str]] = {}

    async def tell(self, held: Cached, kind: Kind, old: Object, new: Object, *, is_service: bool) -> None:
        """Tells of what a new status says that the old one did not: a phase, a Ready that flips, a failure, a cause
        why pods do not start, a recovery. That an account became ready is news of its owner.
        """
        before, after = conditions({"status": old}), conditions({"status": new})
        was, ready = before.get("Ready", {}), after["Ready"]
        phase = new.get("phase")
        if phase and phase != old.get("phase"):
            await self.note(held, kind, "PhaseChanged", f"{kind.kind} is in phase {phase}")
        if ready["status"] == "True":
            if was.get("status") != "True" and (is_service or held.meta.controller is None):
                await self.note(held, kind, "Ready", f"{kind.kind} is ready")
            return
        lost = was.get("status") == "True" and ready["status"] == "False"
        if lost or _stalls_anew(before, after) or (ready["reason"] != was.get("reason") and _is_news(ready["reason"])):
            await self.warn(held, kind, ready["reason"], ready["message"] or f"{kind.kind} is no longer ready")

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
        log = _log.warning if type_ == "Warning" else _log.info
        log("event", kind=kind.handle, namespace=meta.namespace, name=meta.name, reason=reason, note=note[:_NOTE])
        now = datetime.now(UTC)
        seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{meta.name[:200]}.{secrets.token_hex(8)}", "namespace": meta.namespace},
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            # `kubectl get events --sort-by=.lastTimestamp` shows one without as the oldest.
            "firstTimestamp": seconds,
            "lastTimestamp": seconds,
            "count": 1,
            "type": type_,
            "reason": reason,
            "message": note[:_NOTE],
            "action": "Reconcile",
            "source": {"component": MANAGED_BY},
            "reportingComponent": "openstack.k8s.io/openstack-operator",
            "reportingInstance": self._host[:128],
            "involvedObject": {
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
