"""Reasons of conditions that say why pods do not start."""

from __future__ import annotations

IMAGE_PULL, UNSCHEDULABLE, CONFIGURATION = "ImagePullFailed", "Unschedulable", "ContainerConfigError"
START, CRASH_LOOP, OUT_OF_MEMORY = "ContainerStartFailed", "CrashLoop", "OutOfMemory"
UNBOUND, UNMOUNTED, PROBE = "VolumeNotBound", "VolumeNotMounted", "ProbeFailed"
REFUSED, SANDBOX, NODE, EVICTED = "PodsRefused", "SandboxFailed", "NodeLost", "Evicted"
POD_REASONS = frozenset(
    {IMAGE_PULL, UNSCHEDULABLE, CONFIGURATION, START, CRASH_LOOP, OUT_OF_MEMORY, UNBOUND, UNMOUNTED, PROBE}
    | {REFUSED, SANDBOX, NODE, EVICTED}
)
"""Reasons of a workload whose pods do not start."""
