"""Is a live object doing its work? One pure rule a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ..api import Dependency, handle
from ..api.units import amount
from ..plan import (
    COMPLETE,
    HELD_REASONS,
    PAUSED,
    PROGRESSING,
    READY,
    RECOVERY,
    Object,
    State,
    Verdict,
    failed,
    pause_reason,
    progressing,
    waiting,
)
from ..plan.times import valid_time
from .objects import as_owner_says, is_dispensable
from .pod_reasons import POD_REASONS
from .quotes import one_line
from .rollout import Rollout, conditions, is_observed

LAST_FAILURE = "openstack.k8s.io/last-failure"
"""Annotation of a Job that is tried again: how the last try ended."""
RETRY_PAUSE = timedelta(minutes=5)
"""Between a Job's failure and its next try; a try is seven pods over ten minutes, so that this need not grow."""

_RESIZES = ("ControllerResizeError", "NodeResizeError", "FileSystemResizePending")
"""Conditions of a volume claim that tell why its volume does not grow, in words of its driver."""

Rule = Callable[[Object], Verdict]


def _name(live: Object) -> str:
    return live["metadata"]["name"]


def _rollout(live: Object) -> Verdict:
    """Return READY once every pod of the newest template is ready, and none of an older one is left. One whose pods are
    all ready, and that the operator replaces, waits for the step that does so.
    """
    rollout = Rollout(live)
    if rollout.is_complete:
        return READY
    text = rollout.progress() if rollout.is_observed else "its controller has not processed it yet"
    if rollout.waits_for_operator:
        return waiting(f"{_name(live)}: {text}")
    return Verdict(State.READY if is_dispensable(live) else State.PROGRESSING, f"{_name(live)}: {text}")


def failure(live: Object) -> str:
    """Describe how a failed Job ended, with the end of its log where the engine has put that into `status.log`; empty
    for any other.
    """
    condition = conditions(live).get("Failed", {})
    if condition.get("status") != "True":
        return ""
    log = live["status"].get("log", "").strip()
    return f"; its log ends: {log}" if log else f": {condition.get('message', '')}"


def has_succeeded(live: Object) -> bool:
    """Return True if a Job is complete."""
    return conditions(live).get("Complete", {}).get("status") == "True"


def next_try(live: Object) -> datetime | None:
    """Return the time at which a failed Job is to be created again; None for any other."""
    condition = conditions(live).get("Failed", {})
    failed_at = condition.get("lastTransitionTime") if condition.get("status") == "True" else None
    since = valid_time(failed_at)
    return since + RETRY_PAUSE if since else None


def job_succeeded(job: Object, pods: Iterable[Object]) -> bool:
    """Return True if one of the Job's pods has done its work: all its containers ended well.

    Kubernetes says so of the Job two seconds later: the kubelet ends the pod first, and the controller of Jobs counts
    pods once a second.
    """
    uid = job["metadata"]["uid"]
    pods_of_job = [
        pod for pod in pods if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences") or ())
    ]
    return any(_ended_well(pod.get("status") or {}) for pod in pods_of_job)


def _ended_well(status: Mapping[str, Any]) -> bool:
    if status.get("phase") == "Succeeded":
        return True
    ends = [(entry.get("state") or {}).get("terminated") for entry in status.get("containerStatuses") or ()]
    return bool(ends) and all(end is not None and end.get("exitCode") == 0 for end in ends)


def _job(live: Object) -> Verdict:
    if has_succeeded(live):
        return Verdict(State.READY, live["status"].get("log", "").strip())
    if ended := failure(live):
        retry_at = next_try(live)
        when = f", next try at {retry_at:%H:%M} UTC" if retry_at else ""
        return failed(f"job {_name(live)} failed{when}{ended}", "JobFailed")
    # A try that has not ended tells nothing better than the one before.
    if ended := (live["metadata"].get("annotations") or {}).get(LAST_FAILURE):
        return failed(f"job {_name(live)} failed and is tried again{ended}", "JobFailed")
    tries = (live.get("status") or {}).get("failed", 0)
    # Kubernetes counts pods that run; its count is missing at first.
    verb = "starts" if (live.get("status") or {}).get("ready") == 0 else "is running"
    text = f"job {_name(live)} {verb}" + (f", {tries} {'try' if tries == 1 else 'tries'} failed" if tries else "")
    return Verdict(State.READY, text) if is_dispensable(live) else progressing(text)


