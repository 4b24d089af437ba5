"""Certificate of a client of OVN's databases, if they are encrypted."""

from __future__ import annotations

from collections.abc import Mapping

from .. import kube
from ..plan import Referent

OVN_TLS = "/etc/ovn-tls"
"""Folder of a certificate, its key and its authorities, in a pod that serves or reads the databases."""
OVN_CLIENT = "clientSecret"
"""Key under which an OVNNetwork publishes the Secret of it."""
OVN_NODES = "nodes"
"""Key under which an OVNCluster publishes the labels of its nodes: label=value[,label=value]."""
_FILES = {"private_key": "tls.key", "certificate": "tls.crt", "ca_cert": "ca.crt"}


def ovn_mounts(network: Referent) -> tuple[kube.Mount, ...]:
    """The files, which are read again with each connection."""
    secret = network.published.get(OVN_CLIENT)
    return (kube.folder("ovn-tls", secret, OVN_TLS),) if secret else ()


def ovn_options(network: Referent, *databases: str) -> Mapping[str, str]:
    """Options of a section [ovn] for each database, `nb` or `sb`; none if they use plain text."""
    if OVN_CLIENT not in network.published:
        return {}
    return {f"ovn_{name}_{option}": f"{OVN_TLS}/{file}" for name in databases for option, file in _FILES.items()}
