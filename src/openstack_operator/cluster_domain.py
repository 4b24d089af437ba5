"""Facts of the Kubernetes cluster this runs in: its DNS domain, and the family of its addresses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

USUAL = "cluster.local"
RESOLV_CONF = Path("/etc/resolv.conf")
_SERVICES = "svc."


def cluster_domain(path: Path = RESOLV_CONF) -> str:
    """Return the cluster's domain: that of the search domain `svc.<domain>`, which the kubelet gives pods; the usual
    one if there is none, as outside a cluster.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return USUAL
    # The last line counts, as in resolv.conf(5).
    searched = [line.split()[1:] for line in lines if line.split()[:1] == ["search"]]
    names = [name.rstrip(".") for name in (searched[-1] if searched else ())]
    return next((name.removeprefix(_SERVICES) for name in names if name.startswith(_SERVICES)), USUAL)


def is_ipv6(environment: Mapping[str, str]) -> bool:
    """Return True if the first family of the cluster is IPv6, as the kubelet tells it to pods: the address of the API
    server's Service is of the same family as the first address of each pod. False outside of a cluster.
    """
    return ":" in environment.get("KUBERNETES_SERVICE_HOST", "")
