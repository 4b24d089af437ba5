"""The way from a resource that is not ready to what keeps it from being so, over what it made and what it waits for."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import NamedTuple

import msgspec

from ...api import dependencies, references
from ...kube import child_verdict, diagnose, job_succeeded, judge, valid_time
from ...kube.pod_reasons import IMAGE_PULL, REFUSED
from ...plan import PAUSED, Object, State, Verdict
from ...runtime.cache.trimmed_pods import trimmed, workload_of
from ...runtime.kubernetes.kinds import JOB, POD
from ..kind_index import BY_TYPE
from .deciding_fields import image_places, release_of_image, size_fields, spec_of, volume_fields
from .selection import PLANES
from .snapshot import Snapshot
from .state import DELETING, NOT_LOOKED_AT, is_ready, is_serving, pause_of, reason_of, subject

CYCLE = "DependencyCycle"
"""Reason of resources of which each waits for the next one, and the last for the first."""
JOB_OVERDUE, VOLUME_FULL, CERTIFICATE_EXPIRED = "JobOverdue", "VolumeFull", "CertificateExpired"
"""Reasons that no condition has: they are reported by other ones, whose advice does not fit."""
_OVERDUE_AFTER = timedelta(minutes=15)
"""Time after which a job that still runs is a cause: each takes seconds, the schema of a large cloud some minutes."""
_TELLING = (
    # RabbitMQVhost: `… MiB of its volume are free`; MariaDB, OVN and etcd log errno 28.
    (VOLUME_FULL, re.compile(r"No space left on device|[Dd]isk (?:is )?full|of its volume are free")),
    (
        CERTIFICATE_EXPIRED,
        re.compile(r"certificate has expired|certificate expired|(?:certificate|PKI/[a-z0-9.-]+) ended at \d"),
    ),
)
"""Words of conditions and logs that say more than the reason they are reported by."""


class Log(NamedTuple):
    """The log of a container that does not run well."""

    pod: str
    container: str
    previous: bool
    """True for the container before the last restart."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An object that is not ready."""

    subject: str
    """`Kind/name`."""
    text: str
    reason: str = ""
    failed: bool = False
    """True for what does not get better by itself."""
    log: Log | None = None
    serves: bool = False
    """True if all that served still serves."""


class Root(NamedTuple):
    """A finding that nothing else explains."""

    finding: Finding
    chain: Sequence[str]
    """Subjects from the symptom to it, by the shortest way."""
    holds_up: Sequence[str]
    """Resources beside that way that are not ready because of it."""


