"""Certificates of services, and what their clients need to check them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .. import kube, pki
from ..api import UsesTLS
from ..plan import Context, MissingReference, SpecError, Step, failed

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
        if self and live is not None:
            volumes = live["spec"]["template"]["spec"].get("volumes") or ()
            told, status = self.secret in {_secret(volume) for volume in volumes}, live.get("status") or {}
            if not told or status.get("currentRevision") != status.get("updateRevision"):
                return {}
        return {TRUSTED: self.trust} if self else {}


def certified(ctx: Context[Any], service: str, *, members: str = "", suffix: str = "tls") -> Certified:
    """Secret `<owner>-<suffix>` with a certificate for a Service of this namespace, and for the members behind the
    headless one of that name, from where the spec says, if it says anything. Raises SpecError for one that was brought
    and is no use, where there is no good one yet.
    """
    spec = ctx.spec
    if not isinstance(spec, UsesTLS) or spec.tls is None:
        return Certified()
    name = kube.fitting(ctx.name(suffix))
    held = kube.secret_data(ctx.children.get(("Secret", name)))
    if spec.tls.secret_ref:
        # The one name clients call it by.
        wanted = pki.Wanted(common=ctx.owner, names=frozenset({ctx.host(service)}))
        return _brought(ctx, spec.tls.secret_ref.name, wanted, name, held)
    if spec.tls.pki_ref is None:
        return Certified()
    found = ctx.refs[spec.tls.pki_ref]
    by, trusted = ctx.secrets[found["authoritySecret"]], ctx.secrets[found["bundleSecret"]]["ca.crt"]
    life = timedelta(minutes=int(found["certificateMinutes"]))
    wanted = pki.Wanted(common=ctx.owner, names=frozenset(_called(ctx, service, members)), life=life)
    signer = pki.Pair(by["tls.key"], by["tls.crt"])
    known = pki.Pair(held["tls.key"], held["tls.crt"]) if held.keys() >= _FILES else None
    pair = pki.certificate(known, wanted, signer, ctx.draw, ctx.now)
    secret = kube.secret(ctx, name, {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": trusted})
    step = Step(name="Certificate", objects=(secret,), guarded=True)
    return Certified(steps=(step,), secret=name, trust=found["bundleSecret"], due=pair.due)


def _brought(ctx: Context[Any], source: str, wanted: pki.Wanted, name: str, held: Mapping[str, str]) -> Certified:
    """A copy of what the user brought, as long as it is good, so that a bad one that comes later changes nothing."""
    path, given = "spec.tls.secretRef", ctx.secrets.get(source)
    if given is None:
        raise MissingReference(f"{path}.name", f"there is no Secret {source!r} in this namespace")
    fault = _fault(given, wanted, ctx.now)
    if fault and not held.keys() >= _FILES:
        raise SpecError(path, f"Secret {source!r}: {fault}")
    files = {key: (held if fault else given)[key] for key in sorted(_FILES)}
    trust = kube.secret(ctx, f"{name}-trust", {"ca.crt": files["ca.crt"]})
    message = f"{path}: Secret {source!r}: {fault}; the one before stays in use"
    step = Step(
        name="Certificate",
        objects=(kube.secret(ctx, name, files), trust),
        guarded=True,
        verdict=failed(message, "InvalidSpec") if fault else None,
    )
    due = pki.Pair(files["tls.key"], files["tls.crt"]).ends
    # It is found out in time, if not mended: whoever brought it brings the next one.
    return Certified(steps=(step,), secret=name, trust=trust["metadata"]["name"], due=due)


_FILES = {"ca.crt", "tls.crt", "tls.key"}


def _fault(given: Mapping[str, str], wanted: pki.Wanted, now: datetime) -> str:
    """What is wrong with files that were brought; empty where nothing is."""
    if missing := sorted(_FILES - given.keys()):
        return f"it lacks {', '.join(missing)}"
    try:
        found = pki.fault(pki.Pair(given["tls.key"], given["tls.crt"]), wanted, now, authorities=[given["ca.crt"]])
    except ValueError as error:
        return f"ca.crt cannot be read: {error}"
    return f"the certificate {found}" if found else ""


def _called(ctx: Context[Any], service: str, members: str) -> set[str]:
    forms = _forms(ctx, service)
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
