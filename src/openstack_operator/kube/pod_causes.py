"""The reason why the pods of a workload do not start: one pure answer from what Kubernetes says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..plan import Object, State, Verdict
from .pod_facts import (
    claim_names,
    container_statuses,
    created_at,
    parse_time,
    phase,
    pod_on_node,
    unready_since,
)
from .pod_reasons import (
    CONFIGURATION,
    CRASH_LOOP,
    EVICTED,
    IMAGE_PULL,
    NODE,
    OUT_OF_MEMORY,
    PROBE,
    REFUSED,
    SANDBOX,
    START,
    UNBOUND,
    UNMOUNTED,
    UNSCHEDULABLE,
)
from .quotes import last_log, one_line
from .readiness import conditions

STALLED_AFTER = timedelta(minutes=5)
"""Patience with a cause that may heal by itself (a registry that is away, a node that comes back). Helm and
Flux wait five minutes, too, and a rollout that takes longer holds nobody up."""
UNHEALTHY_STALLED_AFTER = timedelta(minutes=10)
"""The same for pods that run and are not ready: a startup probe is asked for ten minutes."""
STALLED_SOON_AFTER = timedelta(minutes=1)
"""The same for what only a change heals, a Secret, a quota or a StorageClass, where that may be on its way."""
USUAL_START = timedelta(seconds=30)
"""Patience with a probe that fails after the start of a container, until a condition says so."""
_SETTLE = timedelta(seconds=2)
"""Patience with what Kubernetes often refuses once and takes at its next try, until a condition says so."""
_STALE = timedelta(minutes=20)
"""A controller that is refused pods tries again after 16 minutes at most; an older refusal is old news."""
_RESET = timedelta(minutes=10)
"""A container that ran for so long ended for a reason of its own: the kubelet starts it at once, too."""
_MOST = 3
"""Causes shown of one workload."""

Warnings = Callable[[str, str, str], Sequence[Object]]
"""Warning Events about an object (kind, name, uid), each with `reason`, `message`, `first` and `last`."""

_PULL = {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed", "ImageInspectError"}
_NO_IMAGE = {"InvalidImageName", "ErrImageNeverPull"}
_CONFIG = {"CreateContainerConfigError"}
_CRASH = {"CrashLoopBackOff"}
_STARTING = {"ContainerCreating", "PodInitializing", ""}
_MOUNT = {"FailedMount", "FailedAttachVolume", "FailedMapVolume"}
_PROVISION = {"ProvisioningFailed", "FailedBinding"}

_FAILED_PULL = "Failed to pull image"
"""The beginning of an Event that says why; another one, `Error: ErrImagePull`, only says that."""
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(?:: \w+)?(?:: )?')


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A reason for which one pod, or pods that are not made, cannot be ready."""

    reason: str
    text: str
    """The sentence after the name of the pod."""
    since: datetime
    stalls: timedelta | None = STALLED_AFTER
    """For how long it may heal by itself; None for ever."""
    shown_at: datetime | None = None
    """From then on it is worth a word; None is at once."""
    pod: str = ""
    """Name and node of the pod; empty for pods that were not made."""

    def stalled_at(self) -> datetime | None:
        """The moment from which on it counts as what does not get better by itself; None for never."""
        return None if self.stalls is None else self.since + self.stalls


@dataclass(frozen=True)
class Diagnosis:
    """A verdict on a workload, and when time alone may change it."""

    verdict: Verdict
    changes_at: datetime | None = None


def diagnose(
    workload: Mapping[str, Any], verdict: Verdict, pods: Iterable[Object], warnings: Warnings, now: datetime
) -> Diagnosis:
    """The verdict on a workload that is not ready, with what Kubernetes says of its pods: which pod, on which node,
    why, and what to do. Failed once that has lasted.
    """
    if verdict.state is not State.PROGRESSING:
        return Diagnosis(verdict)
    newest_first = sorted(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), reverse=True)
    causes = [*_refusals(workload, newest_first, warnings, now), *_tries(workload, newest_first)]
    # Of pods that are over, older ones have been replaced already, and are kept to be looked at.
    current = [pod for pod in newest_first if pod is newest_first[0] or phase(pod) != "Failed"]
    causes += [cause for pod in current if (cause := _cause(workload, pod, warnings, now))]
    visible = [cause for cause in causes if cause.shown_at is None or cause.shown_at <= now]
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
    """One for each different cause, naming its pods."""
    pods_by_text: dict[str, list[str]] = {}
    for cause in causes:
        pods_by_text.setdefault(cause.text, []).append(cause.pod)
    sentences = [f"{_subject(pods)}{text}" for text, pods in pods_by_text.items()]
    left_out = len(sentences) - _MOST
    return sentences[:_MOST] + ([f"and {left_out} other causes"] if left_out > 0 else [])


