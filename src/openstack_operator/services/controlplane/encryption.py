"""Who of a cloud shows which certificate, and when clients are told so, and held to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ... import kube, parts
from ...api import ServiceSpec, UsesTLS
from ...plan import Context, Group, Key, Object, Step
from .model import ControlPlaneSpec, OVNTemplate

INTERNAL, OVN = "internal", "internal-ovn"
"""The PKIs of a cloud. Whoever has a certificate by the second may write to OVN's databases."""
CONDITION = "PKI"
_SETTLED = timedelta(seconds=30)
"""For so long all have to be Ready: one that was told something by another, and has not looked yet, still says so."""
_NO_TLS: Mapping[str, Any] = {"announced": False}


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """What each service of a cloud is told about it."""

    on: bool
    """Whether all connections are to be encrypted."""
    announced: bool
    """Whether APIs may be announced as encrypted."""
    required: bool
    """Whether who comes without TLS is to be refused, as soon as he may be."""
    settled: bool
    """Whether all clients of all services are known to come with TLS."""
    live: Mapping[Key, Mapping[str, Any]]
    """`spec.tls` of the resources there are."""
    wake: datetime | None
    """When waiting for that is over, if nothing happens before."""

    def of(self, key: Key, template: UsesTLS) -> dict[str, Any]:
        """`spec.tls` of a service's resource; empty where it shows no certificate."""
        own = template.tls.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) if template.tls else {}
        if not own and not self.on:
            return {}
        if self.on and not own.keys() & {"pkiRef", "secretRef"}:
            own["pkiRef"] = {"name": OVN if isinstance(template, OVNTemplate) else INTERNAL}
        if isinstance(template, ServiceSpec):
            own = {"announced": self.announced, **own}
        required = own.pop("required", self.on and self.required)
        return own | ({"required": True} if required and self._may_refuse(key) else {})

    def _may_refuse(self, key: Key) -> bool:
        """Whether one refuses who comes without TLS: it does already, or everybody is known to come with it, or it is
        new, and whatever there is has been told.
        """
        known = self.live.get(key)
        if known is None:
            return all(tls.get("announced", True) for tls in self.live.values())
        return self.settled or bool(known.get("required"))


def encryption(ctx: Context[ControlPlaneSpec], services: Mapping[Key, UsesTLS]) -> Encryption:
    """As things stand; `services` are the templates of those that run and can show a certificate."""
    children = {key: child for key in services if (child := ctx.children.get(key))}
    live = {key: child["spec"].get("tls") or _NO_TLS for key, child in children.items()}
    on = ctx.spec.tls.enabled
    if on is None:
        # One that has begun without goes on without, until somebody says so: its users would be refused.
        begun = any(tls is _NO_TLS for tls in live.values()) and ("PKI", INTERNAL) not in ctx.children
        on = ctx.spec.image_profile != "kolla" and not begun
    asked = {key for key, template in services.items() if on or template.tls}
    told = len(live) == len(services) and all(live[key].get("announced", True) for key in asked)
    since = [_ready_since(child) for child in children.values()]
    calm = max((at for at in since if at), default=ctx.now) + _SETTLED if told and all(since) else None
    return Encryption(
        on=on,
        announced=_announced(services, children, live, asked),
        required=ctx.spec.tls.required,
        settled=calm is not None and ctx.now >= calm,
        live=live,
        wake=calm if calm is not None and ctx.now < calm else None,
    )


def authorities(ctx: Context[ControlPlaneSpec], field: str) -> Group:
    """The PKIs of a cloud that is encrypted; `field` is where its spec says so."""
    spec = ctx.spec.tls.model_dump(by_alias=True, include={"issuer_ref"}, exclude_none=True)
    made = [kube.obj(ctx, "PKI", name, parts.API, spec=spec) for name in _PKIS]
    return Group(
        CONDITION,
        [Step(name=f"PKI {each['metadata']['name']}", objects=(kube.from_field(each, field),)) for each in made],
    )


_PKIS = (INTERNAL, OVN)


def _announced(
    services: Mapping[Key, UsesTLS],
    children: Mapping[Key, Object],
    live: Mapping[Key, Mapping[str, Any]],
    asked: set[Key],
) -> bool:
    """Whether APIs may be announced as encrypted: nobody would find one in the catalog and not know how to check it.
    In a cloud that runs, that is when all services have been rolled out with what they check each other by; it stays
    so, whatever becomes of them later.
    """
    apis = {key for key, template in services.items() if isinstance(template, ServiceSpec)}
    there = apis & live.keys()
    if not there or any(live[key].get("announced", True) for key in there):
        return True
    return there == apis and all(
        _ready_since(children[key]) and (key not in asked or live[key] is not _NO_TLS) for key in there
    )


def _ready_since(child: Object) -> datetime | None:
    """Since when a resource is Ready as it was written last, if it is."""
    for each in (child.get("status") or {}).get("conditions") or []:
        current = each.get("observedGeneration") == child["metadata"].get("generation")
        if each["type"] == "Ready" and each["status"] == "True" and current:
            return datetime.fromisoformat(each["lastTransitionTime"])
    return None
