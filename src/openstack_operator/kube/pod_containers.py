"""Containers that do not run or are not ready: images, configuration, crashes, memory and probes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..plan import Object
from . import own_images
from .log_lines import cause_line
from .pod_causes import (
    STALLED_AFTER,
    STALLED_SOON_AFTER,
    UNHEALTHY_STALLED_AFTER,
    USUAL_START,
    Cause,
    cause_of,
    explains_most,
    first_seen,
    last_seen,
    latest,
    with_reasons,
)
from .pod_facts import LONG_AGO, container_statuses, created_at, parse_time, phase, pod_on_node
from .pod_reasons import CONFIGURATION, CRASH_LOOP, IMAGE_PULL, OUT_OF_MEMORY, PROBE, START
from .pod_templates import fails_after
from .quotes import last_log, one_line

_RESET = timedelta(minutes=10)
"""A container that ran for that time ended for a new reason: the kubelet, too, restarts it without a delay."""

_PULL = {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed", "ImageInspectError"}
_NO_IMAGE = {"InvalidImageName", "ErrImageNeverPull"}
_CONFIG = {"CreateContainerConfigError"}
_CRASH = {"CrashLoopBackOff"}
_STARTING = {"ContainerCreating", "PodInitializing", ""}

_FAILED_PULL = "Failed to pull image"
"""The beginning of an Event that says why; another one, `Error: ErrImagePull`, only says that."""
_LOGIN = re.compile(
    r"\b401\b|\bunauthorized\b|no basic auth credentials|authorization failed|authentication required"
    r"|may require authorization|insufficient_scope|access denied",
    re.IGNORECASE,
)
"""Words of container runtimes for a registry that wants a login. Some registries use them, too, for an image that does
not exist, since they tell strangers nothing.
"""
_REPEATED = re.compile(
    r"^(?:rpc error: code = \w+ desc = |failed to pull and unpack image \S+ "
    r"|failed to resolve (?:reference|image) ?\S* |initializing source \S+ |reading manifest \S+ in \S+: )"
)
"""Beginnings of messages of containerd and CRI-O that only repeat what a condition says before."""
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(?:: \w+)?(?:: )?')


def container_cause(
    workload: Mapping[str, Any], pod: Object, about: Sequence[Object], now: datetime, image_fields: Mapping[str, str]
) -> Cause | None:
    """Return why a container does not run; of several containers, the reason that explains most. `image_fields` has,
    for each image, the fields of the spec that set it.
    """
    causes = [_container_cause(workload, pod, each, about, now, image_fields) for each in container_statuses(pod)]
    return min((cause for cause in causes if cause), key=explains_most, default=None)


def _container_cause(
    workload: Mapping[str, Any],
    pod: Object,
    container: Mapping[str, Any],
    about: Sequence[Object],
    now: datetime,
    image_fields: Mapping[str, str],
) -> Cause | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message, name = waiting.get("reason", ""), waiting.get("message", ""), container["name"]
    if reason in _PULL | _NO_IMAGE:
        return _image(workload, pod, container, about, image_fields)
    if reason in _CONFIG:
        text = f"cannot start container {name}: {one_line(message)}; create the missing object, or change the reference"
        return cause_of(pod, CONFIGURATION, text, STALLED_SOON_AFTER)
    ended = (container.get("lastState") or {}).get("terminated") or {}
    if ended and not container.get("ready") and _loops(container, reason, ended, now):
        return _crash(workload, pod, container, ended, about)
    if reason and reason not in _STARTING | _CRASH:
        return cause_of(pod, START, f"cannot start container {name}: {reason}: {one_line(message)}", STALLED_AFTER)
    return None


def _loops(container: Mapping[str, Any], reason: str, ended: Mapping[str, Any], now: datetime) -> bool:
    """Return True if a container ends again and again, or was ended for its memory. A single end does not count, nor do
    ends before a long run; how long it waited for its restart does not matter.
    """
    if reason:
        return reason in _CRASH
    repeats = container.get("restartCount", 0) > 1 or ended.get("reason") == "OOMKilled"
    running_state = (container.get("state") or {}).get("running") or {}
    return repeats and now - parse_time(running_state.get("startedAt") or ended.get("finishedAt"), now) < _RESET


def _image(
    workload: Mapping[str, Any],
    pod: Object,
    container: Mapping[str, Any],
    about: Sequence[Object],
    image_fields: Mapping[str, str],
) -> Cause:
    waiting = container["state"]["waiting"]
    said = _BACK_OFF.sub("", waiting.get("message", ""))
    pulls = (event for event in with_reasons(about, {"Failed"}) if event["message"].startswith(_FAILED_PULL))
    if not said and (event := latest(pulls)):
        # Older kubelets say in the status only that they will try again.
        said = event["message"].partition(": ")[2]
    image = container.get("image", "")
    fields = image_fields.get(image, "")
    stalls = timedelta(0) if waiting["reason"] in _NO_IMAGE or own_images.is_unbuilt(image) else STALLED_AFTER
    if own_images.is_own(image):
        # What the runtime says of a registry called localhost helps nobody.
        text = f"cannot start container {container['name']}: its node lacks the image {image} and no registry has it"
        correction = f"{fields}: {own_images.CORRECT}" if fields else ""
        return cause_of(pod, IMAGE_PULL, f"{text}; {correction}{own_images.advice(image)}", stalls)
    text = f"cannot pull the image {image} of container {container['name']}: {one_line(_plainly(said, image))}"
    return cause_of(pod, IMAGE_PULL, f"{text}; {_pull_advice(workload, said, fields)}", stalls)


def _plainly(said: str, image: str) -> str:
    """Return the words of a container runtime without what it says several times: that the image cannot be pulled, and
    which one.
    """
    before = None
    while before != said:
        before, said = said, _REPEATED.sub("", said)
    subject, _, rest = said.partition(" ")
    return rest if subject.endswith(":") and image.partition("@")[0] in subject.removesuffix(":") else said


def _pull_advice(workload: Mapping[str, Any], said: str, fields: str) -> str:
    correction = f"{fields}: {own_images.CORRECT}" if fields else "correct the image, or "
    if not _LOGIN.search(said):
        return f"{correction}let the node reach its registry"
    account = _pod_spec(workload).get("serviceAccountName") or "default"
    return (
        f"{correction}log in to its registry: create a Secret of type kubernetes.io/dockerconfigjson in this"
        f" namespace, name it in imagePullSecrets of the ServiceAccount {account}, and delete the pod"
    )


def _crash(
    workload: Mapping[str, Any],
    pod: Object,
    container: Mapping[str, Any],
    ended: Mapping[str, Any],
    about: Sequence[Object],
) -> Cause:
    """Return the cause of a container that ends again and again, or that was ended for its memory or a failed probe."""
    name = container["name"]
    if ended.get("reason") == "OOMKilled":
        limit = _memory_limit(workload, name)
        text = f"container {name} was killed out of memory at its limit{limit}; raise the limit"
        return cause_of(pod, OUT_OF_MEMORY, text, STALLED_AFTER)
    if probe := _fatal_probe(workload, name, ended, about):
        text = f"cannot keep container {name} running: Kubernetes ends it, since its {_answer(probe['message'])}"
        return cause_of(pod, PROBE, text, STALLED_AFTER)
    text = f"cannot keep container {name} running: {_ending(ended, len(container_statuses(pod)))}"
    if not ended.get("exitCode") and not ended.get("message"):
        # The kubelet quotes the log of a failure alone.
        text += "; read its log with kubectl logs --previous"
    return cause_of(pod, CRASH_LOOP, text, STALLED_AFTER)


def _fatal_probe(
    workload: Mapping[str, Any], name: str, ended: Mapping[str, Any], about: Sequence[Object]
) -> Object | None:
    """Return the Event of the probe for which Kubernetes ended a container; None if it ended by itself. A program that
    crashes while it starts answers no probe either, but it does not live until Kubernetes would end it.
    """
    started_at, finished_at = (parse_time(ended.get(key), LONG_AGO) for key in ("startedAt", "finishedAt"))
    return latest(
        event
        for event in with_reasons(about, {"Unhealthy"})
        for probe in ("Liveness", "Startup")
        if event["message"].startswith(probe)
        and first_seen(event) <= finished_at
        and last_seen(event) >= started_at
        and finished_at - started_at >= _patience(workload, name, f"{probe.lower()}Probe")
    )


def _patience(workload: Mapping[str, Any], name: str, probe: str) -> timedelta:
    """Return the shortest time after which Kubernetes ends a container of the workload for this probe."""
    probes = [container.get(probe) for container in _containers(workload) if container["name"] == name]
    return timedelta(seconds=fails_after((probes[0] if probes else None) or {}))


def _ending(ended: Mapping[str, Any], containers: int) -> str:
    """Describe how a container ended, with the line of its log that says why. The pod has so many `containers`."""
    log = last_log(ended.get("message") or "", containers)
    how = f"exit code {ended.get('exitCode', 0)}"
    if (reason := ended.get("reason") or "Error") not in {"Error", "Completed"}:
        how = f"{reason}, {how}"
    if not log:
        return how
    said = cause_line(log)
    return f"{how}; its log {'ends' if log.endswith(said) else 'says'}: {one_line(said)}"


def _pod_spec(workload: Mapping[str, Any]) -> Object:
    return workload.get("spec", {}).get("template", {}).get("spec", {})


def _containers(workload: Mapping[str, Any]) -> list[Object]:
    spec = _pod_spec(workload)
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _memory_limit(workload: Mapping[str, Any], name: str) -> str:
    for container in _containers(workload):
        if container["name"] == name:
            limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
            return f" of {limit}" if limit else ""
    return ""


def failed_try_causes(workload: Mapping[str, Any], pods: Sequence[Object]) -> Iterable[Cause]:
    """Yield how a Job's last try ended. The Job itself says what follows from it."""
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


def probe_cause(pod: Object, about: Sequence[Object]) -> Cause | None:
    """Return the cause of a container that runs, but has failed its probes for longer than a start takes."""
    for container in container_statuses(pod):
        running_state = (container.get("state") or {}).get("running") or {}
        if not running_state or container.get("ready"):
            continue
        started = parse_time(running_state.get("startedAt"), created_at(pod))
        if event := latest(event for event in with_reasons(about, {"Unhealthy"}) if last_seen(event) >= started):
            text = f"cannot get ready: container {container['name']} runs, but its {_answer(event['message'])}"
            return cause_of(pod, PROBE, text, UNHEALTHY_STALLED_AFTER, started + USUAL_START)
    return None


def _answer(message: str) -> str:
    """Return an Event's message, as `Readiness probe failed: HTTP 503`, as part of a sentence."""
    probe, _, said = message.partition(":")
    return f"{probe[:1].lower()}{probe[1:]}: {one_line(said)}" if said.strip() else one_line(message)
