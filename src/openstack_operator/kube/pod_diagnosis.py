"""The reason why the pods of a workload do not start: one pure answer from what Kubernetes says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from ..plan import Object, State, Verdict
from . import pod_admission, pod_containers, pod_endings, pod_scheduling
from .pod_causes import Cause, Warnings, explains_most
from .pod_facts import created_at, phase, predecessor
from .rollout import conditions

_NO_FIELDS: Mapping[str, str] = MappingProxyType({})
_MOST = 3
"""Causes shown of one workload."""


@dataclass(frozen=True)
class Diagnosis:
    """A verdict on a workload, and when time alone may change it."""

    verdict: Verdict
    changes_at: datetime | None = None


def diagnose(
    workload: Mapping[str, Any],
    verdict: Verdict,
    pods: Iterable[Object],
    warnings: Warnings,
    now: datetime,
    *,
    neighbours: Sequence[Object] = (),
    image_fields: Mapping[str, str] = _NO_FIELDS,
) -> Diagnosis:
    """Return the verdict on a workload that is not ready, with what Kubernetes says of its pods: which pod, on which
    node, why, and what to do. It is Failed once that has lasted. `neighbours` are pods, also of other workloads, of
    which some may still end on the node of one of its pods; `image_fields` has the fields of the spec that set an
    image, by image.
    """
    if verdict.state is not State.PROGRESSING:
        return Diagnosis(verdict)
    newest_first = sorted(sorted(pods, key=lambda pod: pod["metadata"]["name"]), key=created_at, reverse=True)
    causes = [
        *pod_admission.refusal_causes(workload, newest_first, warnings, now),
        *pod_containers.failed_try_causes(workload, newest_first),
    ]
    # Of pods that are over, older ones have been replaced already, and are kept to be looked at.
    current = [pod for pod in newest_first if pod is newest_first[0] or phase(pod) != "Failed"]
    cause_of = partial(_cause, workload, neighbours, warnings, now, image_fields)
    causes += [cause for pod in current if (cause := cause_of(pod))]
    visible = sorted((c for c in causes if c.shown_at is None or c.shown_at <= now), key=explains_most)
    stalled = [cause for cause in visible if (at := cause.stalled_at()) and at <= now]
    moments = [at for cause in causes for at in (cause.shown_at, cause.stalled_at()) if at and at > now]
    changes_at = min(moments, default=None)
    if not visible:
        return Diagnosis(_overdue(workload, verdict), changes_at)
    state = State.FAILED if stalled else State.PROGRESSING
    worst_first = stalled + [cause for cause in visible if cause not in stalled]
    text = "; ".join([verdict.message, *_sentences(worst_first)])
    return Diagnosis(Verdict(state, text, worst_first[0].reason), changes_at)


def _sentences(causes: Iterable[Cause]) -> list[str]:
    """Return a sentence for each different cause, naming its pods."""
    pods_by_text: dict[str, list[str]] = {}
    for cause in causes:
        pods_by_text.setdefault(cause.text, []).append(cause.pod)
    sentences = [f"{_subject(pods)}{text}" for text, pods in pods_by_text.items()]
    left_out = len(sentences) - _MOST
    return sentences[:_MOST] + ([f"and {left_out} other cause{'s' if left_out > 1 else ''}"] if left_out > 0 else [])


def _subject(pods: Sequence[str]) -> str:
    names = [name for name in pods if name]
    if not names:
        return ""
    return f"pod {names[0]} " if len(names) == 1 else f"{len(names)} pods, such as {names[0]}, "


def _overdue(workload: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """Return the verdict on a Deployment past its progress deadline without a known cause."""
    progress = conditions(workload).get("Progressing", {})
    if workload["kind"] == "Deployment" and progress.get("reason") == "ProgressDeadlineExceeded":
        return Verdict(State.FAILED, f"{verdict.message}; {progress.get('message', '')}", "ProgressDeadlineExceeded")
    return verdict


def _cause(
    workload: Mapping[str, Any],
    neighbours: Sequence[Object],
    warnings: Warnings,
    now: datetime,
    image_fields: Mapping[str, str],
    pod: Object,
) -> Cause | None:
    """Return why a pod is not ready, or not gone yet; None for one that is ready, or that only starts."""
    by_type = conditions(pod)
    if pod["metadata"].get("deletionTimestamp"):
        return pod_endings.ending_cause(workload, pod, now)
    if phase(pod) == "Succeeded":
        return None
    if by_type.get("Ready", {}).get("status") == "True":
        return None
    if former := predecessor(pod, neighbours):
        return pod_endings.ending_cause(workload, former, now)
    about = warnings("Pod", pod["metadata"]["name"], pod["metadata"].get("uid", ""))
    if phase(pod) == "Failed":
        return pod_scheduling.eviction_cause(workload, pod)
    return (
        pod_scheduling.scheduling_cause(pod, by_type, warnings)
        or pod_containers.container_cause(workload, pod, about, now, image_fields)
        or pod_scheduling.preparation_cause(pod, by_type, about)
        or pod_scheduling.silent_node_cause(pod, by_type)
        or pod_containers.probe_cause(pod, about)
    )
