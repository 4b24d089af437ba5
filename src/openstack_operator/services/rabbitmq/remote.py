"""Access to a broker for clients outside the Kubernetes cluster (decision 0095)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import kube, parts
from ...api import Expose
from ...parts.expose import exposure
from ...plan import Context, Object, SpecError
from .config import AMQPS
from .model import RabbitMQSpec


@dataclass(frozen=True, kw_only=True)
class Remote:
    """Service, names and contract for these clients; empty without them."""

    names: tuple[str, ...] = ()
    """Names in the certificate."""
    objects: tuple[Object, ...] = ()
    rules: tuple[parts.IngressRule, ...] = ()
    published: Mapping[str, str] = field(default_factory=dict[str, str])


def remote_entrance(ctx: Context[RabbitMQSpec]) -> Remote:
    """Return Service `<owner>-remote`, if the spec exposes the broker. Published: remoteServer (`HOST:PORT`). Raises
    SpecError without TLS: passwords would cross the networks outside in plain text.
    """
    expose = ctx.spec.remote_access
    if expose is None:
        return Remote()
    if ctx.spec.tls is None:
        raise SpecError("spec.tls", "clients outside the cluster need TLS; set tls, or remove remoteAccess")
    service, address = exposure.entrance(ctx, "remote", {"amqps": AMQPS}, kube.selector(ctx, "server"), expose)
    host = exposure.public_host(ctx, ctx.name("remote"), Expose(type=expose.type, host=expose.host))
    return Remote(
        names=(host,) if host else (),
        objects=(service,),
        rules=(parts.IngressRule("server", [AMQPS], "everybody"),),
        published={"remoteServer": address} if address else {},
    )
