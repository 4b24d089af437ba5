"""Compute nodes of other Kubernetes clusters: for each such cell a Secret with what its nodes need, which others carry
to a HypervisorCluster there (decision 0095).
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from ... import kube, parts, pki
from ...api import Expose
from ...parts.brokers import VHOST, broker_of, other_brokers
from ...parts.connect import sources
from ...parts.secrets.tls import trusts
from ...plan import Context, Group, SpecError, Step, progressing
from . import config, limited_accounts
from .cells import CellInputs, CellPlan
from .model import Cell, NovaSpec

_KEYS = ("username", "password", "user_domain_name", "project_name", "project_domain_name")


def metadata_access(ctx: Context[NovaSpec], program: parts.ProgramSettings) -> parts.ProgramSettings:
    """Return the settings of the metadata API with its own access for clients outside, if the spec has it."""
    at = ctx.spec.metadata.remote_access
    return replace(program, expose=Expose(**dict(at))) if at else program


def hypervisor_secrets(
    ctx: Context[NovaSpec],
    cells: list[CellPlan],
    inputs: CellInputs,
    user: sources.Identity | None,
    metadata: parts.Api,
) -> list[Group]:
    """Return Secret `<owner>-<cell>-hypervisors` for each cell with nodes elsewhere. Raises SpecError without TLS."""
    models = {cell.name: cell for cell in ctx.spec.cells if cell.has_remote_nodes}
    if user is None or not models:
        return []
    if ctx.spec.tls is None:
        raise SpecError("spec.tls", "nodes of another cluster need TLS; set it, or remove computeRef.elsewhere")
    if ctx.spec.image_profile != "debian":
        raise SpecError("spec.cells", "nodes of another cluster need the image profile debian")
    steps = [
        step
        for cell in cells
        if cell.name in models
        for step in _secret(ctx, models[cell.name], cell, inputs, user, metadata)
    ]
    return [Group("Elsewhere", steps)]


def _secret(
    ctx: Context[NovaSpec],
    model: Cell,
    cell: CellPlan,
    inputs: CellInputs,
    user: sources.Identity,
    metadata: parts.Api,
) -> list[Step]:
    _check_stays(ctx, cell)
    account = _account(ctx, cell, inputs.credentials)
    broker, missing = _broker(ctx, model, account)
    keystone = ctx.spec.keystone.auth_url or _keystone(ctx)
    if not keystone:
        missing.append("a public URL of Keystone: set its spec.expose")
    if ctx.spec.metadata.remote_access is None or metadata.public == metadata.internal:
        missing.append("an address of the metadata API: set metadata.remoteAccess")
    # An account of the broker's that others make is the cell's own.
    before = [account] if account is not cell.nodes.messaging else []
    if missing:
        return [*before, Step(name="Hypervisors", verdict=progressing(f"waits for {'; '.join(missing)}"))]
    data = {
        **{key: user.options[key] for key in _KEYS if key in user.options},
        **inputs.consoles.node_files,
        "auth_url": keystone,
        "region": ctx.spec.region,
        "cell": cell.name,
        "transport_url": broker,
        "console_url": cell.nodes.console,
        "metadata_url": metadata.public,
        "metadata_secret": config.shared_secret(ctx),
        "ca.crt": pki.bundle(list(trusts(ctx).values()), ctx.now),
        "release": ctx.spec.release,
    }
    secret = kube.secret(ctx, ctx.name(cell.name, "hypervisors"), dict(sorted(data.items())))
    return [*before, Step(name="Hypervisors", objects=(secret,), after=(*before, user))]


def _check_stays(ctx: Context[NovaSpec], cell: CellPlan) -> None:
    """Raise SpecError if the cell moves to another broker: the operator does not see its nodes."""
    for obj in cell.nodes.messaging.objects:
        if obj["kind"] == VHOST and (old_brokers := other_brokers(ctx, obj["spec"]["vhost"], broker_of(obj))):
            index = next(number for number, each in enumerate(ctx.spec.cells) if each.name == cell.name)
            text = f"its nova-compute in another cluster cannot move to another broker; keep {old_brokers[0]}"
            raise SpecError(f"spec.cells[{index}].messaging", text)


def _account(ctx: Context[NovaSpec], cell: CellPlan, creds: parts.Credentials) -> sources.Messaging:
    """Return the cell's virtual host by an account of these nodes' own, if the operator makes accounts there."""
    password, name = f"{cell.name}--elsewhere-messaging", f"{cell.name}--elsewhere"
    return limited_accounts.caller(
        ctx, creds, password, cell.nodes.messaging, None, name=name, suffix=limited_accounts.REMOTE_SUFFIX
    )


def _broker(ctx: Context[NovaSpec], model: Cell, account: sources.Messaging) -> tuple[str, list[str]]:
    """Return the transport URL for nodes elsewhere, without the options of TLS, and what it lacks."""
    url = urlsplit(account.url)
    if not account.server:
        return url._replace(query="").geturl(), []
    source = model.messaging or ctx.spec.messaging
    ref = source.rabbitmq_ref or sources.RABBITMQ
    address = ctx.refs[ref].published.get("remoteServer", "")
    if not address:
        return "", [f"an address of RabbitMQ {ref.name}: set its spec.remoteAccess"]
    return url._replace(netloc=f"{url.netloc.rpartition('@')[0]}@{address}", query="").geturl(), []


def _keystone(ctx: Context[NovaSpec]) -> str:
    """Return the public URL of Keystone; empty while it has none of its own."""
    at = ctx.refs[ctx.spec.keystone.keystone_ref or sources.KEYSTONE]
    public = at.published.get("publicURL", "")
    return public if public != at["internalURL"] else ""
