"""When Kubernetes says why a pod does not start, and when the operator does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from openstack_operator.kube import INSTANCE
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import EVENT, POD, WARNING, Kind
from tools.cloud.view import conditions

_API = "openstack.k8s.io/v1alpha1"
PLANE = Kind(_API, "OpenStackControlPlane", "openstackcontrolplanes")
_PAUSE = 0.3
"""Seconds between looks: the table is as exact as that."""
SPOKEN = 60.0
"""Seconds after Kubernetes' report in which a living operator has said something; after that it says nothing."""

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sign:
    """What is looked for."""

    kind: str
    """Of the resource whose pods do not start."""
    name: str
    reason: str
    text: str
    """In the condition of the resource, and in that of its control plane."""
    reported: Callable[[list[Object], list[Object]], bool]
    """Whether Kubernetes has said so, by the resource's pods and the namespace's Warning Events."""
    stalls: bool = False
    """Whether it is waited for until it is Stalled."""
    why: str = ""
    """Reason that `why` gives; empty for that of the condition."""


@dataclass(kw_only=True)
class Seconds:
    """Between what Kubernetes said and what the operator did."""

    reason: str
    service: float | None = None
    plane: float | None = None
    event: float | None = None
    stalled: float | None = None
    message: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def row(self) -> str:
        numbers = (self.service, self.plane, self.event, self.stalled)
        return " ".join(f"{'-' if number is None else f'{number:.1f}':>8}" for number in numbers)


def observe(sign: Sign, namespace: str, plane: str, timeout: float = 180) -> Seconds:
    """The seconds it took; what was not seen within `timeout` seconds is None. Nobody waits for an operator that says
    nothing for a minute.
    """
    return asyncio.run(_observe(sign, namespace, plane, timeout))


async def _observe(sign: Sign, namespace: str, plane: str, seconds: float) -> Seconds:
    client, kind = Client.connect(), Kind(_API, sign.kind, f"{sign.kind.lower()}s")
    found, reported, ends = Seconds(reason=sign.reason), None, time.monotonic() + seconds
    try:
        while time.monotonic() < ends:
            pods = await _items(client, POD, namespace, labelSelector=f"{INSTANCE}={sign.name}")
            warnings = await _items(client, WARNING, namespace, fieldSelector="type=Warning")
            now = time.monotonic()
            if reported is None and sign.reported(pods, warnings):
                reported = now
            live = await client.get(kind, namespace, sign.name) or {}
            whole = await client.get(PLANE, namespace, plane) or {}
            since = time.monotonic() - (reported or now)
            if found.service is None and _says(live, sign):
                found.service, found.message = since, conditions(live)["Ready"]["message"]
            if found.plane is None and _says(whole, sign):
                found.plane = since
            if found.service is not None and found.event is None:
                told = await _items(client, EVENT, namespace, fieldSelector=f"involvedObject.name={sign.name}")
                found.event = since if any(event["reason"] == sign.reason for event in told) else None
            if found.stalled is None and all("Stalled" in conditions(each) for each in (live, whole)):
                found.stalled = since
            if is_over(found, sign, since):
                break
            await asyncio.sleep(_PAUSE)
    finally:
        await client.close()
    return found


def is_over(found: Seconds, sign: Sign, since: float) -> bool:
    """Whether a look `since` seconds after Kubernetes' report was the last: all was seen, or nobody will say it."""
    told = (found.service, found.plane, found.event)
    if None in told:
        return since > SPOKEN
    return not sign.stalls or found.stalled is not None


def _says(live: Object, sign: Sign) -> bool:
    ready = conditions(live).get("Ready", {})
    return ready.get("reason") == sign.reason and sign.text in ready.get("message", "")


async def _items(client: Client, kind: Kind, namespace: str, **query: str) -> list[Object]:
    return msgspec.json.decode(await client.page(kind, namespace, query)).get("items") or []
