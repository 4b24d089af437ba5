"""Delegation: servers that another operator runs, or that are external."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ... import kube
from ...api import ExternalServer, RunSpec, UsesTLS, host_of
from ...plan import Context, IgnoredFields, Object, Plan, SpecError, Step, key, node_labels
from ..connect.coordinates import Login, login
from ..secrets.tls import TRUSTED, authority

SpecT = TypeVar("SpecT", bound=RunSpec)
ServerT = TypeVar("ServerT")

_PROVIDER = "spec.provider"
BUILTIN, AUTO, _EXTERNAL = "builtin", "auto", "external"
EXTERNAL = "external"
"""Key of a contract: hosts of an external server, separated by commas."""


def plan(
    ctx: Context[SpecT],
    operator: str,
    kind: str,
    delegated: Callable[[Context[SpecT]], Plan],
    external_plan: Callable[[Context[SpecT]], Plan],
    **has_more: bool,
) -> Plan | None:
    """Return the plan `delegated` if the operator of `kind` runs the server, or the one for an external server; None if
    the provider is builtin.

    Provider auto is the one that already has resources, or else the operator, if the cluster has its kind. The builtin
    provider has Secret `<owner>-credentials`, the operator a resource of `kind`, and external Secret `<owner>-admin`;
    `has_more` says, for providers by name with dashes as underscores, whether they have others. Raises SpecError if
    another provider has some, Transient if the operator may not read the kind.
    """
    name = _provider(ctx, operator, kind, has_more)
    return {operator: delegated, _EXTERNAL: external_plan}[name](ctx) if name != BUILTIN else None


def _provider(ctx: Context[Any], operator: str, kind: str, has_more: Mapping[str, bool]) -> str:
    name: str = ctx.spec.provider
    objects = {
        BUILTIN: ("Secret", ctx.name("credentials")),
        operator: (kind, ctx.name()),
        _EXTERNAL: ("Secret", ctx.name("admin")),
    }
    owners = [
        each for each, key in objects.items() if key in ctx.children or has_more.get(each.replace("-", "_"), False)
    ]
    if name == AUTO and owners:
        name = owners[0]
    if name in (AUTO, operator):
        choice = f"{_PROVIDER} {name}" if name == operator else f"{_PROVIDER} {AUTO} (or choose {BUILTIN})"
        ctx.installed_kinds.check_permitted(choice, kind)
    if name == AUTO:
        return BUILTIN if ctx.installed_kinds.missing(kind) else operator
    if owners and name not in owners:
        fault = f"{ctx.kind}/{ctx.owner} is run by {owners[0]}, and its data cannot move"
        raise SpecError(
            _PROVIDER, f"{fault}; set {owners[0]} again, or create a {ctx.kind} of another name and move the data"
        )
    return name


def resource(ctx: Context[Any], kind: str, name: str, api: str, spec: Mapping[str, Any]) -> Object:
    """Return the resource of the operator that runs the server; if the cluster has no such kind, the error names the
    provider.
    """
    return kube.annotated(kube.obj(ctx, kind, name, api, spec=spec), {kube.FIELD: _PROVIDER})


def reject_unsupported(ctx: Context[Any], by: str, *fields: str) -> None:
    """Raise SpecError for a field of the spec that is set and that this provider does not support."""
    for field in fields:
        info = type(ctx.spec).model_fields[field]
        if getattr(ctx.spec, field) != info.get_default(call_default_factory=True):
            text = f"{by} does not support it; remove the field, or choose provider builtin"
            raise SpecError(f"spec.{info.alias or field}", text)


def ignored_elsewhere(ctx: Context[Any]) -> IgnoredFields:
    """Return the fields that an external server leaves without effect: all but its address."""
    if ctx.spec.provider != _EXTERNAL:
        return {}
    text = "this operator does not run an external server; remove it"
    fields = type(ctx.spec).model_fields
    return {info.alias or name: text for name, info in fields.items() if name not in {"provider", "external"}}


def ignored_when_delegated(plan: Plan, operator: str, kind: str, **advice: str) -> IgnoredFields:
    """Return the fields that the operator of `kind` leaves without effect, if it runs the server: policies, and the
    fields in `advice`, with underscores for dots.
    """
    if not any(key(obj)[0] == kind for obj in plan.objects):
        return {}
    text = f"this operator's policies do not apply to pods of {operator}; write a NetworkPolicy for them"
    pods = f"{operator} creates the pods; set resources instead of defaultResources, or choose provider builtin"
    ignored = {"networkPolicies": text, **dict.fromkeys(("podAnnotations", "podLabels", "defaultResources"), pods)}
    return {**ignored, **{name.replace("_", "."): advice[name] for name in advice}}


def image(ctx: Context[Any], component: str, version: str = "") -> str | None:
    """Return the image to run, of a version of the release's; None leaves it to the operator, since Kolla's images have
    another start command. Raises SpecError for a version that there is not.
    """
    spec: RunSpec = ctx.spec
    entry = ctx.release.in_version(component, version)
    return spec.image or (entry.image if spec.image_profile != "kolla" else None)


def resources(ctx: Context[Any], *, cpu: str, memory: str) -> Object:
    """Return requests and limits; `cpu` and `memory` are measured values for those the spec does not set."""
    requests, limits = kube.requested(kube.settings(ctx.spec), cpu=cpu, memory=memory)
    return kube.drop_none({"requests": requests, "limits": limits or None})


def placement(ctx: Context[Any], pods: Mapping[str, str], *, several: bool) -> Object:
    """Return the fields of a pod's spec that place the pods with these labels on nodes."""
    settings = kube.settings(ctx.spec)
    kind = ctx.permissions.node_labels
    spec = kube.drop_none(
        {
            "nodeSelector": node_labels.selector(
                kube.CONTROL_PLANE if settings.node_selector is None else settings.node_selector, kind
            ),
            "tolerations": settings.tolerations,
            "affinity": node_labels.affinity(settings.affinity, kind),
            "priorityClassName": settings.priority_class_name,
        }
    )
    return kube.placed({"spec": spec}, settings, pods, several=several, replaceable=False)["spec"]


