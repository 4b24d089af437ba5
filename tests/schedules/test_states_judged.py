"""Each kind in each of its states, as kstatus and Argo CD call them: their own code reads what the operator writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import Resource
from openstack_operator.kube import child_verdict, conditions
from openstack_operator.plan import PAUSED, READY, Object, State, Verdict, changing, failed, progressing, waiting
from openstack_operator.registry import RESOURCES, SERVICES
from openstack_operator.runtime.reconcile.report import Report, paused_status, status
from tools.localcluster import build

from .api_server import Event
from .schedule import schedule_of
from .simulation import Simulation, carry_out_simulation

IN_PROGRESS = ("InProgress", "Progressing")
ANSWERS: Mapping[str, tuple[str, str]] = {
    # kstatus takes what has no status for finished: docs/reference/conditions.md says so.
    "new": ("Current", "Progressing"),
    "changed": IN_PROGRESS,
    "waiting": IN_PROGRESS,
    "serving": IN_PROGRESS,
    "ready": ("Current", "Healthy"),
    "failed": ("Failed", "Degraded"),
    "deleting": ("Terminating", "Progressing"),
    "paused when new or changed": ("InProgress", "Suspended"),
    "paused when waiting": ("InProgress", "Suspended"),
    "paused when ready": ("Current", "Suspended"),
    "paused when failed": ("Failed", "Suspended"),
}
"""States, and what kstatus and Argo CD call them, as docs/reference/conditions.md has it."""
SEEDS = 40
WITH_PLAN = {service.resource for service in SERVICES}


def state_of(live: Object) -> str:
    """The state of a resource, as the operator itself reads its conditions."""
    meta, by_type = live["metadata"], conditions(live)
    is_true = {name for name, condition in by_type.items() if condition["status"] == "True"}
    is_current = (live.get("status") or {}).get("observedGeneration") == meta["generation"]
    is_done = child_verdict(live).ready and "Reconciling" not in is_true
    if "deletionTimestamp" in meta:
        return "deleting"
    state = "failed" if "Stalled" in is_true else "ready" if is_done else "waiting"
    if PAUSED in is_true:
        return f"paused when {state if is_current else 'new or changed'}"
    if not is_current:
        return "changed" if by_type else "new"
    return "serving" if state == "waiting" and "Ready" in is_true else state


def answers(objects: Iterable[Object], root: Path) -> list[tuple[str, str]]:
    """What kstatus and Argo CD call each object; the error of one that refuses it."""
    command = [build.ensure(build.JUDGES) / "judges", root / "deploy" / "argo-cd" / "argocd-cm.yaml"]
    text = json.dumps({"items": list(objects)})
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return [
        (each["kstatus"]["state"] or each["kstatus"]["error"], each["argoCD"]["state"] or each["argoCD"]["error"])
        for each in json.loads(done.stdout)
    ]


def disagreements(objects: Sequence[Object], root: Path) -> list[str]:
    """Objects of which a judge says something else than the operator."""
    return [
        f"{live['kind']} {state_of(live)}: {answer}, {json.dumps(live.get('status'))}"
        for live, answer in zip(objects, answers(objects, root), strict=True)
        if answer != ANSWERS[state_of(live)]
    ]


def created(resource: Resource[Any]) -> Object:
    """A new resource, which the operator has not looked at."""
    meta = {"name": "a", "namespace": "x", "generation": 1}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}


MISSING = failed("Secret x/word does not exist", "MissingReference", incomplete=True)
REPORTS: Mapping[str, Verdict] = {
    "blocked by another resource": waiting("waiting for Keystone/keystone"),
    "rolled out for the first time": progressing("a: 0/1 pods ready"),
    "changed while it serves": changing("a: 1/1 pods ready, 0/1 have the change"),
    "with a server that does not answer": Verdict(State.RETRYING, "the server does not answer"),
    "blocked by a missing Secret": MISSING,
    "refused while it serves": replace(failed("spec.config: wrong", "InvalidSpec"), serves=True),
    "ready": READY,
}


def walk(resource: Resource[Any]) -> Iterator[Object]:
    """A resource of the kind in each state, with the statuses that the operator writes one after the other."""
    live, has_plan = created(resource), resource in WITH_PLAN
    pause = Verdict(State.READY, "by hand", PAUSED)

    def written(live_status: Object, **meta: Any) -> Object:
        return {**live, "metadata": {**live["metadata"], **meta}, "status": live_status}

    yield live
    yield written(paused_status(pause, {}, 1))
    before: Object = {}
    for verdict in REPORTS.values():
        for keep_others in (False, True):
            report = Report(conditions={"Ready": verdict}, published={}, keep_others=keep_others, has_progress=has_plan)
            now = status(report, before, 1)
            yield written(now)
            yield written(now, generation=2)
            yield written(now, deletionTimestamp="2026-01-01T00:00:00Z")
            paused = paused_status(pause, now, 1)
            yield written(paused)
            yield written(paused, generation=2)
            # The first pass after the pause.
            yield written(status(report, paused, 1))
            before = now
    # A small resource stays Ready while its server does not answer.
    away = Verdict(State.RETRYING, "the server does not answer")
    yield written(status(Report(conditions={"Ready": READY}, progress=away, keep_others=True), before, 1))


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.handle)
def test_judges_agree_with_each_state_of_a_kind(resource: Resource[Any], root: Path) -> None:
    objects = [*walk(resource)]
    assert {state_of(live) for live in objects} == set(ANSWERS)
    assert not disagreements(objects, root)


def test_judges_agree_with_what_the_operator_writes_under_faults(root: Path) -> None:
    objects: dict[str, Object] = {}

    def note(collection: str, event: Event) -> None:
        if collection in ("stacks", "servers", "apps", "accounts") and event.new:
            live = event.new.obj
            ready = conditions(live).get("Ready", {})
            key = live["kind"], state_of(live), ready.get("status"), ready.get("reason"), len(live.get("status") or {})
            objects[str(key)] = live

    for seed in range(SEEDS):
        simulation = Simulation(schedule_of(seed))
        simulation.server.on_change.append(note)
        carry_out_simulation(simulation)
    states = {state_of(live) for live in objects.values()}
    assert states >= {"new", "changed", "waiting", "serving", "ready", "deleting"}
    assert not disagreements([*objects.values()], root)
