"""Nodes of other Kubernetes clusters: an address of the southbound database for them, and a Secret that has what they
need. The operator never connects to their cluster: the Secret is carried there (decision 0095).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from ... import kube, pki
from ...parts.connect.ovn import OVN_REMOTE, node_keys
from ...parts.expose import exposure
from ...parts.expose.policies import IngressRule
from ...parts.secrets.node_certificates import ON_NODE, STORED_ON_NODE, NodeIssuer
from ...parts.secrets.tls import AUTHORITIES_SINCE
from ...plan import Context, Group, SpecError, Step, Verdict, failed, progressing
from .databases import SOUTHBOUND
from .model import OVNNetworkSpec
from .nodes import nodes_to_certify

_SERVICE, _SECRET = "remote", "remote-chassis"
_CARRIED_WITHIN = timedelta(days=1)
"""Time within which a change of the Secret has reached the other cluster: no proof comes back from there."""


def ingress_rules(ctx: Context[OVNNetworkSpec]) -> list[IngressRule]:
    """Return the rule that opens relays to every client: addresses of clients may be hidden on the way through nodes,
    and a relay takes no client without a certificate.
    """
    return [IngressRule("relay", [SOUTHBOUND.tls_port], "everybody")] if ctx.spec.remote_chassis else []


def remote_chassis(
    ctx: Context[OVNNetworkSpec], issuer: NodeIssuer | None, controllers: Group, relays: tuple[Step, ...]
) -> list[Step]:
    """Return Service `<owner>-remote` and Secret `<owner>-remote-chassis`, if the spec names nodes of other clusters.
    Raises SpecError without TLS.
    """
    remote = ctx.spec.remote_chassis
    if remote is None:
        return []
    if ctx.spec.tls is None:
        raise SpecError("spec.tls", "nodes of other clusters need TLS; set tls, or remove remoteChassis")
    ports = {"ovsdb-tls": SOUTHBOUND.tls_port}
    service, host = exposure.entrance(
        ctx, _SERVICE, ports, kube.selector(ctx, "relay"), remote, path="spec.remoteChassis"
    )
    stored = kube.secret_data(ctx.live("Secret", _SECRET))
    # A Service that was made again gets its address a moment later.
    address = f"ssl:{host}" if host else stored.get(OVN_REMOTE, "")
    entrance = Step(name="RemoteChassis", objects=(service,))
    if issuer is None or not address:
        cause = "the certificate of the databases" if issuer is None else f"an address of Service {ctx.name(_SERVICE)}"
        return [entrance, Step(name="RemoteChassis", verdict=progressing(f"waits for {cause}"), after=relays)]
    return [entrance, _secret(ctx, remote.nodes, issuer, controllers, {OVN_REMOTE: address}, stored)]


def _secret(
    ctx: Context[OVNNetworkSpec],
    names: Sequence[str],
    issuer: NodeIssuer,
    controllers: Group,
    coordinates: Mapping[str, str],
    stored: Mapping[str, str],
) -> Step:
    """Return the Secret, with a certificate for each node of another cluster."""
    daemons = [obj for step in controllers.steps if isinstance(step, Step) for obj in step.objects]
    local_nodes = nodes_to_certify(ctx, [obj for obj in daemons if obj["kind"] == "DaemonSet"])
    files, pairs = dict(coordinates), list[pki.Pair]()
    for name in names:
        if name in local_nodes:
            continue
        key, cert = node_keys(name)
        current = pki.Pair(stored[key], stored[cert]) if {key, cert} <= stored.keys() else None
        pairs.append(pair := issuer.issue(name, current))
        files |= {key: pair.key, cert: pair.cert}
    files["ca.crt"] = issuer.trusted
    secret = kube.annotated(kube.secret(ctx, ctx.name(_SECRET), dict(sorted(files.items()))), _annotations(ctx, issuer))
    wake = min(filter(None, (pki.change(pair, ctx.now) for pair in pairs)), default=None)
    return Step(
        name="RemoteChassis",
        objects=(secret,),
        guarded=True,
        after=issuer.after,
        wake=wake,
        verdict=_verdict([name for name in names if name in local_nodes]),
    )


def _annotations(ctx: Context[OVNNetworkSpec], issuer: NodeIssuer) -> dict[str, str]:
    """Return annotations by which a PKI waits for a day, after it changed its authorities, before the next step: nodes
    that do not trust the new one would lose their network.
    """
    live = ctx.live("Secret", _SECRET)
    before: Mapping[str, str] = (live or {}).get("metadata", {}).get("annotations") or {}
    digest = kube.digest(issuer.trusted)
    if live is None:
        return {ON_NODE: digest, STORED_ON_NODE: digest}
    is_same = before.get(ON_NODE) == digest
    since = kube.past_stamp(before.get(AUTHORITIES_SINCE, ""), ctx.now) if is_same else kube.time_stamp(ctx.now)
    is_carried = _is_past(kube.valid_time(since), ctx.now)
    carried = digest if is_carried else before.get(STORED_ON_NODE, "")
    return {ON_NODE: digest, STORED_ON_NODE: carried, **({AUTHORITIES_SINCE: since} if since else {})}


def _is_past(since: datetime | None, now: datetime) -> bool:
    return since is None or now >= since + _CARRIED_WITHIN


def _verdict(local_nodes: Sequence[str]) -> Verdict | None:
    if not local_nodes:
        return None
    text = f"{', '.join(local_nodes)}: nodes of this cluster get their own certificates; remove them"
    return failed(f"spec.remoteChassis.nodes: {text}", "InvalidSpec")