def _volume_claim(live: Object) -> Verdict:
    """Return the verdict on a volume claim. One that waits for its first pod is as ready as it can be."""
    phase = (live.get("status") or {}).get("phase")
    if phase == "Lost":
        return failed(f"volume claim {_name(live)} lost its volume", "VolumeLost")
    return Verdict(State.READY, "; ".join(text for text in (danger(live), missing_size(live)) if text))


def missing_size(claim: Object) -> str:
    """Tell of a volume that has not grown to the size that its claim asks for; empty for any other. A driver that fails
    to resize says so in the claim alone, and its volume serves on as it is.
    """
    status: Object = claim.get("status") or {}
    resources: Object = (claim.get("spec") or {}).get("resources") or {}
    requested = (resources.get("requests") or {}).get("storage", "")
    size = (status.get("capacity") or {}).get("storage", "")
    if not requested or not size or amount(size) >= amount(requested):
        return ""
    by_type = conditions(claim)
    texts = [by_type[name].get("message") for name in _RESIZES if by_type.get(name, {}).get("status") == "True"]
    why = next((one_line(text) for text in texts if text), "")
    return f"volume claim {_name(claim)} has {size} of {requested}" + (f": {why}" if why else "")


def danger(claim: Object) -> str:
    """Warn of a volume claim that is being deleted and still mounted; empty for any other."""
    if not claim["metadata"].get("deletionTimestamp"):
        return ""
    volume = (claim.get("spec") or {}).get("volumeName", "")
    patch = f'kubectl patch pv {volume} -p \'{{"spec":{{"persistentVolumeReclaimPolicy":"Retain"}}}}\''
    keep = f"; to keep the data, run `{patch}` now" if volume else ""
    return (
        f"volume claim {_name(claim)} is being deleted, which cannot be undone: it disappears with its"
        f" data when its last pod ends, unless the volume is retained{keep}"
    )


def _autoscaler(live: Object) -> Verdict:
    """Return READY always: pods keep their number until their load is known. The message says why it is not."""
    able = conditions(live).get("AbleToScale", {})
    return Verdict(State.READY, f"{_name(live)}: {able.get('message', '')}") if able.get("status") == "False" else READY


_KEPT_REASONS = {RECOVERY, *HELD_REASONS, *POD_REASONS}
"""Reasons of a resource's Ready that its owner shows, too."""


