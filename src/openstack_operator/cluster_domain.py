"""The DNS domain of the Kubernetes cluster this runs in."""

from __future__ import annotations

from pathlib import Path

USUAL = "cluster.local"
RESOLV_CONF = Path("/etc/resolv.conf")
_SERVICES = "svc."


def cluster_domain(path: Path = RESOLV_CONF) -> str:
    """The domain as the kubelet tells it to pods: that of the entry `svc.<domain>` which they search names in; the
    usual one where there is none, as outside of a cluster.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return USUAL
    # The last line counts, as in resolv.conf(5).
    searched = [line.split()[1:] for line in lines if line.split()[:1] == ["search"]]
    names = [name.rstrip(".") for name in (searched[-1] if searched else ())]
    return next((name.removeprefix(_SERVICES) for name in names if name.startswith(_SERVICES)), USUAL)
