"""Certificates of services, and what their clients need to check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from .. import kube, pki
from ..api import PKIRef, UsesIdentity, UsesTLS, logins
from ..plan import Context, Incomplete, MissingReference, SpecError, Step, failed, is_own_service
from .issued import ordered, serves_cluster

TRUST = "/etc/openstack-trust"
"""Where a client finds the authorities of its servers: `<Secret>/ca.crt`."""
TRUSTED = "trustSecret"
"""Under which name a server publishes the Secret with them."""


TRUSTS = "openstack.k8s.io/trusts"
"""Annotation of pods whose program reads whom it trusts only as it starts, though it follows its certificate
(`Certified.trusts`): they roll when that changes, and with nothing else."""


SHOWN = "openstack.k8s.io/shown"
"""Annotation of a certificate's Secret: all pods have shown it, or one before it, so that clients may count on it also
while the pods are replaced for another reason."""


AUTHORITIES_SINCE = "openstack.k8s.io/authorities-since"
"""Annotation of a certificate's Secret: when it last got other authorities, or a certificate by another one. A renewal
by the same authority leaves it, so that certificates of minutes do not delay an authority's replacement for ever."""


@dataclass(frozen=True, kw_only=True)
class Certified:
    """A certificate in a Secret (`tls.crt`, `tls.key`, and `ca.crt`, who is trusted in turn), or that there is none."""

    steps: tuple[Step, ...] = ()
    secret: str = ""
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    """What clients read of it; nothing before they are to be told, nor while there are pods that do not show it, whom
    they would refuse."""
    authorities: str = ""
    """The same, as whoever trusts them needs them: in PEM."""
    required: bool = False
    """Whether who comes without TLS is refused."""
    calls: bool = False
    """Whether it can be shown to whom one calls, too."""
    common: str = ""
    """Its common name; many have none."""

    trusts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Annotation for pods that have to start anew when it changes whom they trust."""

    def __bool__(self) -> bool:
        return bool(self.secret)

    @property
    def pending(self) -> tuple[Step, ...]:
        """What pods wait for that are not there yet: a first certificate that is still being made."""
        return () if self else self.steps

    def mounts(self, path: str) -> tuple[kube.Mount, ...]:
        """The three files in a folder that follows what becomes of them."""
        return (kube.folder("tls", self.secret, path),) if self else ()


def certified(
    ctx: Context[Any],
    service: str,
    *,
    workloads: Sequence[tuple[str, str]],
    members: str = "",
    name: str = "tls",
    also: Sequence[str] = (),
    calls: bool = False,
) -> Certified:
    """Secret `<owner>-<name>` with a certificate for a Service of this namespace, whose pods are those of `workloads`
    (kind, name), from where the spec says, if it says anything. Made here, it is also for the pods behind the headless
    Service `members`, in any case for what else they are called (`also`, names and addresses), and for those who call
    to show it where `calls`. None yet, but steps, where cert-manager is still to make the first one. Raises SpecError
    where there is no good certificate yet and none to be had.
    """
    spec = ctx.spec
    if not isinstance(spec, UsesTLS) or spec.tls is None:
        return Certified()
    live = ctx.children.get(("Secret", kube.fitting(ctx.name(name))))
    held = _held(live)
    if spec.tls.secret_ref:
        # The one name clients call it by.
        wanted = pki.Wanted(common=ctx.owner, names=frozenset({ctx.host(service), *also}), calls=calls)
        found = _brought(ctx, name, spec.tls.secret_ref.name, wanted, held)
    elif spec.tls.pki_ref:
        names = frozenset({*_called(ctx, service, members, spec.tls.pki_ref), *also})
        wanted = pki.Wanted(common=ctx.owner, names=names, calls=calls)
        found = _issued(ctx, name, spec.tls.pki_ref, wanted, held)
    else:
        return Certified()
    if not found.files:
        return Certified(steps=found.before)
    secret = kube.secret(ctx, ctx.name(name), found.files)
    named = secret["metadata"]["name"]
    before: Mapping[str, str] = (live or {}).get("metadata", {}).get("annotations") or {}
    shown = SHOWN in before or all(_shown(ctx, named, each) for each in workloads)
    if notes := ({SHOWN: "true"} if shown else {}) | _since(before, held, found.files, ctx.now):
        secret["metadata"]["annotations"] = notes
    verdict = failed(found.fault, "InvalidSpec") if found.fault else None
    told = shown and spec.tls.announced
    due = pki.change(pki.Pair(found.files["tls.key"], found.files["tls.crt"]), ctx.now)
    kept = Step(name="Certificate", objects=(secret, *found.beside), guarded=True, verdict=verdict, wake=due)
    return Certified(
        steps=(*found.before, kept),
        secret=named,
        published={TRUSTED: found.trust} if told else {},
        authorities=found.files["ca.crt"] if told else "",
        required=told and spec.tls.required,
        calls=pki.calls(found.files["tls.crt"]),
        trusts={TRUSTS: kube.digest(found.files["ca.crt"])},
        common=pki.common(found.files["tls.crt"]),
    )


def _held(live: kube.Object | None) -> dict[str, str]:
    """The files that are there; none where somebody has made them unreadable."""
    files = kube.secret_data(live)
    readable = files.keys() >= _FILES and not pki.unreadable(pki.Pair(files["tls.key"], files["tls.crt"]))
    return {name: files[name] for name in sorted(_FILES)} if readable else {}


def _since(
    annotations: Mapping[str, str], held: Mapping[str, str], files: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """The annotation of when the Secret's authorities last changed; none for the first it has."""
    if not held:
        return {}
    same = held["ca.crt"] == files["ca.crt"] and pki.issuer(held["tls.crt"]) == pki.issuer(files["tls.crt"])
    since = annotations.get(AUTHORITIES_SINCE, "") if same else f"{now:%Y-%m-%dT%H:%M:%SZ}"
    return {AUTHORITIES_SINCE: since} if since else {}


