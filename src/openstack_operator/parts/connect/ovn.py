"""Options and files of a client of OVN's databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube
from ...api import Ref, Sections
from ...plan import Context, Object, ResolvedRef, Transient
from ..secrets.node_certificates import node_folder

OVN_TLS = "/etc/ovn-tls"
"""Folder of a certificate, its key and its authorities, in a pod that serves or reads the databases."""
OVN_CLIENT = "clientSecret"
"""Key under which an OVNNetwork publishes the Secret of it."""
OVN_NODE_FILES = "chassis-tls"
"""Component of the certificates of nodes, and so the name of their folder."""
OVN_NODE_TLS = "nodeCertificates"
"""Key under which an OVNNetwork publishes that each of its nodes has a certificate of its own."""
OVN_REMOTE = "southbound"
"""Key of the address in a Secret for nodes of another Kubernetes cluster."""
OVN_NODES = "nodes"
"""Key under which an OVNCluster publishes the labels of its nodes: label=value[,label=value]."""
_FILES = {"private_key": "tls.key", "certificate": "tls.crt", "ca_cert": "ca.crt"}


def ovn_contract(ctx: Context[Any], ref: Ref) -> ResolvedRef:
    """Return what the OVN publishes. The certificate of one in another namespace is in a Secret of this resource: pods
    mount Secrets of their own namespace alone.
    """
    network = ctx.refs[ref]
    if not network.namespace or OVN_CLIENT not in network.published:
        return network
    return replace(network, published={**network.published, OVN_CLIENT: ctx.name("ovn-client")})


def ovn_client_copy(ctx: Context[Any], ref: Ref) -> tuple[Object, ...]:
    """Return that Secret, for an OVN of another namespace that uses TLS. Raises Transient while a file is missing."""
    network = ctx.refs[ref]
    if not network.namespace or OVN_CLIENT not in network.published:
        return ()
    source = f"{network.namespace}/{network[OVN_CLIENT]}"
    stored = ctx.secrets.get(source, {})
    if missing := [file for file in _FILES.values() if file not in stored]:
        raise Transient(f"waiting for {', '.join(missing)} in Secret {source}")
    return (kube.secret(ctx, ctx.name("ovn-client"), {file: stored[file] for file in _FILES.values()}),)


def node_keys(node: str) -> tuple[str, str]:
    """Return the keys under which a Secret for nodes of another cluster has a node's key and certificate."""
    return f"node-{node}.key", f"node-{node}.crt"


def ovn_node_mounts() -> tuple[kube.Mount, ...]:
    """Return the files of a node's own certificate, for a program on that node."""
    return (node_folder(OVN_NODE_FILES, OVN_TLS),)


def ovn_mounts(network: ResolvedRef, *, on_node: bool = False) -> tuple[kube.Mount, ...]:
    """Return the files, which are read again with each connection; those of the node for a program `on_node`, if the
    node has its own.
    """
    if on_node and OVN_NODE_TLS in network.published:
        return ovn_node_mounts()
    secret = network.published.get(OVN_CLIENT)
    return (kube.folder("ovn-tls", secret, OVN_TLS),) if secret else ()


def ovn_options(network: ResolvedRef, *databases: str) -> Mapping[str, str]:
    """Return the options of a section [ovn] for each database, `nb` or `sb`; none if they use plain text."""
    if not {OVN_CLIENT, OVN_NODE_TLS} & network.published.keys():
        return {}
    return {f"ovn_{name}_{option}": f"{OVN_TLS}/{file}" for name in databases for option, file in _FILES.items()}


def ovn_defaults(network: ResolvedRef) -> Sections:
    """Return defaults of a client: it retries a database that does not answer after 4 s at most, instead of twice as
    long each time; and with several members, it leaves one whose node was lost after 10 s instead of a minute.
    """
    several = "," in network["southbound"]
    return {"ovn": {"ovsdb_retry_max_interval": 4, **({"ovsdb_probe_interval": 10000} if several else {})}}


def rebuilt_databases(network: ResolvedRef) -> Sequence[str]:
    """Return identities of the northbound and the southbound database; each is empty for the first database."""
    return [network.published.get(f"{name}Rebuilt", "") for name in ("northbound", "southbound")]
