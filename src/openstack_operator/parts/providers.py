"""Servers that another operator runs, or that are not looked after here at all: what is the same for all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .. import kube
from ..api import ExternalServer, RunSpec, UsesTLS, host_of
from ..plan import Context, Object, SpecError, Step
from .coordinates import Login, login
from .tls import TRUSTED, authority

PROVIDER = "spec.provider"
BUILTIN, AUTO = "builtin", "auto"
EXTERNAL = "external"
"""Key of a contract: hosts of a server that is not looked after here, with commas between them."""


def provider(ctx: Context[Any], operator: str, kind: str, **made: bool) -> str:
    """Who runs this resource: what the spec says, or for auto whoever has it already, or else the operator whose kind
    that is, where the cluster has it. `made` says by provider, dashes as underscores, whether there is anything of its
    own. Raises SpecError where that is another one's, Transient where the operator may not read the kind.
    """
    asked: str = ctx.spec.provider
    known = [name.replace("_", "-") for name, there in made.items() if there]
    if asked == AUTO and known:
        asked = known[0]
    if asked in (AUTO, operator):
        choice = f"{PROVIDER} {asked}" if asked == operator else f"{PROVIDER} {AUTO} (or choose {BUILTIN})"
        ctx.installed_kinds.check_permitted(choice, kind)
    if asked == AUTO:
        return BUILTIN if ctx.installed_kinds.missing(kind) else operator
    if known and asked not in known:
        what = f"{ctx.kind}/{ctx.owner} is run by {known[0]}, and what it holds does not move"
        raise SpecError(
            PROVIDER, f"{what}; set {known[0]} again, or make a {ctx.kind} of another name and move the data there"
        )
    return asked


def served_by(ctx: Context[Any], kind: str, name: str, api: str, spec: Mapping[str, Any]) -> Object:
    """The resource of the operator that runs the server; where the cluster has no such kind the provider is blamed."""
    return kube.annotated(kube.obj(ctx, kind, name, api, spec=spec), {kube.FIELD: PROVIDER})


def unserved(ctx: Context[Any], by: str, *fields: str) -> None:
    """Raises SpecError for a field of the spec that is set and that this provider has nothing for."""
    for field in fields:
        info = type(ctx.spec).model_fields[field]
        if getattr(ctx.spec, field) != info.get_default(call_default_factory=True):
            text = f"{by} has nothing like it; remove the field, or choose provider builtin"
            raise SpecError(f"spec.{info.alias or field}", text)


def image(ctx: Context[Any], component: str) -> str | None:
    """The image to run; None leaves it to the operator, since Kolla's are started in a way of their own."""
    spec: RunSpec = ctx.spec
    return spec.image or (ctx.release[component].image if spec.image_profile != "kolla" else None)


def sized(ctx: Context[Any], *, cpu: str, memory: str) -> Object:
    """Requests and limits, with what is measured where the spec does not say."""
    requests, limits = kube.requested(kube.settings(ctx.spec), cpu=cpu, memory=memory)
    return kube.drop_none({"requests": requests, "limits": limits or None})


def placed_by_others(ctx: Context[Any], pods: Mapping[str, str], *, several: bool) -> Object:
    """Fields of a pod's spec that say where the pods with these labels run."""
    wanted = kube.settings(ctx.spec)
    spec = kube.drop_none(
        {
            "nodeSelector": kube.CONTROL_PLANE if wanted.node_selector is None else wanted.node_selector,
            "tolerations": wanted.tolerations,
            "affinity": wanted.affinity,
            "priorityClassName": wanted.priority_class_name,
        }
    )
    return kube.placed({"spec": spec}, wanted, pods, several=several, replaceable=False)["spec"]


@dataclass(frozen=True, kw_only=True)
class External:
    """A server that is not looked after here."""

    at: Login
    steps: tuple[Step, ...]
    published: Mapping[str, str]
    """Name of the Secret with its administrator, and of that with the authorities it is checked by."""


ServerT = TypeVar("ServerT")


def declared_server(server: ServerT | None) -> ServerT:
    """`spec.external`, which provider external cannot do without. Raises SpecError where it is unset: an object that
    was stored before the API server checked that.
    """
    if server is None:
        raise SpecError("spec.external", "provider external needs it; write where the server is")
    return server


def external(ctx: Context[Any], server: ExternalServer, user: str, password: str) -> External:
    """Secret `<owner>-admin` with what the user's Secret says, under the keys this kind has for `user` and `password`.
    Raises SpecError where it lacks one, or where a certificate is to be made.
    """
    if isinstance(ctx.spec, UsesTLS) and ctx.spec.tls:
        raise SpecError("spec.tls", "the server has a certificate or not; put its ca.crt into external.secretRef's")
    at = login(ctx, server.secret_ref, "spec.external.secretRef")
    admin = kube.secret(ctx, ctx.name("admin"), {user: at["username"], password: at["password"]})
    hosts = ",".join(dict.fromkeys(host_of(address) for address in server.addresses))
    found, published = [admin], {"adminSecret": admin["metadata"]["name"], EXTERNAL: hosts}
    if key := authority(at.data):
        found.append(kube.secret(ctx, ctx.name("trust"), {"ca.crt": at.data[key]}))
        published[TRUSTED] = found[-1]["metadata"]["name"]
    return External(at=at, steps=(Step(name="Server", objects=tuple(found)),), published=published)
