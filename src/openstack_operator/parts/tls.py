"""Certificates of services, and what their clients need to check them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .. import kube, pki
from ..api import UsesTLS
from ..plan import Context, Step

TRUST = "/etc/openstack-trust"
"""Where a client finds the authorities of its servers: `<Secret>/ca.crt`."""
TRUSTED = "trustSecret"
"""Under which name a server publishes the Secret with them."""


@dataclass(frozen=True, kw_only=True)
class Certified:
    """A certificate in a Secret (`tls.crt`, `tls.key`, and `ca.crt`, who is trusted in turn), or that there is none."""

    steps: tuple[Step, ...] = ()
    secret: str = ""
    trust: str = ""
    """Secret with `ca.crt` alone, for those who call."""
    due: datetime | None = None
    """When it is to be made anew."""

    def __bool__(self) -> bool:
        return bool(self.steps)

    def mounts(self, path: str) -> tuple[kube.Mount, ...]:
        """The three files in a folder that follows what becomes of them."""
        return (kube.folder("tls", self.secret, path),) if self else ()

    def offered(self, live: kube.Object | None) -> dict[str, str]:
        """What a server publishes of it once all pods of its StatefulSet show the certificate, or from the start;
        before, clients would refuse those that do not.
        """
        if live is not None:
            volumes = live["spec"]["template"]["spec"].get("volumes") or ()
            told, status = self.secret in {_secret(volume) for volume in volumes}, live.get("status") or {}
            if not told or status.get("currentRevision") != status.get("updateRevision"):
                return {}
        return {TRUSTED: self.trust} if self else {}


def certified(ctx: Context[Any], names: Iterable[str], *, suffix: str = "tls") -> Certified:
    """Secret `<owner>-<suffix>` with a certificate for these names, by the PKI the spec names, if it names one."""
    spec = ctx.spec
    if not isinstance(spec, UsesTLS) or spec.tls is None:
        return Certified()
    found = ctx.refs[spec.tls.pki_ref]
    by, trusted = ctx.secrets[found["authoritySecret"]], ctx.secrets[found["bundleSecret"]]["ca.crt"]
    signer = pki.Pair(by["tls.key"], by["tls.crt"])
    life = timedelta(minutes=int(found["certificateMinutes"]))
    wanted = pki.Wanted(common=ctx.owner, names=frozenset(names), life=life)
    name = kube.fitting(ctx.name(suffix))
    files = kube.secret_data(ctx.children.get(("Secret", name)))
    held = pki.Pair(files["tls.key"], files["tls.crt"]) if {"tls.key", "tls.crt"} <= files.keys() else None
    pair = pki.certificate(held, wanted, signer, ctx.draw, ctx.now)
    secret = kube.secret(ctx, name, {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": trusted})
    step = Step(name="Certificate", objects=(secret,), guarded=True)
    return Certified(steps=(step,), secret=name, trust=found["bundleSecret"], due=pair.due)


def called(ctx: Context[Any], *services: str, members: str = "") -> set[str]:
    """Every name a Service of this namespace is called by, and each member's behind the headless one."""
    forms = [form for service in services for form in _forms(ctx, service)]
    return {*forms, *(f"*.{form}" for form in _forms(ctx, members) if members), "localhost", "127.0.0.1"}


def _forms(ctx: Context[Any], service: str) -> list[str]:
    return [service, f"{service}.{ctx.namespace}", f"{service}.{ctx.namespace}.svc", ctx.host(service)]


def followed(folder: str, command: str) -> str:
    """The beginning of a shell script: `command` runs whenever the files in a folder have changed, again until it
    succeeds.
    """
    return f"""\
(
    told() {{ cat {folder}/* | sha256sum; }}
    known=$(told)
    while sleep 10; do
        now=$(told)
        [ "$now" != "$known" ] || continue
        if {command} > /dev/null; then known=$now; fi
    done
) &
"""


def trusts(ctx: Context[Any]) -> dict[str, str]:
    """The authorities of all servers the spec points at, by Secret."""
    names = sorted({found for ref in ctx.refs.values() if (found := ref.published.get(TRUSTED))})
    return {name: ctx.secrets[name]["ca.crt"] for name in names}


def trust_of(published: Any) -> str:
    """Path of the authorities of a server in its client's container; empty where it shows no certificate."""
    secret = published.get(TRUSTED)
    return f"{TRUST}/{secret}/ca.crt" if secret else ""


def _secret(volume: kube.Object) -> str:
    return str((volume.get("secret") or {}).get("secretName", ""))
