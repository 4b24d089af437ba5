"""Certificates of a cloud's services, and the times at which APIs advertise TLS and refuse plain text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ... import kube
from ...api import ServiceSpec, UsesTLS
from ...parts.connect.remote import API
from ...plan import Context, Group, Key, Object, Step
from .model import ControlPlaneSpec, OVNTemplate

INTERNAL, OVN = "internal", "internal-ovn"
"""The PKIs of a cloud. A client with a certificate by the second one may write to OVN's databases, so no resource of
another kind gets one, and no issuer of the user's signs for it: that would certify other clients, too."""
CONDITION = "PKI"
_STABLE_FOR = timedelta(seconds=30)
"""Time for which all services must be Ready: one that has not yet seen a change of another still reports Ready."""
_NO_TLS: Mapping[str, Any] = {"announced": False}


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """Decisions about `tls` of each service of a cloud."""

    enabled: bool
    """True if all connections are to be encrypted."""
    may_announce: bool
    """True if APIs may be announced as encrypted."""
    required: bool
    """True if services refuse connections without TLS, as soon as they may."""
    clients_use_tls: bool
    """True if all clients of all services are known to use TLS."""
    live: Mapping[Key, Mapping[str, Any]]
    """`spec.tls` of the existing resources."""
    wake: datetime | None
    """Time at which the wait for that ends, if nothing changes before."""

    def tls_spec(self, key: Key, template: UsesTLS) -> dict[str, Any]:
        """Return `spec.tls` of a service's resource; empty if it shows no certificate."""
        tls = template.tls.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) if template.tls else {}
        if not tls and not self.enabled:
            return {}
        if self.enabled and not tls.keys() & {"pkiRef", "secretRef"}:
            tls["pkiRef"] = {"name": OVN if isinstance(template, OVNTemplate) else INTERNAL}
        if isinstance(template, ServiceSpec):
            tls = {"announced": self.may_announce, **tls}
        required = tls.pop("required", self.enabled and self.required)
        return tls | ({"required": True} if required and self._may_refuse(key) else {})

    def _may_refuse(self, key: Key) -> bool:
        """Return True if a service may refuse connections without TLS: it does already, or all clients are known to use
        TLS, or the service is new, and all existing services announce TLS.
        """
        current = self.live.get(key)
        if current is None:
            return all(tls.get("announced", True) for tls in self.live.values())
        return self.clients_use_tls or bool(current.get("required"))


def encryption(ctx: Context[ControlPlaneSpec], services: Mapping[Key, UsesTLS]) -> Encryption:
    """Return the current decisions; `services` are the templates of services that run and can show a certificate."""
    children = {key: child for key in services if (child := ctx.children.get(key))}
    live = {key: child["spec"].get("tls") or _NO_TLS for key, child in children.items()}
    enabled = ctx.spec.tls.enabled
    if enabled is None:
        # An existing cloud without TLS goes on without, until a user enables it: its clients would be refused.
        runs_plain = any(tls is _NO_TLS for tls in live.values()) and ("PKI", INTERNAL) not in ctx.children
        enabled = ctx.spec.image_profile != "kolla" and not runs_plain
    with_tls = {key for key, template in services.items() if enabled or template.tls}
    all_announce = len(live) == len(services) and all(live[key].get("announced", True) for key in with_tls)
    since = [kube.complete_since(child) for child in children.values()]
    stable_at = max((at for at in since if at), default=ctx.now) + _STABLE_FOR if all_announce and all(since) else None
    return Encryption(
        enabled=enabled,
        may_announce=_may_announce(services, children, live, with_tls),
        required=ctx.spec.tls.required,
        clients_use_tls=stable_at is not None and ctx.now >= stable_at,
        live=live,
        wake=stable_at if stable_at is not None and ctx.now < stable_at else None,
    )


def authorities(ctx: Context[ControlPlaneSpec], field: str) -> Group:
    """Return the PKIs of a cloud that is encrypted; `field` is the field of its spec for that."""
    issuer = ctx.spec.tls.model_dump(by_alias=True, include={"issuer_ref"}, exclude_none=True)
    specs = {INTERNAL: issuer, OVN: {"allowedKinds": ["OVNNetwork"]}}
    pkis = [kube.obj(ctx, "PKI", name, API, spec=spec) for name, spec in specs.items()]
    return Group(
        CONDITION,
        [Step(name=f"PKI {each['metadata']['name']}", objects=(kube.from_field(each, field),)) for each in pkis],
    )


def _may_announce(
    services: Mapping[Key, UsesTLS],
    children: Mapping[Key, Object],
    live: Mapping[Key, Mapping[str, Any]],
    with_tls: set[Key],
) -> bool:
    """Return True if APIs may be announced as encrypted: if each client that finds one in the catalog can verify it.
    In a cloud that runs, that is once all services have been rolled out with the bundle to verify each other; it stays
    so, even if services fail later.
    """
    apis = {key for key, template in services.items() if isinstance(template, ServiceSpec)}
    existing = apis & live.keys()
    if not existing or any(live[key].get("announced", True) for key in existing):
        return True
    return existing == apis and all(
        kube.complete_since(children[key]) and (key not in with_tls or live[key] is not _NO_TLS) for key in existing
    )