def _subject(pods: Sequence[str]) -> str:
    names = [name for name in pods if name]
    if not names:
        return ""
    return f"pod {names[0]} " if len(names) == 1 else f"{len(names)} pods, such as {names[0]}, "


def _overdue(workload: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """Of a Deployment that Kubernetes gave up, for a reason nobody knows."""
    progress = conditions(workload).get("Progressing", {})
    if workload["kind"] == "Deployment" and progress.get("reason") == "ProgressDeadlineExceeded":
        return Verdict(State.FAILED, f"{verdict.message}; {progress.get('message', '')}", "ProgressDeadlineExceeded")
    return verdict


def _refusals(
    workload: Mapping[str, Any], pods: Sequence[Object], warnings: Warnings, now: datetime
) -> Iterable[Cause]:
    """Pods the controller of a workload could not make: a quota, a policy or a webhook refuses them."""
    kind, meta, status = workload["kind"], workload["metadata"], workload.get("status") or {}
    if kind == "Deployment":
        refused = conditions(workload).get("ReplicaFailure", {})
        if refused.get("status") == "True":
            yield _refused(refused.get("message", ""), parse_time(refused.get("lastTransitionTime"), now))
        return
    desired, actual = {
        "StatefulSet": (workload.get("spec", {}).get("replicas", 1), status.get("replicas", 0)),
        "DaemonSet": (status.get("desiredNumberScheduled", 0), status.get("currentNumberScheduled", 0)),
        "Job": (1, len(pods)),
    }.get(kind, (0, 0))
    if actual >= desired:
        return
    events = [event for event in warnings(kind, meta["name"], meta.get("uid", "")) if event["reason"] == "FailedCreate"]
    if not (last := _latest(events)):
        return
    refused_at = parse_time(last["last"], now)
    # What was taken later shows that the quota or the policy is another one by now; the rest follows in its turn.
    if now - refused_at < _STALE and not any(created_at(pod) > refused_at for pod in pods):
        yield _refused(last["message"], parse_time(last["first"], now))


def _refused(message: str, since: datetime) -> Cause:
    said = one_line(message.partition("failed error: ")[2] or message.removeprefix("Error creating: "))
    text = f"Kubernetes refuses its pods: {said}; change the quota or the policy that is named, or what the pods ask"
    return Cause(reason=REFUSED, text=text, since=since, stalls=STALLED_SOON_AFTER, shown_at=since + _SETTLE)


def _tries(workload: Mapping[str, Any], pods: Sequence[Object]) -> Iterable[Cause]:
    """The end of a Job's last try; what comes of it the Job itself says."""
    if workload["kind"] != "Job" or (workload.get("status") or {}).get("failed", 0) < 1:
        return
    for pod in pods:
        for container in container_statuses(pod):
            ended = (container.get("state") or {}).get("terminated") or {}
            if phase(pod) == "Failed" and ended.get("exitCode"):
                since = parse_time(ended.get("finishedAt"), created_at(pod))
                reason = OUT_OF_MEMORY if ended.get("reason") == "OOMKilled" else CRASH_LOOP
                text = f"ended: {_ending(ended, len(container_statuses(pod)))}"
                yield Cause(reason=reason, text=text, since=since, stalls=None, pod=pod_on_node(pod))
                return


def _cause(workload: Mapping[str, Any], pod: Object, warnings: Warnings, now: datetime) -> Cause | None:
    """Why a pod is not ready, None for one that is, that ends, or that only starts."""
    by_type = conditions(pod)
    if pod["metadata"].get("deletionTimestamp") or phase(pod) == "Succeeded":
        return None
    if by_type.get("Ready", {}).get("status") == "True":
        return None
    about = warnings("Pod", pod["metadata"]["name"], pod["metadata"].get("uid", ""))
    if phase(pod) == "Failed":
        return _ended(workload, pod)
    return (
        _not_scheduled(pod, by_type, warnings)
        or _container_cause(workload, pod, about, now)
        or _not_prepared(pod, by_type, about)
        or _lost(pod, by_type)
        or _unhealthy(pod, about)
    )


def _ended(workload: Mapping[str, Any], pod: Object) -> Cause | None:
    """A pod that is over, which another one takes the place of; a Job counts those itself."""
    status = pod["status"]
    if workload["kind"] == "Job" or not status.get("reason"):
        return None
    text = f"had to end ({status['reason']}): {one_line(status.get('message', ''))}"
    return Cause(reason=EVICTED, text=text, since=created_at(pod), stalls=None, pod=pod_on_node(pod))


def _not_scheduled(pod: Object, by_type: Mapping[str, Object], warnings: Warnings) -> Cause | None:
    scheduled = by_type.get("PodScheduled", {})
    if scheduled.get("status") != "False":
        return None
    since = parse_time(scheduled.get("lastTransitionTime"), created_at(pod))
    said = one_line(scheduled.get("message", ""))
    # An Event about a claim may be an hour old; what the scheduler says of nodes alone is not for a lack of volumes.
    of_volumes = any(word in said.lower() for word in ("volume", "storageclass"))
    claims = [name for name in claim_names(pod) if name and (of_volumes or "nodes are available" not in said)]
    troubles = [(name, _latest(_of(warnings("PersistentVolumeClaim", name, ""), _PROVISION))) for name in claims]
    for name, event in troubles:
        if event:
            text = f"cannot have a volume: claim {name} is not bound: {one_line(event['message'])}"
            hint = "; create that StorageClass, or name another" if "storageclass" in event["message"].lower() else ""
            stalls = STALLED_SOON_AFTER if hint else STALLED_AFTER
            return Cause(reason=UNBOUND, text=text + hint, since=since, stalls=stalls, pod=pod_on_node(pod))
    if "persistentvolumeclaim" in said.lower() or "storageclass" in said.lower():
        text = f"cannot have a volume: {said}; look at claim {', '.join(claims) or 'of the pod'} and its StorageClass"
        return Cause(reason=UNBOUND, text=text, since=since, shown_at=since + _SETTLE, pod=pod_on_node(pod))
    text = f"cannot be scheduled: {said or scheduled.get('reason', '')}"
    return Cause(reason=UNSCHEDULABLE, text=text, since=since, pod=pod_on_node(pod))


def _container_cause(workload: Mapping[str, Any], pod: Object, about: Sequence[Object], now: datetime) -> Cause | None:
    """The reason for which a container does not run."""
    for container in container_statuses(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message, name = waiting.get("reason", ""), waiting.get("message", ""), container["name"]
        if reason in _PULL | _NO_IMAGE:
            return _image(pod, container, reason, message, about)
        if reason in _CONFIG:
            text = (
                f"cannot start container {name}: {one_line(message)}; create what is missing, or change the reference"
            )
            return _of_pod(pod, CONFIGURATION, text, STALLED_SOON_AFTER)
        ended = (container.get("lastState") or {}).get("terminated") or {}
        if ended and not container.get("ready") and _loops(container, reason, ended, now):
            return _crash(workload, pod, container, ended, about)
        if reason and reason not in _STARTING | _CRASH:
            return _of_pod(pod, START, f"cannot start container {name}: {reason}: {one_line(message)}", STALLED_AFTER)
    return None


def _loops(container: Mapping[str, Any], reason: str, ended: Mapping[str, Any], now: datetime) -> bool:
    """Whether a container ends again and again, or was ended for its memory. One that ended once may do so."""
    if reason:
        return reason in _CRASH
    repeats = container.get("restartCount", 0) > 1 or ended.get("reason") == "OOMKilled"
    return repeats and now - parse_time(ended.get("finishedAt"), now) < _RESET


def _image(pod: Object, container: Mapping[str, Any], reason: str, message: str, about: Sequence[Object]) -> Cause:
    said = _BACK_OFF.sub("", message)
    pulls = (event for event in _of(about, {"Failed"}) if event["message"].startswith(_FAILED_PULL))
    if not said and (event := _latest(pulls)):
        # Older kubelets say in the status only that they will try again.
        said = event["message"].partition(": ")[2]
    text = f"cannot pull the image {container.get('image', '')} of container {container['name']}: {one_line(said)}"
    stalls = timedelta(0) if reason in _NO_IMAGE else STALLED_AFTER
    return _of_pod(pod, IMAGE_PULL, f"{text}; correct the image, or let the node reach its registry", stalls)


def _crash(
    workload: Mapping[str, Any],
    pod: Object,
    container: Mapping[str, Any],
    ended: Mapping[str, Any],
    about: Sequence[Object],
) -> Cause:
    """A container that ends again and again, or was ended for what it took or did not answer."""
    name = container["name"]
    if ended.get("reason") == "OOMKilled":
        limit = _memory_limit(workload, name)
        text = f"cannot keep container {name} running: it needs more memory than its limit{limit}; raise the limit"
        return _of_pod(pod, OUT_OF_MEMORY, text, STALLED_AFTER)
    probes = [event for event in _of(about, {"Unhealthy"}) if event["message"].startswith(("Liveness", "Startup"))]
    probe = _latest(event for event in probes if ended.get("startedAt", "") <= event["last"])
    if probe and ended.get("finishedAt", "") >= probe["first"]:
        text = f"cannot keep container {name} running: Kubernetes ends it, since its {_answer(probe['message'])}"
        return _of_pod(pod, PROBE, text, STALLED_AFTER)
    text = f"cannot keep container {name} running: {_ending(ended, len(container_statuses(pod)))}"
    return _of_pod(pod, CRASH_LOOP, text, STALLED_AFTER)


def _ending(ended: Mapping[str, Any], containers: int) -> str:
    """The way a container ended, of a pod with so many, with the last line it logged."""
    lines = last_log(ended.get("message") or "", containers).splitlines()
    how = f"exit code {ended.get('exitCode', 0)}"
    if (reason := ended.get("reason") or "Error") not in {"Error", "Completed"}:
        how = f"{reason}, {how}"
    return f"{how}; its log ends: {one_line(lines[-1])}" if lines else how


def _memory_limit(workload: Mapping[str, Any], name: str) -> str:
    spec = workload.get("spec", {}).get("template", {}).get("spec", {})
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        if container["name"] == name:
            limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
            return f" of {limit}" if limit else ""
    return ""


def _not_prepared(pod: Object, by_type: Mapping[str, Object], about: Sequence[Object]) -> Cause | None:
    """The thing a pod on its node lacks before any container can start."""
    if by_type.get("PodReadyToStartContainers", {}).get("status") == "True":
        return None
    if any((container.get("state") or {}).get("running") for container in container_statuses(pod)):
        return None
    if event := _latest(_of(about, _MOUNT)):
        shown_at = parse_time(event["first"], created_at(pod)) + _SETTLE
        text = f"cannot mount a volume: {one_line(event['message'])}"
        return _of_pod(pod, UNMOUNTED, text, STALLED_AFTER, shown_at)
    if event := _latest(_of(about, {"FailedCreatePodSandBox", "NetworkNotReady"})):
        shown_at = parse_time(event["first"], created_at(pod)) + USUAL_START / 3
        text = f"cannot have its network or sandbox on the node: {one_line(event['message'])}"
        return _of_pod(pod, SANDBOX, text, STALLED_AFTER, shown_at)
    return None


def _lost(pod: Object, by_type: Mapping[str, Object]) -> Cause | None:
    """Kubernetes calls pods unready whose node is silent; what their containers were last heard of stays."""
    gates = (pod.get("spec") or {}).get("readinessGates")
    ready, containers = by_type.get("Ready", {}), by_type.get("ContainersReady", {})
    if gates or ready.get("status") != "False" or containers.get("status") != "True":
        return None
    since = unready_since(pod)
    text = "cannot be reached: the node is silent; bring it back, or remove it with `kubectl delete node`"
    return Cause(reason=NODE, text=text, since=since, stalls=None, shown_at=since + _SETTLE, pod=pod_on_node(pod))


def _unhealthy(pod: Object, about: Sequence[Object]) -> Cause | None:
    """A container that runs and does not answer its probes as it should, for longer than a start takes."""
    for container in container_statuses(pod):
        running = (container.get("state") or {}).get("running") or {}
        if not running or container.get("ready"):
            continue
        began = running.get("startedAt", "")
        if event := _latest(event for event in _of(about, {"Unhealthy"}) if event["last"] >= began):
            started = parse_time(began, created_at(pod))
            text = f"cannot get ready: container {container['name']} runs, but its {_answer(event['message'])}"
            return _of_pod(pod, PROBE, text, UNHEALTHY_STALLED_AFTER, started + USUAL_START)
    return None


def _answer(message: str) -> str:
    """`Readiness probe failed: HTTP 503` as part of a sentence."""
    probe, _, said = message.partition(":")
    return f"{probe[:1].lower()}{probe[1:]}: {one_line(said)}" if said.strip() else one_line(message)


def _of_pod(pod: Object, reason: str, text: str, stalls: timedelta, shown_at: datetime | None = None) -> Cause:
    since, name = unready_since(pod), pod_on_node(pod)
    return Cause(reason=reason, text=text, since=since, stalls=stalls, shown_at=shown_at, pod=name)


def _of(events: Iterable[Object], reasons: set[str]) -> list[Object]:
    return [event for event in events if event["reason"] in reasons]


def _latest(events: Iterable[Object]) -> Object | None:
    return max(events, key=lambda event: event["last"], default=None)
