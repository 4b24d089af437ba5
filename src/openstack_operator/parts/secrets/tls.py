"""Certificates of services, and the authorities with which their clients verify them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from ... import kube, pki
from ...api import CallsAPIs, PKIRef, UsesTLS, logins
from ...plan import Context, Incomplete, MissingReference, ResolvedRef, SpecError, Step, failed, is_own_service
from .issued import ordered, serves_cluster

TRUST = "/etc/openstack-trust"
"""Folder of the authorities of its servers in a client: `<Secret>/ca.crt`."""
TRUSTED = "trustSecret"
"""Key under which a server publishes the Secret with them."""


TRUSTS = "openstack.k8s.io/trusts"
"""Annotation of pods whose program reads its authorities only at its start, though it reloads its certificate
(`Certified.trusts`): they roll out when the authorities change, and only then."""


PRESENTED = "openstack.k8s.io/shown"
"""Annotation of a certificate's Secret: all pods have presented it, or one before it, so that clients may rely on it
also while the pods are replaced for another reason."""


AUTHORITIES_SINCE = "openstack.k8s.io/authorities-since"
"""Annotation of a certificate's Secret: time at which it last got other authorities, or a certificate by another one. A
renewal by the same authority leaves it, so that short certificates cannot block an authority's replacement."""


@dataclass(frozen=True, kw_only=True)
class Certified:
    """A certificate in a Secret (`tls.crt`, `tls.key`, and `ca.crt`, the authorities to trust), or none."""

    steps: tuple[Step, ...] = ()
    secret: str = ""
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contract for clients; empty before they are to use TLS, and while pods do not present it, which clients would
    refuse."""
    authorities: str = ""
    """Authorities that clients trust, in PEM; empty as long as `published` is."""
    required: bool = False
    """True if connections without TLS are refused."""
    calls: bool = False
    """True if it is valid as a client's certificate, too."""
    common: str = ""
    """Its common name; many have none."""
    authorities_since: Mapping[str, str] = field(default_factory=dict[str, str])
    """Annotation AUTHORITIES_SINCE of the Secret, if it has one."""
    files: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Data of the Secret."""

    trusts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Annotation for pods that have to restart when the authorities they trust change."""

    def __bool__(self) -> bool:
        return bool(self.secret)

    @property
    def pending(self) -> tuple[Step, ...]:
        """Steps that new pods wait for: a first certificate that is still being made."""
        return () if self else self.steps

    def mounts(self, path: str) -> tuple[kube.Mount, ...]:
        """Return the three files in a folder that is updated with the Secret."""
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
    """Return Secret `<owner>-<name>` with a certificate for a Service of this namespace, whose pods are those of
    `workloads` (kind, name), from the source in the spec, if it names one. A certificate made here is also for the pods
    behind the headless Service `members`; each is for further names and addresses (`also`), and with `calls` for use by
    clients. Has steps, but no secret yet, while cert-manager makes the first one. Raises SpecError if there is no valid
    certificate and none can be made.
    """
    spec = ctx.spec
    if not isinstance(spec, UsesTLS) or spec.tls is None:
        return Certified()
    live = ctx.live("Secret", name)
    stored = _stored_files(live)
    if spec.tls.secret_ref:
        # The only name that clients call.
        request = pki.Request(common=ctx.owner, names=frozenset({ctx.host(service), *also}), calls=calls)
        source = _from_user(ctx, name, spec.tls.secret_ref.name, request, stored)
    elif spec.tls.pki_ref:
        _check_allowed(ctx, spec.tls.pki_ref)
        names = frozenset({*_certificate_names(ctx, service, members, spec.tls.pki_ref), *also})
        request = pki.Request(common=ctx.owner, names=names, calls=calls)
        source = _from_pki(ctx, name, spec.tls.pki_ref, request, stored)
    else:
        return Certified()
    if not source.files:
        return Certified(steps=source.before)
    secret = kube.secret(ctx, ctx.name(name), source.files)
    secret_name = secret["metadata"]["name"]
    before: Mapping[str, str] = (live or {}).get("metadata", {}).get("annotations") or {}
    is_presented = PRESENTED in before or all(_is_mounted_by_all(ctx, secret_name, each) for each in workloads)
    since = _since(before, stored, source.files, ctx.now)
    if notes := ({PRESENTED: "true"} if is_presented else {}) | since:
        secret["metadata"]["annotations"] = notes
    verdict = failed(source.fault, "InvalidSpec") if source.fault else None
    is_advertised = is_presented and spec.tls.announced
    due = pki.change(pki.Pair(source.files["tls.key"], source.files["tls.crt"]), ctx.now)
    step = Step(name="Certificate", objects=(secret, *source.extra_objects), guarded=True, verdict=verdict, wake=due)
    return Certified(
        steps=(*source.before, step),
        secret=secret_name,
        published={TRUSTED: source.trust} if is_advertised else {},
        authorities=source.files["ca.crt"] if is_advertised else "",
        required=is_advertised and spec.tls.required,
        calls=pki.calls(source.files["tls.crt"]),
        trusts={TRUSTS: kube.digest(source.files["ca.crt"])},
        common=pki.common(source.files["tls.crt"]),
        authorities_since=since,
        files=source.files,
    )


