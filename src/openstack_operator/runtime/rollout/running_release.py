"""The release that runs completely in a resource, by its status, or by what runs."""

from __future__ import annotations

from collections.abc import Iterable

from ...kube import judge
from ...plan import RELEASE_ANNOTATION, Object
from ...plan.release import place
from ...plan.steps import WORKLOADS
from ..cache.entries import Cached
from ..kubernetes.kinds import Kind


def running_release(owner: Cached, children: Iterable[tuple[Kind, Cached]]) -> str:
    """Return the release that last ran completely; empty for a new resource.

    A resource that was deleted and applied again, as from a backup, has no status. Then it is the earliest release of
    what runs, if all of that is ready: a change of the release is still an upgrade.
    """
    if release := (owner.decode().get("status") or {}).get("release"):
        return str(release)
    everything = [child.decode() for _, child in children]
    lives = [live for live in everything if _release(live)]
    if any((live.get("spec") or {}).get("release") and not _release(live) for live in everything):
        # A service that never was complete belongs to a cloud that never was.
        return ""
    if not lives or not all(judge(live).ready for live in lives):
        return ""
    return min(map(_release, lives), key=lambda release: place(release) or 0)


def _release(live: Object) -> str:
    """Return the release that a workload was planned for, or that runs completely in a resource of a cloud."""
    if live["kind"] in WORKLOADS:
        return str((live["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION, ""))
    return str((live.get("status") or {}).get("release", "")) if (live.get("spec") or {}).get("release") else ""