@dataclass(frozen=True, kw_only=True)
class External:
    """An external server."""

    at: Login
    steps: tuple[Step, ...]
    published: Mapping[str, str]
    """Name of the Secret with its administrator, and of that with the authorities to verify it with."""


def declared_server(server: ServerT | None) -> ServerT:
    """Return `spec.external`, which provider external requires. Raises SpecError if it is unset, in an object that was
    stored before the API server checked that.
    """
    if server is None:
        raise SpecError("spec.external", "provider external needs the address of the server; set it")
    return server


def external(ctx: Context[Any], server: ExternalServer, user: str, password: str) -> External:
    """Return Secret `<owner>-admin` with the login in the user's Secret, under this kind's keys for `user` and
    `password`. Raises SpecError if it lacks one, or if the spec asks for a certificate.
    """
    if isinstance(ctx.spec, UsesTLS) and ctx.spec.tls:
        raise SpecError("spec.tls", "provider external takes TLS from its Secret; add ca.crt to external.secretRef's")
    at = login(ctx, server.secret_ref, "spec.external.secretRef")
    admin = kube.secret(ctx, ctx.name("admin"), {user: at["username"], password: at["password"]})
    hosts = ",".join(dict.fromkeys(host_of(address) for address in server.addresses))
    objects, published = [admin], {"adminSecret": admin["metadata"]["name"], EXTERNAL: hosts}
    if key := authority(at.data):
        objects.append(kube.secret(ctx, ctx.name("trust"), {"ca.crt": at.data[key]}))
        published[TRUSTED] = objects[-1]["metadata"]["name"]
    return External(at=at, steps=(Step(name="Server", objects=tuple(objects)),), published=published)
