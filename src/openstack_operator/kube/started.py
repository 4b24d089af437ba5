"""The version that a workload has come to: that of programs that started, not of an image that does not exist."""

from __future__ import annotations

from typing import Any

from ..plan import Context, Object, major
from .objects import VERSION
from .pod_templates import running_version
from .rollout import Rollout

_NO_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
"""Reasons of the kubelet for which a container waits."""


def lacks_image(pod: Object) -> bool:
    """Return True if a container of the pod waits for an image that cannot be had, and its program never started."""
    status: Object = pod.get("status") or {}
    main: list[Object] = status.get("containerStatuses") or []
    everything = [*(status.get("initContainerStatuses") or []), *main]
    reasons = {((each.get("state") or {}).get("waiting") or {}).get("reason") for each in everything}
    return bool(reasons & _NO_IMAGE) and not any(_has_started(each) for each in main if each["name"] == "main")


def started_version(ctx: Context[Any], live: Object | None) -> str:
    """Return the label of the version that a workload has come to: of its template, unless each pod of it lacks its
    image; then the latest of the other pods, empty if nothing is known of them. A pod that is away may have had any.
    """
    version = running_version(live)
    if live is None or not major(version):
        return version
    kind, name = live["kind"], live["metadata"]["name"]
    rollout = Rollout(live)
    pods = [pod for pod in ctx.pods if pod["metadata"]["name"].rpartition("-")[0] == name]
    started = [_label(pod) for pod in pods if not lacks_image(pod)]
    if any(major(each) in {(), major(version)} for each in started):
        return version
    without_image = ctx.without_image.count((kind, name, version))
    if len(pods) >= max(rollout.desired, 1) or (rollout.is_observed and without_image >= max(rollout.updated, 1)):
        return max(started, key=major, default="")
    return version


def _label(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(VERSION, ""))


def _has_started(container: Object) -> bool:
    state, last_state = container.get("state") or {}, container.get("lastState") or {}
    ended = "terminated" in state or "terminated" in last_state or container.get("restartCount", 0) > 0
    return ended or "running" in state
