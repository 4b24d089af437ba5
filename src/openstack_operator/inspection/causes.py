"""The way from a resource that is not ready to what keeps it from being so, over what it made and what it waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from ..api import Resource, dependencies, references
from ..catalogue import RESOURCES
from ..kube import child_verdict, diagnose, job_succeeded, judge
from ..plan import Object, State, Verdict
from ..runtime.kinds import JOB, POD
from ..runtime.pods import trimmed, workload_of
from .snapshot import Snapshot
from .state import DELETING, NOT_LOOKED_AT, reason_of, subject

CYCLE = "DependencyCycle"
"""Reason of resources of which each waits for the next one, and the last for the first."""
_BY_TYPE: Mapping[tuple[str, str], Resource[Any]] = {(each.api_version, each.kind): each for each in RESOURCES}


class Log(NamedTuple):
    """The log of a container that does not run well."""

    pod: str
    container: str
    previous: bool
    """True for the container before the last restart."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An object that is not ready, and the objects because of which it is not."""

    subject: str
    """`Kind/name`."""
    text: str
    reason: str = ""
    failed: bool = False
    """True for what does not get better by itself."""
    causes: Sequence[Finding] = ()
    log: Log | None = None


class Root(NamedTuple):
    """A finding that nothing else explains."""

    finding: Finding
    chain: Sequence[str]
    """Subjects from the symptom to it, by the shortest way."""
    holds_up: Sequence[str]
    """Resources beside that way that are not ready because of it."""


def roots(finding: Finding) -> list[Root]:
    """Return what is behind a finding, the likeliest cause first: what does not heal by itself, then what holds up most
    resources.
    """
    chains: dict[str, Sequence[Finding]] = {}
    parents: dict[str, list[Finding]] = {}
    visited = set[int]()
    queue: deque[Sequence[Finding]] = deque([[finding]])
    # By breadth, so that the first way to each finding is a shortest one.
    while queue:
        chain = queue.popleft()
        last = chain[-1]
        if len(chain) > 1:
            parents.setdefault(last.subject, []).append(chain[-2])
        chains.setdefault(last.subject, chain)
        # Within a circle of dependencies, a resource has a finding for each way to it.
        if id(last) not in visited:
            visited.add(id(last))
            queue.extend([*chain, cause] for cause in last.causes)
    causes = [_root(chain, parents) for chain in chains.values() if not chain[-1].causes]
    return sorted(causes, key=lambda root: (not root.finding.failed, -len(root.holds_up), len(root.chain)))


def _root(chain: Sequence[Finding], parents: Mapping[str, Sequence[Finding]]) -> Root:
    subjects = [each.subject for each in chain]
    held_up: dict[str, None] = {}
    queue = [chain[-1]]
    while queue:
        for parent in parents.get(queue.pop().subject, ()):
            if parent.subject not in held_up:
                held_up[parent.subject] = None
                queue.append(parent)
    return Root(chain[-1], subjects, sorted(held_up.keys() - set(subjects)))


@dataclass
class Causes:
    """The search within one snapshot; each object is looked at once."""

    snapshot: Snapshot
    _findings: dict[str, Finding | None] = field(default_factory=dict[str, "Finding | None"])

    def of(self, live: Object) -> Finding | None:
        """Return the finding about a resource of ours; None for one that is ready."""
        return self._resource(live, ())

    def _resource(self, live: Object, path: tuple[str, ...]) -> Finding | None:
        name, reason = subject(live), reason_of(live)
        if name in path:
            members = path[path.index(name) :]
            first = members.index(min(members))
            circle = " → ".join([*members[first:], *members[:first], members[first]])
            return Finding(subject=circle, text="each waits for the next one", reason=CYCLE, failed=True)
        if not reason:
            return None
        if name not in self._findings:
            verdict, causes = child_verdict(live), self._causes(live, (*path, name))
            text = "is being deleted" if reason == DELETING else verdict.message.removeprefix(f"{name}: ")
            failed = verdict.state is State.FAILED and reason != NOT_LOOKED_AT
            finding = Finding(subject=name, text=text, reason=reason, failed=failed, causes=causes)
            if any(cause.reason == CYCLE for cause in _all(causes)):
                return finding
            self._findings[name] = finding
        return self._findings[name]

    def _causes(self, live: Object, path: tuple[str, ...]) -> list[Finding]:
        uid = live["metadata"].get("uid", "")
        children = [self._resource(each, path) for each in self._resources.get(uid, ())]
        children += [self._workload(each) for each in self._workloads.get(uid, ())]
        findings = [each for each in children if each]
        if any(each.failed for each in findings):
            return findings
        return [*findings, *(each for used in self._used(live) if (each := self._resource(used, path)))]

    def _used(self, live: Object) -> Iterator[Object]:
        """Yield the resources that it cannot do without: those that the spec names, or that are defaults, and that
        exist. Its owner is none of them, though small resources name it: they are part of it.
        """
        resource = _BY_TYPE.get((live["apiVersion"], live["kind"]))
        if resource is None:
            return
        try:
            spec = resource.spec.from_spec(live.get("spec") or {})
        except ValidationError:
            # The condition of the resource says so.
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
            and (kind := _BY_TYPE.get((each["apiVersion"], each["kind"])))
            and kind.role == role
        )
        return min(candidates, key=lambda each: each["metadata"].get("creationTimestamp", ""), default=None)

    def _workload(self, live: Object) -> Finding | None:
        verdict = judge(live)
        if verdict.ready:
            return None
        pods = self._pods.get((live["kind"], live["metadata"]["name"]), ())
        if live["kind"] == JOB.kind and job_succeeded(live, pods):
            return None
        name, text = subject(live), verdict.message.removeprefix(f"{live['metadata']['name']}: ")
        diagnosis = diagnose(live, verdict, pods, self.snapshot.about, self.snapshot.now).verdict
        failed = State.FAILED in (verdict.state, diagnosis.state)
        if diagnosis.message == verdict.message:
            log = next((each for each in map(_log, pods) if each), None)
            return Finding(subject=name, text=text, reason=verdict.reason, failed=failed, log=log)
        return Finding(subject=name, text=text, causes=[_of_pods(live, verdict, diagnosis, pods)], failed=failed)

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
    return Finding(subject=name, text=text, reason=diagnosis.reason, failed=bool(diagnosis.reason), log=log)


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


def _all(findings: Iterable[Finding]) -> Iterator[Finding]:
    for finding in findings:
        yield finding
        yield from _all(finding.causes)


def _by_controller(objects: Iterable[Object]) -> Mapping[str, Sequence[Object]]:
    """Return objects by the uid of what controls them."""
    children: dict[str, list[Object]] = {}
    for live in objects:
        for owner in live["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                children.setdefault(owner["uid"], []).append(live)
    return children