def _shown(ctx: Context[Any], secret: str, workload: tuple[str, str]) -> bool:
    """Whether every pod mounts the Secret, or there is none yet."""
    live = ctx.children.get(workload)
    if live is None:
        return True
    if "." in workload[0]:
        # Pods of another operator's, which says when all of them are as they should be.
        return secret in str(live["spec"]) and kube.judge(live).ready
    volumes, status = live["spec"]["template"]["spec"].get("volumes") or (), live.get("status") or {}
    mounted = any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)
    if workload[0] == "StatefulSet":
        return mounted and status.get("currentRevision") == status.get("updateRevision")
    seen = status.get("observedGeneration", 0) >= live["metadata"].get("generation", 1)
    return mounted and seen and status.get("updatedReplicas", 0) == status.get("replicas", 0)


AMONG = "openstack.k8s.io/among-members"
"""Annotation of pods whose members speak TLS to each other: what `among` said of them."""


def among(ctx: Context[Any], shown: Certified, workload: tuple[str, str], *, closes: bool, plain: bool = False) -> str:
    """How members that look for each other are to speak: empty is plain text, `tls` once every pod takes both, and
    `only`, where plain text `closes`, once every pod speaks TLS. A new workload begins with the last, unless members
    are known to each other as `plain` from before it.
    """
    if not shown.published:
        return ""
    live = ctx.children.get(workload)
    if not closes or (live is None and plain):
        return "tls"
    if live is None:
        return "only"
    said, status = (live["spec"]["template"]["metadata"].get("annotations") or {}).get(AMONG), live.get("status") or {}
    seen = status.get("observedGeneration", 0) >= live["metadata"].get("generation", 1)
    rolled = seen and status.get("currentRevision") == status.get("updateRevision")
    return "only" if said == "only" or (said and rolled) else "tls"


@dataclass(frozen=True, kw_only=True)
class _Found:
    files: Mapping[str, str]
    trust: str
    """Secret with `ca.crt` alone, for those who call."""
    beside: tuple[kube.Object, ...] = ()
    fault: str = ""
    """Why it is still the one before."""
    before: tuple[Step, ...] = ()
    """What has it made."""


def _issued(ctx: Context[Any], name: str, ref: PKIRef, wanted: pki.Wanted, held: Mapping[str, str]) -> _Found:
    """One by a PKI, kept until it is due."""
    published = ctx.refs[ref]
    if "issuerName" in published.published:
        return _ordered(ctx, name, ref, wanted, held)
    by, trusted = ctx.secrets[published["authoritySecret"]], ctx.secrets[published["bundleSecret"]]["ca.crt"]
    signer = pki.Pair(by["tls.key"], by["tls.crt"])
    if ctx.now >= signer.ends:
        raise SpecError("spec.tls.pkiRef", f"the authority of PKI/{ref.name} ended at {signer.ends:%Y-%m-%d %H:%M} UTC")
    wanted = replace(wanted, life=timedelta(minutes=int(published["certificateMinutes"])))
    known = pki.Pair(held["tls.key"], held["tls.crt"]) if held else None
    pair = pki.certificate(known, wanted, signer, ctx.draw, ctx.now)
    return _Found(files={"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": trusted}, trust=published["bundleSecret"])


