"""Kubernetes Events for changes that concern the user, each written once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import structlog

from ...kube import MANAGED_BY, POD_REASONS, conditions, plain
from ...kube.pod_reasons import PROBE
from ...plan import PROGRESSING, RECOVERY, Object, SpecError, Transient
from ..cache.entries import Cached
from ..clock import now
from ..kubernetes.client import Client
from ..kubernetes.kinds import EVENT, Kind

_log: structlog.stdlib.BoundLogger = structlog.get_logger()
_NOTE = 1024
"""The API server's limit of a message, in characters."""


RECREATION = "Recreated"
"""Reason of an Event about an object that was gone and comes back."""
_STARTS = {"Progressing", "Waiting"}
"""Reasons that a planned change has, too, while its pods start."""
_REFUSALS = {"InvalidSpec", "MissingReference"}
"""Reasons that get an Event for each new message: it names another field."""


def _is_new_stall(before: Mapping[str, Object], after: Mapping[str, Object]) -> bool:
    """Return True if the resource now stalls, or stalls for another reason: it does not recover by itself."""
    before_stalled, stalled = before.get("Stalled"), after.get("Stalled")
    if stalled is None or before_stalled is None:
        return stalled is not None
    is_new_message = before_stalled["message"] != stalled["message"]
    return before_stalled["reason"] != stalled["reason"] or (stalled["reason"] in _REFUSALS and is_new_message)


def _is_news(reason: str) -> bool:
    return reason == RECOVERY or reason in POD_REASONS - {PROBE}


def _is_done(by_type: Mapping[str, Object]) -> bool:
    """Return True if Ready is True, and no change is under way."""
    is_changing = by_type.get(PROGRESSING, {}).get("status") == "True" or "Stalled" in by_type
    return by_type.get("Ready", {}).get("status") == "True" and not is_changing


class Recorder:
    """A writer of Events."""

    def __init__(self, client: Client, host: str = MANAGED_BY) -> None:
        self._client = client
        self._host = host
        self._latest: dict[str, tuple[str, str]] = {}

    def forget_all(self) -> None:
        """Forget what was written last: Events that the cluster lost may be written again."""
        self._latest.clear()

    async def tell(self, resource: Cached, kind: Kind, old: Object, new: Object, *, is_service: bool) -> None:
        """Write an Event for each news in a new status: a phase, a Ready that flips, a change that begins or is done, a
        failure, a cause why pods do not start, a recovery. What every start of a program shows is no Warning. The owner
        of an account reports that it became ready.
        """
        before, after = conditions({"status": old}), conditions({"status": new})
        was, ready = before.get("Ready", {}), after["Ready"]
        phase = new.get("phase")
        if phase and phase != old.get("phase"):
            await self.note(resource, kind, "PhaseChanged", f"{kind.kind} is in phase {phase}")
        is_done, was_done = (_is_done(each) for each in (after, before))
        if is_done:
            if not was_done and (is_service or resource.meta.controller is None):
                await self.note(resource, kind, "Ready", f"{kind.kind} is ready")
            return
        lost = was.get("status") == "True" and ready["status"] == "False"
        is_new_reason = ready["reason"] != was.get("reason")
        text = ready["message"] or f"{kind.kind} is no longer ready"
        is_trouble = (lost and ready["reason"] not in _STARTS) or (is_new_reason and _is_news(ready["reason"]))
        if is_trouble or _is_new_stall(before, after):
            await self.warn(resource, kind, ready["reason"], text)
        elif lost or was_done or (is_new_reason and ready["reason"] == PROBE):
            await self.note(resource, kind, ready["reason"], text)

    async def note(self, resource: Cached, kind: Kind, reason: str, note: str) -> None:
        """Write an Event about a success."""
        await self._write(resource, kind, "Normal", reason, note)

    async def warn(self, resource: Cached, kind: Kind, reason: str, note: str) -> None:
        """Write an Event about a problem that needs the user's attention."""
        await self._write(resource, kind, "Warning", reason, note)

    async def _write(self, resource: Cached, kind: Kind, type_: str, reason: str, note: str) -> None:
        meta, note = resource.meta, plain(note)[:_NOTE]
        if self._latest.get(meta.uid) == (reason, note):
            return
        if len(self._latest) > 10_000:
            self._latest.clear()
        self._latest[meta.uid] = reason, note
        log = _log.warning if type_ == "Warning" else _log.info
        log("event", kind=kind.handle, namespace=meta.namespace, name=meta.name, reason=reason, note=note)
        moment = now()
        seconds = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{meta.name[:200]}.{secrets.token_hex(8)}", "namespace": meta.namespace},
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            # `kubectl get events --sort-by=.lastTimestamp` shows one without as the oldest.
            "firstTimestamp": seconds,
            "lastTimestamp": seconds,
            "count": 1,
            "type": type_,
            "reason": reason,
            "message": note,
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
