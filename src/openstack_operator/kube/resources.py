"""Requests and limits of a container."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..api import PodSettings
from ..api.units import amount
from ..plan import Object

_MEBI = 2**20

EPHEMERAL_STORAGE = "ephemeral-storage"
_LOGS = "64Mi"
"""Kubelet keeps five files of 10 MiB of a container's log; besides these most programs write some kilobytes."""
_LITTLE, _LARGE = "2Gi", "100Gi"
"""Limits of what a program writes to the disk of its node: logs and locks, or images that it unpacks and tables it
sorts."""
_SIZE = re.compile(r"(\d+)([kKMGT]?)(?:i?B)?")


def memory_limit(measured: str) -> str:
    """Return the memory limit of a container whose program was measured to use so much.

    The limit stops a leak or an attack before they take the node; load must not reach it. A program that starts more
    processes as it has more to do takes several times of what it takes at rest. One whose memory is set by its user
    (a cache, an OSD) keeps to it, but for what it needs besides.
    """
    bytes_ = amount(measured)
    limit = max(2048 * _MEBI, min(16 * bytes_, bytes_ + 4096 * _MEBI))
    return f"{int(limit) // _MEBI}Mi"


def peak(size: Any, factor: float) -> str:
    """Return the memory of a program that takes a multiple of a size in its configuration (`128M`, `2GiB`); empty if
    that is not a size: nothing is set, or a share of all memory.
    """
    match = _SIZE.fullmatch(str(size))
    return f"{int(int(match[1]) * 1024 ** ' KMGT'.index(match[2].upper() or ' ') * factor)}" if match else ""


def storage_limit(sizes: Iterable[str], *, large: bool) -> str:
    """Return how much a container may write to the disk of its node: folders of these sizes, and all else."""
    mebibytes = int(sum(map(amount, [*sizes, _LARGE if large else _LITTLE]))) // _MEBI
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"


def requested(settings: PodSettings, *, cpu: str, memory: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return requests and limits as the user wrote them, the requests completed by what was measured."""
    user_resources = settings.resources.model_dump(exclude_defaults=True) if settings.resources else {}
    limits: dict[str, str] = user_resources.get("limits", {})
    # Kubernetes refuses a request above its limit; what the user says of the limit holds for what we only guess.
    measured = {"cpu": cpu, "memory": memory}
    guessed = {name: min(value, limits.get(name, value), key=amount) for name, value in measured.items()}
    return guessed | user_resources.get("requests", {}), limits


def resources(settings: PodSettings, *, cpu: str, memory: str, peak: str, storage: str) -> Object:
    """Return the `resources` of a container: what the user sets, and for the rest what was measured. `peak` is the
    memory that the configuration allows the program, empty if it sets none; `storage` is what it may write to the
    node's disk.

    No container has a limit of CPU unless its user sets one: unused CPU is free, and a program that waits for its next
    share answers late.
    """
    requests, limits = requested(settings, cpu=cpu, memory=memory)
    expected = max(requests["memory"], memory, peak or memory, key=amount)
    return {
        "requests": {**requests, EPHEMERAL_STORAGE: _LOGS},
        "limits": {"memory": memory_limit(expected), EPHEMERAL_STORAGE: storage, **limits},
    }