def _stored_files(live: kube.Object | None) -> dict[str, str]:
    """Return the files of the Secret; none if they are unreadable."""
    files = kube.secret_data(live)
    readable = files.keys() >= _FILES and not pki.read_error(pki.Pair(files["tls.key"], files["tls.crt"]))
    return {name: files[name] for name in sorted(_FILES)} if readable else {}


def _since(
    annotations: Mapping[str, str], stored: Mapping[str, str], files: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """Return the annotation with the time at which the Secret's authorities last changed; none for its first ones."""
    if not stored:
        return {}
    same = stored["ca.crt"] == files["ca.crt"] and pki.issuer(stored["tls.crt"]) == pki.issuer(files["tls.crt"])
    since = kube.past_stamp(annotations.get(AUTHORITIES_SINCE, ""), now) if same else kube.time_stamp(now)
    return {AUTHORITIES_SINCE: since} if since else {}


def _is_mounted_by_all(ctx: Context[Any], secret: str, workload: tuple[str, str]) -> bool:
    """Return True if every pod of the workload mounts the Secret, or there is no workload yet."""
    live = ctx.children.get(workload)
    if live is None:
        return True
    if "." in workload[0]:
        # Pods of another operator, which reports when all of them are up to date.
        return secret in str(live["spec"]) and kube.judge(live).ready
    volumes = live["spec"]["template"]["spec"].get("volumes") or ()
    mounted = any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)
    return mounted and not kube.Rollout(live).is_running


@dataclass(frozen=True, kw_only=True)
class _Source:
    files: Mapping[str, str]
    trust: str
    """Secret with only `ca.crt`, for clients."""
    extra_objects: tuple[kube.Object, ...] = ()
    fault: str = ""
    """Reason why the previous certificate is still in use."""
    before: tuple[Step, ...] = ()
    """Steps that have it made."""


def _check_allowed(ctx: Context[Any], ref: PKIRef) -> None:
    """Raise SpecError if the PKI issues no certificates for resources of this kind: a client with one may administer
    another service, as OVN's databases accept each certificate by their authority.
    """
    allowed = ctx.refs[ref].published.get("allowedKinds", "")
    if allowed and ctx.kind not in allowed.split(","):
        kinds = allowed.replace(",", ", ")
        text = f"PKI/{ref.name} issues no certificates for {ctx.kind}: its spec.allowedKinds is {kinds}"
        raise SpecError("spec.tls.pkiRef", f"{text}; choose another PKI, or add {ctx.kind} to that field")


def _from_pki(ctx: Context[Any], name: str, ref: PKIRef, request: pki.Request, stored: Mapping[str, str]) -> _Source:
    """Return a certificate signed by a PKI, kept until its renewal is due."""
    published = ctx.refs[ref]
    if "issuerName" in published.published:
        return _from_cert_manager(ctx, name, ref, request, stored)
    by, trusted = ctx.secrets[published["authoritySecret"]], ctx.secrets[published["bundleSecret"]]["ca.crt"]
    signer = pki.Pair(by["tls.key"], by["tls.crt"])
    if ctx.now >= signer.ends:
        raise SpecError("spec.tls.pkiRef", f"the authority of PKI/{ref.name} ended at {signer.ends:%Y-%m-%d %H:%M} UTC")
    request = replace(request, life=timedelta(minutes=int(published["certificateMinutes"])))
    current = pki.Pair(stored["tls.key"], stored["tls.crt"]) if stored else None
    pair = pki.certificate(current, request, signer, ctx.draw, ctx.now)
    return _Source(
        files={"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": trusted}, trust=published["bundleSecret"]
    )


def _from_cert_manager(
    ctx: Context[Any], name: str, ref: PKIRef, request: pki.Request, stored: Mapping[str, str]
) -> _Source:
    """Return the certificate that cert-manager made for a PKI, while it is valid; no files before the first one."""
    published = ctx.refs[ref]
    order = ordered(ctx, name, published.published, request, "spec.tls.pkiRef")
    trusted = ctx.secrets[published["bundleSecret"]]["ca.crt"]
    fault = _fault({**order.files, "ca.crt": trusted}, request, ctx.now) if order.files else ""
    stays = "; the previous one stays in use" if stored else ""
    wrong = (
        failed(f"spec.tls.pkiRef: certificate from {order.issuer}: {fault}{stays}", "IssuerFailed") if fault else None
    )
    issued = {key: order.files[key] for key in ("tls.crt", "tls.key")} if order.files and not fault else stored
    step = Step(name="Certificate", objects=order.objects, verdict=wrong or order.verdict, wake=order.wake)
    files = {**issued, "ca.crt": trusted} if issued else {}
    return _Source(files=files, trust=published["bundleSecret"], before=(step,))