def _ordered(ctx: Context[Any], name: str, ref: PKIRef, wanted: pki.Wanted, held: Mapping[str, str]) -> _Found:
    """What cert-manager made for a PKI, as long as it is good; nothing before the first one."""
    published = ctx.refs[ref]
    order = ordered(ctx, name, published.published, wanted, "spec.tls.pkiRef")
    trusted = ctx.secrets[published["bundleSecret"]]["ca.crt"]
    fault = _fault({**order.files, "ca.crt": trusted}, wanted, ctx.now) if order.files else ""
    stays = "; the one before stays in use" if held else ""
    wrong = failed(f"spec.tls.pkiRef: what {order.issuer} issued: {fault}{stays}", "IssuerFailed") if fault else None
    taken = {key: order.files[key] for key in ("tls.crt", "tls.key")} if order.files and not fault else held
    step = Step(name="Certificate", objects=order.objects, verdict=wrong or order.verdict, wake=order.wake)
    files = {**taken, "ca.crt": trusted} if taken else {}
    return _Found(files=files, trust=published["bundleSecret"], before=(step,))


def _brought(ctx: Context[Any], name: str, source: str, wanted: pki.Wanted, held: Mapping[str, str]) -> _Found:
    """A copy of what the user brought, as long as it is good, so that a bad one that comes later changes nothing."""
    path, given = "spec.tls.secretRef", ctx.secrets.get(source)
    if given is None:
        raise MissingReference(f"{path}.name", f"there is no Secret {source!r} in this namespace")
    fault = _fault(given, wanted, ctx.now)
    if fault and not held:
        raise Incomplete(path, f"Secret {source!r}: {fault}")
    files = {key: (held if fault else given)[key] for key in sorted(_FILES)}
    trust = kube.secret(ctx, ctx.name(f"{name}-trust"), {"ca.crt": files["ca.crt"]})
    message = f"{path}: Secret {source!r}: {fault}; the one before stays in use" if fault else ""
    return _Found(files=files, trust=trust["metadata"]["name"], beside=(trust,), fault=message)


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


def _called(ctx: Context[Any], service: str, members: str, ref: PKIRef) -> set[str]:
    forms = _forms(ctx, service)
    names = {*forms, *(f"*.{form}" for form in _forms(ctx, members) if members)}
    by = ctx.refs[ref].published
    if "issuerName" in by and serves_cluster(by["issuerKind"], by["issuerGroup"]):
        # Short ones are those of other namespaces, too, and of whoever has such a name outside of the cluster.
        names = {name for name in names if is_own_service(name, ctx.namespace, ctx.domain)}
    return {*names, "localhost", "127.0.0.1"}


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
    """The authorities of all servers the spec points at, and of its own, by Secret."""
    names = {found for ref in ctx.refs.values() if (found := ref.published.get(TRUSTED))}
    names |= {ref.name for _, ref in logins(ctx.spec) if authority(ctx.secrets.get(ref.name, {}))}
    if own := _own(ctx):
        names.add(own)
    return {name: ctx.secrets[name][authority(ctx.secrets[name]) or "ca.crt"] for name in sorted(names)}


def authority(data: Mapping[str, str]) -> str:
    """The key of a Secret that holds authorities: `ca.crt`, or `cacert` as beside a clouds.yaml; empty for none."""
    return next((key for key in ("ca.crt", "cacert") if data.get(key)), "")


def _own(ctx: Context[Any]) -> str:
    """Secret with those of the PKI that makes its own certificate, if one does; of who calls its peers, which have
    theirs by the same. Others do not start anew for it.
    """
    spec = ctx.spec
    ref = spec.tls.pki_ref if isinstance(spec, UsesTLS) and spec.tls and isinstance(spec, UsesIdentity) else None
    return ctx.refs[ref]["bundleSecret"] if ref else ""


def peers(ctx: Context[Any], keystone: Mapping[str, str]) -> str:
    """Path of the authorities of the APIs found through a Keystone, of which this is what it publishes; its own where
    that says nothing, so that a service trusts its peers before it is told to; empty where there are none.
    """
    own = _own(ctx)
    return trust_of(keystone) or (trust_in(own) if own else "")


def trust_of(published: Mapping[str, str]) -> str:
    """Path of the authorities of a server in its client's container; empty where it shows no certificate."""
    secret = published.get(TRUSTED)
    return trust_in(secret) if secret else ""


def trust_in(secret: str) -> str:
    """Path of the authorities of a Secret in its reader's container."""
    return f"{TRUST}/{secret}/ca.crt"