@dataclass
class Causes:
    """The search within one snapshot; each object is looked at once, however many wait for it."""

    snapshot: Snapshot
    _findings: dict[str, Finding] = field(default_factory=dict[str, Finding])
    _edges: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Subjects of the causes of each finding."""

    def of(self, live: Object) -> tuple[Finding, list[Root]] | None:
        """Return the finding about a resource of ours, with what is behind it, the likeliest first: what does not heal
        by itself, then what holds up most resources. None for a resource that is ready.
        """
        if is_ready(live):
            return None
        self._findings.clear()
        self._edges.clear()
        self._follow(live)
        for circle in _circles(self._edges):
            self._close(circle)
        return self._findings[subject(live)], self._roots(subject(live))

    def _follow(self, live: Object) -> None:
        """Look at a resource, and at all that it leads to."""
        queue = deque([live])
        while queue:
            each = queue.popleft()
            own_name = subject(each)
            if own_name in self._findings:
                continue
            self._findings[own_name] = _finding(each)
            uid = each["metadata"].get("uid", "")
            children = [child for child in self._resources.get(uid, ()) if not is_ready(child)]
            edges = [subject(child) for child in children]
            edges += [name for live in self._workloads.get(uid, ()) if (name := self._workload(live, each))]
            failed = any(self._findings[edge].failed for edge in edges if edge in self._findings)
            # What a cloud refers to, its services refer to as well; its model holds those of all kinds.
            explained = failed or (each["kind"] in PLANES and edges)
            used = [] if explained else [target for target in self._used(each) if not is_ready(target)]
            if pause := _pause(each, self._findings[own_name]):
                self._findings[pause.subject], self._edges[pause.subject] = pause, []
                edges.insert(0, pause.subject)
            self._edges[own_name] = list(dict.fromkeys([*edges, *map(subject, used)]))
            queue.extend([*children, *used])

    def _close(self, circle: Sequence[str]) -> None:
        """Let a circle itself be the cause of its members."""
        name = " → ".join([*circle, circle[0]])
        self._findings[name] = Finding(subject=name, text="each waits for the next one", reason=CYCLE, failed=True)
        for member in circle:
            self._edges[member] = [name, *(edge for edge in self._edges[member] if edge not in circle)]

    def _roots(self, top: str) -> list[Root]:
        chains: dict[str, Sequence[str]] = {top: [top]}
        parents: dict[str, list[str]] = {}
        queue = deque([top])
        # By breadth, so that the first way to each finding is a shortest one.
        while queue:
            name = queue.popleft()
            for edge in self._edges.get(name, ()):
                parents.setdefault(edge, []).append(name)
                if edge not in chains:
                    chains[edge] = [*chains[name], edge]
                    queue.append(edge)
        roots = [
            Root(_telling(self._findings[name]), chain, _held_up(chain, parents))
            for name, chain in chains.items()
            if not self._edges.get(name)
        ]
        return sorted(roots, key=lambda root: (not root.finding.failed, -len(root.holds_up), len(root.chain)))

    def _used(self, live: Object) -> Iterator[Object]:
        """Yield the resources that it cannot do without: those that the spec names, or that are defaults, and that
        exist. Its owner is none of them, though small resources name it: they are part of it.
        """
        spec = spec_of(live)
        if spec is None:
            return
        required = (ref for _, ref in references(spec) if not ref.optional and not ref.namespace_in(""))
        targets = [(ref.kind, ref.name) for ref in required]
        targets += [(each.kind, each.name) for _, each in dependencies(spec)]
        owners = {owner["uid"] for owner in live["metadata"].get("ownerReferences") or ()}
        for role, name in dict.fromkeys(targets):
            target = self._find(role, name)
            if target and target["metadata"].get("uid") not in owners:
                yield target

    def _find(self, role: str, name: str) -> Object | None:
        candidates = (
            each
            for each in self.snapshot.resources
            if each["metadata"]["name"] == name
            and (kind := BY_TYPE.get((each["apiVersion"], each["kind"])))
            and kind.role == role
        )
        return min(candidates, key=lambda each: each["metadata"].get("creationTimestamp", ""), default=None)

    def _workload(self, live: Object, owner: Object) -> str:
        """Look at a workload of a resource; return its subject, empty if it does its work."""
        verdict, pods = judge(live), self._pods.get((live["kind"], live["metadata"]["name"]), ())
        if verdict.ready or (live["kind"] == JOB.kind and job_succeeded(live, pods)):
            return ""
        name, text = subject(live), verdict.message.removeprefix(f"{live['metadata']['name']}: ")
        spec = spec_of(owner)
        diagnosis = diagnose(
            live,
            verdict,
            pods,
            self.snapshot.about,
            self.snapshot.now,
            neighbours=self.snapshot.pods,
            image_fields=image_places(owner, spec) if spec else {},
        ).verdict
        failed = State.FAILED in (verdict.state, diagnosis.state)
        log = next((each for each in map(_log, pods) if each), None)
        if diagnosis.message != verdict.message:
            cause = _with_field(_of_pods(live, verdict, diagnosis, pods), live, owner)
            self._findings[cause.subject], self._edges[name] = cause, [cause.subject]
            failed, log = failed or cause.failed, None
        elif verdict.state is State.PROGRESSING and self._is_overdue(live, pods):
            self._findings[name] = self._overdue(live, pods, text)
            return name
        self._findings[name] = Finding(subject=name, text=text, reason=verdict.reason, failed=failed, log=log)
        return name

    def _is_overdue(self, live: Object, pods: Sequence[Object]) -> bool:
        """Return True if a job has run for long, without a deadline that ends it."""
        since = valid_time((live.get("status") or {}).get("startTime"))
        has_deadline = "activeDeadlineSeconds" in live["spec"].get("template", {}).get("spec", {})
        is_running = any(pod["status"].get("phase") == "Running" for pod in pods)
        is_late = since is not None and self.snapshot.now - since >= _OVERDUE_AFTER
        return live["kind"] == JOB.kind and is_running and is_late and not has_deadline

    def _overdue(self, job: Object, pods: Sequence[Object], text: str) -> Finding:
        """Return the finding about a job that runs for long, with the log of its pod."""
        names = {pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"}
        # Of a pod that is ready, the trimmed ones lack the containers.
        whole_pods = [pod for pod in self.snapshot.pods if pod["metadata"]["name"] in names]
        statuses = [(pod, each) for pod in whole_pods for each in pod["status"].get("containerStatuses") or ()]
        logs = [Log(pod["metadata"]["name"], each["name"], previous=False) for pod, each in statuses]
        text = f"{text} since {valid_time(job['status']['startTime']):%Y-%m-%d %H:%M} UTC, and is not finished"
        return Finding(subject=subject(job), text=text, reason=JOB_OVERDUE, failed=True, log=next(iter(logs), None))

    @cached_property
    def _resources(self) -> Mapping[str, Sequence[Object]]:
        return _by_controller(self.snapshot.resources)

    @cached_property
    def _workloads(self) -> Mapping[str, Sequence[Object]]:
        return _by_controller(self.snapshot.workloads)

    @cached_property
    def _pods(self) -> Mapping[tuple[str, str], Sequence[Object]]:
        """Pods by the workload that made them, as kind and name."""
        pods: dict[tuple[str, str], list[Object]] = {}
        for pod in self.snapshot.pods:
            entry = trimmed(msgspec.json.encode(pod), POD)
            if workload := workload_of(entry.meta):
                pods.setdefault(workload, []).append(entry.decode())
        return pods


def _of_pods(live: Object, verdict: Verdict, diagnosis: Verdict, pods: Sequence[Object]) -> Finding:
    """Return what Kubernetes says of the pods of a workload, with the log of the pod that it names."""
    text = diagnosis.message.removeprefix(verdict.message).removeprefix("; ")
    name, log = f"pods of {live['metadata']['name']}", None
    words = text.split(" ", 2)
    if len(words) > 2 and words[0] == "pod":
        name, text = f"Pod/{words[1]}", words[2]
        log = next((_log(pod) for pod in pods if pod["metadata"]["name"] == words[1]), None)
    # A cause that Kubernetes reports explains more than a number of pods, also before it counts as lasting.
    finding = Finding(subject=name, text=text, reason=diagnosis.reason, failed=bool(diagnosis.reason), log=log)
    return _telling(finding)


def _telling(finding: Finding) -> Finding:
    """Return a finding by the reason that its text shows, if that says more than its own."""
    reason = next((reason for reason, words in _TELLING if words.search(finding.text)), "")
    return replace(finding, reason=reason, failed=True) if reason else finding


def _with_field(cause: Finding, workload: Object, owner: Object) -> Finding:
    """Return what Kubernetes says of pods with the field that decides about it, as the user of the cloud wrote it."""
    spec, text = spec_of(owner), ""
    if spec is not None and cause.reason == IMAGE_PULL:
        text = release_of_image(owner, spec, cause.text)
    elif spec is not None and cause.reason == REFUSED and "quota" in cause.text:
        text = size_fields(owner, spec, workload)
    elif spec is not None and cause.reason == VOLUME_FULL:
        text = volume_fields(owner, spec)
    return replace(cause, text=f"{cause.text}; {text}") if text else cause


def _log(pod: Object) -> Log | None:
    """Return the container of a pod that ended, or that runs and is not ready; None if none has begun."""
    status = pod.get("status") or {}
    for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        state, name = each.get("state") or {}, pod["metadata"]["name"]
        if each.get("ready") or (state.get("terminated") or {}).get("exitCode") == 0:
            continue
        if each.get("restartCount") and "running" not in state:
            return Log(name, each["name"], previous="terminated" not in state)
        if "running" in state or "terminated" in state:
            return Log(name, each["name"], previous=False)
    return None


def _finding(live: Object) -> Finding:
    """Return the finding about a resource of ours that is not ready."""
    name, reason, verdict = subject(live), reason_of(live), child_verdict(live)
    text = "is being deleted" if reason == DELETING else verdict.message.removeprefix(f"{name}: ")
    failed = verdict.state is State.FAILED and reason != NOT_LOOKED_AT
    return Finding(subject=name, text=text, reason=reason, failed=failed, serves=is_serving(live))


def _pause(live: Object, finding: Finding) -> Finding | None:
    """Return the finding about the pause of a resource that is not ready, with what it reported before; None for one
    that is not paused, or whose deletion goes on.
    """
    if (reason := pause_of(live)) is None or finding.reason == DELETING:
        return None
    before = "" if finding.reason == PAUSED else f"; before, it reported {finding.reason}: {finding.text}"
    text = f"the operator changes nothing for it{f' ({reason})' if reason else ''}{before}"
    return Finding(subject=f"pause of {finding.subject}", text=text, reason=PAUSED, failed=True)


def _held_up(chain: Sequence[str], parents: Mapping[str, Sequence[str]]) -> list[str]:
    """Return all that leads to the end of a chain, beside the chain itself."""
    ancestors: set[str] = set()
    queue = [chain[-1]]
    while queue:
        for parent in parents.get(queue.pop(), ()):
            if parent not in ancestors:
                ancestors.add(parent)
                queue.append(parent)
    return sorted(ancestors - set(chain))


def _circles(edges: Mapping[str, Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield circles, each from its least member on, until every one that is left shares a member with one of them."""
    remaining = _trimmed(edges, set(edges))
    while remaining:
        path = [min(remaining)]
        while (following := min(set(edges[path[-1]]) & remaining)) not in path:
            path.append(following)
        circle = path[path.index(following) :]
        start = circle.index(min(circle))
        yield [*circle[start:], *circle[:start]]
        remaining = _trimmed(edges, remaining - set(circle))


def _trimmed(edges: Mapping[str, Sequence[str]], names: set[str]) -> set[str]:
    """Return those of the names that lead to another one without end."""
    remaining = set(names)
    while ends := {name for name in remaining if not remaining.intersection(edges[name])}:
        remaining -= ends
    return remaining


def _by_controller(objects: Iterable[Object]) -> Mapping[str, Sequence[Object]]:
    """Return objects by the uid of what controls them."""
    children: dict[str, list[Object]] = {}
    for live in objects:
        for owner in live["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                children.setdefault(owner["uid"], []).append(live)
    return children