def _from_user(ctx: Context[Any], name: str, source: str, request: pki.Request, stored: Mapping[str, str]) -> _Source:
    """Return a copy of the user's certificate, while it is valid, so that a later invalid one changes nothing."""
    path, data = "spec.tls.secretRef", ctx.secrets.get(source)
    if data is None:
        raise MissingReference(f"{path}.name", f"there is no Secret {source!r} in this namespace")
    fault = _fault(data, request, ctx.now)
    if fault and not stored:
        raise Incomplete(path, f"Secret {source!r}: {fault}")
    files = {key: (stored if fault else data)[key] for key in sorted(_FILES)}
    trust = kube.secret(ctx, ctx.name(f"{name}-trust"), {"ca.crt": files["ca.crt"]})
    message = f"{path}: Secret {source!r}: {fault}; the previous one stays in use" if fault else ""
    return _Source(files=files, trust=trust["metadata"]["name"], extra_objects=(trust,), fault=message)


_FILES = {"ca.crt", "tls.crt", "tls.key"}


def _fault(data: Mapping[str, str], request: pki.Request, now: datetime) -> str:
    """Return the fault of a user's files; empty without one."""
    if missing := sorted(_FILES - data.keys()):
        return f"it lacks {', '.join(missing)}"
    try:
        fault = pki.fault(pki.Pair(data["tls.key"], data["tls.crt"]), request, now, authorities=[data["ca.crt"]])
    except ValueError as error:
        return f"ca.crt cannot be read: {pki.unreadable(error)}"
    return f"the certificate {fault}" if fault else ""


def _certificate_names(ctx: Context[Any], service: str, members: str, ref: PKIRef) -> set[str]:
    forms = _forms(ctx, service)
    if ctx.api_service and service == ctx.name("api"):
        forms += _forms(ctx, ctx.api_service)
    names = {*forms, *(f"*.{form}" for form in _forms(ctx, members) if members)}
    by = ctx.refs[ref].published
    if "issuerName" in by and serves_cluster(by["issuerKind"], by["issuerGroup"]):
        # Short names also belong to Services of other namespaces, and to hosts of such a name outside of the cluster.
        names = {name for name in names if is_own_service(name, ctx.namespace, ctx.domain)}
    return {*names, "localhost", "127.0.0.1"}


def _forms(ctx: Context[Any], service: str) -> list[str]:
    return [service, f"{service}.{ctx.namespace}", f"{service}.{ctx.namespace}.svc", ctx.host(service)]


def trusts(ctx: Context[Any]) -> dict[str, str]:
    """Return the authorities of all servers that the spec refers to, and of its own, by Secret."""
    names = {secret for ref in ctx.refs.values() if (secret := _trusted(ref))}
    names |= {ref.name for _, ref in logins(ctx.spec) if authority(ctx.secrets.get(ref.name, {}))}
    if bundle := _own_bundle(ctx):
        names.add(bundle)
    return {name: ctx.secrets[name][authority(ctx.secrets[name]) or "ca.crt"] for name in sorted(names)}


def _trusted(resolved: ResolvedRef) -> str:
    """Return the Secret with the authorities of a server; that of another namespace has them beside its certificate."""
    return "" if resolved.namespace else resolved.published.get(TRUSTED, "")


def authority(data: Mapping[str, str]) -> str:
    """Return the key of a Secret that holds authorities: `ca.crt`, or `cacert` as beside a clouds.yaml; empty if it has
    none.
    """
    return next((key for key in ("ca.crt", "cacert") if data.get(key)), "")


def _own_bundle(ctx: Context[Any]) -> str:
    """Return the Secret with the authorities of the PKI that makes its own certificate, if one does; only for services
    that call peers, whose certificates are of the same PKI. Others do not restart for it.
    """
    spec = ctx.spec
    ref = spec.tls.pki_ref if isinstance(spec, UsesTLS) and spec.tls and isinstance(spec, CallsAPIs) else None
    return ctx.refs[ref]["bundleSecret"] if ref else ""


def peers(ctx: Context[Any], keystone: Mapping[str, str]) -> str:
    """Return the path of the authorities of the APIs in a Keystone's catalog, from what that Keystone publishes; those
    of the service's own PKI if it publishes none, so that the service trusts its peers early; empty if there are none.
    """
    bundle = _own_bundle(ctx)
    return trust_of(keystone) or (trust_in(bundle) if bundle else "")


def trust_of(published: Mapping[str, str]) -> str:
    """Return the path of the authorities of a server in its client's container; empty if it has no certificate."""
    secret = published.get(TRUSTED)
    return trust_in(secret) if secret else ""


def trust_in(secret: str) -> str:
    """Return the path of the authorities of a Secret in its reader's container."""
    return f"{TRUST}/{secret}/ca.crt"