def child_verdict(live: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a resource of ours: its Ready condition, once that is about the present spec and the change
    has reached all that it made. A stalled one is FAILED for its owner, too; one that only waits for another resource
    is WAITING.
    """
    resource = f"{live['kind']}/{live['metadata']['name']}"
    by_type = conditions(live)
    condition = by_type.get("Ready")
    generation = live["metadata"].get("generation", 0)
    if condition is None or condition.get("observedGeneration", 0) < generation:
        if pause_reason(live["metadata"].get("annotations")) is not None:
            return waiting(f"{resource} is paused")
        return progressing(
            f"{resource}{': the operator is processing its change' if condition else ' has not reported yet'}"
        )
    if condition["status"] == "True" and not _is_changing(by_type):
        return READY
    reason = condition.get("reason", "")
    message = f"{resource}: {condition.get('message') or reason}"
    if by_type.get("Stalled", {}).get("status") == "True":
        return failed(message, reason)
    if reason == "Waiting":
        return waiting(message)
    return Verdict(State.PROGRESSING, message, reason if reason in _KEPT_REASONS else "")


def _is_changing(by_type: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return True if a resource whose Ready is True has not done all of its present spec yet, or cannot."""
    progress = by_type.get(PROGRESSING, {})
    return progress.get("status") == "True" or progress.get("reason", COMPLETE) != COMPLETE


def complete_since(live: Mapping[str, Any]) -> datetime | None:
    """Return the time since when a resource of ours has been Ready with all of its present spec done; None if it is
    not, or if a user wrote a time that no clock shows.
    """
    if not child_verdict(live).ready:
        return None
    by_type = conditions(live)
    times = [by_type[name].get("lastTransitionTime") for name in ("Ready", PROGRESSING) if name in by_type]
    return max((at for each in times if (at := valid_time(each))), default=None)


def referent_verdict(live: Mapping[str, Any]) -> Verdict:
    """Return READY if a resource of ours does what resources that refer to it need. That is so when nothing is left but
    what a user holds, as the last step of an upgrade until all others run the new release, too.
    """
    verdict = child_verdict(live)
    return READY if verdict.reason in HELD_REASONS else verdict


def _of_owner(live: Object) -> Verdict:
    """Return the verdict on a resource made from a template, with the paths of fields as its owner's spec has them."""
    verdict = child_verdict(live)
    return replace(verdict, message=as_owner_says(live, verdict.message))


def dependency_verdict(live: Mapping[str, Any] | None, dependency: Dependency) -> Verdict:
    """Return READY if a resource of ours, None where there is none, has the condition that another one waits for."""
    resource = f"{dependency.kind}/{dependency.name}"
    text = f"waiting for {resource} to be {dependency.condition}"
    if live is None:
        return waiting(f"{text}; there is none in this namespace yet", "Waiting")
    by_type = conditions(live)
    if (condition := by_type.get(dependency.condition)) is None:
        # A pass that got nowhere reports these alone.
        if choices := sorted(by_type.keys() - {"Ready", PROGRESSING, "Reconciling", "Stalled", PAUSED}):
            text = f"{resource} has no condition {dependency.condition!r}; choose from Ready, {', '.join(choices)}"
            return failed(text, "InvalidSpec")
        return waiting(f"{text}; it has not reported yet", "Waiting")
    current = condition.get("observedGeneration", 0) >= live["metadata"].get("generation", 0)
    is_done = condition["status"] == "True" and not (dependency.condition == "Ready" and _is_changing(by_type))
    if current and (is_done or _is_held(dependency.condition, condition)):
        return READY
    return waiting(f"{text}; {condition.get('message') or condition.get('reason', '')}".rstrip("; "), "Waiting")


def _is_held(type_: str, condition: Mapping[str, Any]) -> bool:
    """Return True if this is Ready, and nothing is left but what a user holds."""
    return type_ == "Ready" and condition.get("reason") in HELD_REASONS


def _route(live: Object) -> Verdict:
    """Return READY always, since the API serves inside the cluster without a Gateway, too; the message says why no
    Gateway takes the route.
    """
    parents = (live.get("status") or {}).get("parents") or ()
    refused = [
        f"{parent['parentRef']['name']}: {condition.get('message') or condition.get('reason', '')}"
        for parent in parents
        for condition in parent.get("conditions") or ()
        if condition["type"] in {"Accepted", "ResolvedRefs"} and condition["status"] == "False"
    ]
    message = "; ".join(refused) if parents else "no Gateway has accepted it yet"
    return Verdict(State.READY, f"{_name(live)}: {message}") if message else READY


def _reported(*types: str, silent: bool = False) -> Rule:
    """Return the rule of another operator's kind: these conditions are True, for the present spec unless it is `silent`
    about that.
    """

    def rule(live: Object) -> Verdict:
        subject, by_type = f"{live['kind']}/{_name(live)}", conditions(live)
        if not by_type:
            return progressing(f"{subject}: its operator has not reported yet; check that it runs")
        for condition in (by_type.get(name, {}) for name in types):
            if condition.get("status") != "True":
                text = condition.get("message") or condition.get("reason") or "not ready yet"
                return progressing(f"{subject}: {text}")
        observed = (live.get("status") or {}).get("observedGeneration")
        if not silent and observed != live["metadata"].get("generation", observed):
            return progressing(f"{subject}: its operator has not processed it yet")
        return READY

    return rule


def _state(live: Object) -> Verdict:
    """Return the verdict on a kind of SAP's operators, which report one word for the present spec."""
    subject, status = f"{live['kind']}/{_name(live)}", live.get("status") or {}
    if not status.get("state"):
        return progressing(f"{subject}: its operator has not reported yet; check that it runs")
    if status["state"] == "Ready" and is_observed(live):
        return READY
    text = conditions(live).get("Ready", {}).get("message") or f"state {status['state']}"
    return progressing(f"{subject}: {text}")


def _korc(live: Object) -> Verdict:
    """Return READY once K-ORC has nothing left to do for the present spec, and the object exists in OpenStack. After an
    error K-ORC waits for a change of the spec.
    """
    subject, by_type = f"{live['kind']}/{_name(live)}", conditions(live)
    at_work, available = by_type.get("Progressing"), by_type.get("Available", {})
    if at_work is None:
        return progressing(f"{subject}: K-ORC has not reported yet; check that it runs")
    if at_work.get("observedGeneration") != live["metadata"].get("generation", at_work.get("observedGeneration")):
        return progressing(f"{subject}: K-ORC has not processed it yet")
    text = f"{subject}: {at_work.get('message') or at_work.get('reason', '')}"
    if at_work.get("reason") in {"InvalidConfiguration", "UnrecoverableError"}:
        text = (
            f"{text}; repair the cause, then delete this object: the operator recreates it, and Keystone keeps its data"
        )
        return failed(text, "KORCFailed")
    return READY if at_work["status"] == "False" and available.get("status") == "True" else progressing(text)


def _physical_backup(live: Object) -> Verdict:
    """Return READY once mariadb-operator has copied the data. Complete is True of a copy that failed, too."""
    subject, complete = f"PhysicalBackup/{_name(live)}", conditions(live).get("Complete")
    if complete is None:
        text = "mariadb-operator has not begun; check that it runs, and neither changes nor suspends its MariaDB"
        return progressing(f"{subject}: {text}")
    if complete["status"] == "True" and complete.get("reason") == "JobComplete":
        return READY
    if complete.get("reason") == "JobFailed":
        text = f"{subject}: mariadb-operator could not copy the data, and has to try again; see the logs of its Job"
        return failed(text, "CopyFailed")
    return progressing(f"{subject}: {complete.get('message') or complete.get('reason') or 'not complete yet'}")


# mariadb-operator does not say which generation it speaks of.
_mariadb, _topology = _reported("Ready", silent=True), _reported("Ready")

RULES: Mapping[str, Rule] = {
    "Deployment": _rollout,
    "StatefulSet": _rollout,
    "DaemonSet": _rollout,
    "Job": _job,
    "PersistentVolumeClaim": _volume_claim,
    "HorizontalPodAutoscaler": _autoscaler,
    "HTTPRoute": _route,
    # Whether its programs run is said by what runs them; a node that is away must not make a cloud unready twice.
    "OVNChassis.ovn.c5c3.io": lambda _: READY,
    # Its schedule says what it means that one runs or failed; and a restored schedule is for its user to start.
    **{kind: lambda _: READY for kind in ("OpenStackBackup", "OpenStackBackupSchedule")},
    **{f"{kind}.k8s.mariadb.com": _mariadb for kind in ("MariaDB", "Database", "User", "Grant")},
    "PhysicalBackup.k8s.mariadb.com": _physical_backup,
    # The first alone is True while the operator is still at work.
    "RabbitmqCluster.rabbitmq.com": _reported("AllReplicasReady", "ClusterAvailable", "ReconcileSuccess"),
    **{f"{kind}.rabbitmq.com": _topology for kind in ("Vhost", "User", "Permission", "Policy")},
    "Memcached.memcached.c5c3.io": _reported("Ready"),
    "Valkey.cache.cs.sap.com": _state,
    # Of which content they speak is for their owner to know.
    **{f"{kind}.external-secrets.io": _reported("Ready", silent=True) for kind in ("ExternalSecret", "PushSecret")},
    **{f"{kind}.openstack.k-orc.cloud": _korc for kind in ("Domain", "Project", "Role", "User", "Service")},
}


def judge(live: Object) -> Verdict:
    """Return the verdict on one live object. Kinds without a rule are ready as soon as they exist."""
    rule = RULES.get(handle(live["apiVersion"], live["kind"]))
    if rule is None:
        return _of_owner(live) if _ours(live) else READY
    return rule(live)


def outdated(live: Object, version: str) -> bool:
    """Return True if an operator of another version wrote the status of a resource of ours."""
    status = live.get("status") or {}
    if not is_own(live) or not status.get("conditions"):
        return False
    return status.get("operatorVersion") != version


def is_own(live: Object) -> bool:
    """Return True for a resource of ours, which reports `Ready` itself."""
    return _ours(live) and handle(live["apiVersion"], live["kind"]) not in RULES


def _ours(live: Object) -> bool:
    group = live["apiVersion"].rpartition("/")[0]
    return group == "openstack.k8s.io" or group.endswith("c5c3.io")
