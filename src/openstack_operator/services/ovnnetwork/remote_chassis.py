"""Switches of nodes whose OVN has its databases in another Kubernetes cluster (decision 0095)."""

from __future__ import annotations

from collections.abc import Mapping

from ... import parts, pki
from ...api import SecretRef
from ...parts.connect.coordinates import Login
from ...parts.connect.ovn import OVN_NODE_TLS, OVN_REMOTE, node_keys
from ...parts.secrets.node_certificates import NodeIssuer
from ...plan import Context, Group, Incomplete, MissingReference, Plan, State, Step, Verdict
from .chassis import chassis
from .model import OVNNetworkSpec
from .nodes import selector

_PATH = "spec.external.secretRef"
_ADDRESS = r"ssl:([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
_ADDRESSES = f"{_ADDRESS}(,{_ADDRESS})*"


def plan(ctx: Context[OVNNetworkSpec], secret_ref: SecretRef) -> Plan:
    """Return the plan of the switches alone. Published: southbound and southboundForNodes, which are the same, and
    nodeCertificates.
    """
    login = Login(_PATH, secret_ref.name, _data(ctx, secret_ref))
    login.matching(OVN_REMOTE, _ADDRESSES, "`ssl:HOST:PORT`, or several with commas between them")
    southbound, pairs = login[OVN_REMOTE], _pairs(ctx, login.data)
    issuer = NodeIssuer(issue=lambda node, _: pairs[node], trusted=_authorities(secret_ref.name, login.data))
    controllers = chassis(ctx, southbound, issuer, None, nodes=pairs.keys(), after=())
    return Plan(
        *parts.policies(ctx),
        Group(controllers.name, [*controllers.steps, *_missing(ctx, secret_ref.name, pairs)]),
        endpoint=southbound,
        published={"southbound": southbound, "southboundForNodes": southbound, OVN_NODE_TLS: "true"},
    )


def _data(ctx: Context[OVNNetworkSpec], ref: SecretRef) -> Mapping[str, str]:
    if ref.name not in ctx.secrets:
        raise MissingReference(f"{_PATH}.name", f"there is no Secret {ref.name!r} in this namespace")
    return ctx.secrets[ref.name]


def _authorities(secret: str, data: Mapping[str, str]) -> str:
    """Return the authorities of the databases. Raises Incomplete if they are missing or unreadable."""
    if not pki.split(data.get("ca.crt", "")):
        raise Incomplete(_PATH, f"key 'ca.crt' of Secret {secret!r} has no certificate")
    return data["ca.crt"]


def _pairs(ctx: Context[OVNNetworkSpec], data: Mapping[str, str]) -> dict[str, pki.Pair]:
    """Return the certificates of the selected nodes for which the Secret has a good one. A relay refuses what a node
    writes under another name than that of its certificate.
    """
    pairs: dict[str, pki.Pair] = {}
    for name in _selected(ctx):
        key, cert = node_keys(name)
        pair = pki.Pair(data.get(key, ""), data.get(cert, ""))
        if not pki.read_error(pair) and pki.common(pair.cert) == name and pair.ends > ctx.now:
            pairs[name] = pair
    return pairs


def _selected(ctx: Context[OVNNetworkSpec]) -> list[str]:
    labels = selector(ctx.spec)
    return sorted(name for name, node in ctx.nodes.items() if node.selected(labels))


def _missing(ctx: Context[OVNNetworkSpec], secret: str, pairs: Mapping[str, pki.Pair]) -> list[Step]:
    """Return a step that names the nodes without a certificate: no failure, since the other nodes work."""
    nodes = ", ".join(name for name in _selected(ctx) if name not in pairs)
    if not nodes:
        return []
    text = f"Secret {secret} has no valid certificate for {nodes}: name it in remoteChassis.nodes of the other OVN"
    return [Step(name="NodeCertificates", verdict=Verdict(State.READY, text))]
