"""A change under way is no outage: Ready stays True while all that served still serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import Dependency
from openstack_operator.kube import complete_since, dependency_verdict
from openstack_operator.plan import (
    READY,
    Key,
    Object,
    Plan,
    State,
    Step,
    Verdict,
    changing,
    failed,
    key,
    progressing,
    recovering,
    waiting,
)
from openstack_operator.runtime.cache.entries import Cached, entry
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, JOB, SECRET, Kind
from openstack_operator.runtime.reconcile.report import Report, status
from openstack_operator.runtime.rollout.still_serving import still_serves, still_serves_without_plan, with_service

OURS = "openstack.k8s.io/v1alpha1"
UNDER_WAY = progressing("under way")


def workload(
    kind: str = "Deployment", name: str = "api", *, pods: int = 1, ready: int = 0, seen: bool = True
) -> Object:
    counts: Mapping[str, Any] = {"replicas": pods, "readyReplicas": ready}
    if kind == "DaemonSet":
        counts = {"desiredNumberScheduled": pods, "numberReady": ready}
    status = {"observedGeneration": 1, **counts} if seen else {}
    metadata = {"name": name, "generation": 2}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": pods}, "status": status}


def resource(kind: str, ready: str = "", **fields: Any) -> Object:
    conditions = [{"type": "Ready", "status": ready, "observedGeneration": 1}] if ready else []
    live = {"apiVersion": OURS, "kind": kind, "metadata": {"name": kind.lower(), "generation": 2}, "spec": {}}
    return {**live, **fields, "status": {**fields.get("status", {}), "conditions": conditions}}


def job(name: str = "db-sync") -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {}, "status": {"active": 1}}


def step(name: str, *objects: Object, after: tuple[Step, ...] = (), verdict: Verdict | None = None) -> Step:
    return Step(name=name, objects=objects, after=after, verdict=verdict)


def serves(*steps: Step, is_installed: bool = False, absent: tuple[Object, ...] = ()) -> bool:
    """Whether a resource serves of which none of these steps is done."""
    lives: dict[Key, Object] = {key(obj): obj for each in steps for obj in each.objects if obj not in absent}
    verdicts = dict.fromkeys(steps, UNDER_WAY)
    return still_serves(Plan(*steps), verdicts, lambda obj: lives.get(key(obj)), is_installed=is_installed)


def test_labels_of_pods_say_nothing_of_a_service() -> None:
    server = step("Server", workload("StatefulSet", pods=3, ready=2))
    roles = step("Roles", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server-0", "uid": "u"}})
    lives = {key(obj): obj for obj in server.objects}
    # As the engine does, which watches pods otherwise than the rest of a plan: it knows none by its kind.
    assert still_serves(
        Plan(server, roles), {server: UNDER_WAY, roles: READY}, lambda obj: lives[key(obj)], is_installed=True
    )


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (workload(ready=1), True),
        (workload(ready=0), False),
        (workload(pods=3, ready=2), True),
        (workload(pods=3, ready=1), False),
        (workload("StatefulSet", ready=1), True),
        (workload("StatefulSet", ready=0), False),
        (workload("StatefulSet", pods=3, ready=2), True),
        (workload("StatefulSet", pods=3, ready=1), False),
        (workload("DaemonSet", pods=1, ready=0), False),
        (workload("DaemonSet", pods=2, ready=1), True),
        (workload("DaemonSet", pods=15, ready=10), True),
        (workload("DaemonSet", pods=10, ready=4), False),
        (workload("DaemonSet", seen=False), False),
        (workload(seen=False), False),
    ],
)
def test_a_workload_serves_while_its_budget_of_pods_is_ready(live: Object, expected: bool) -> None:
    assert kube.serves(live) is expected
    assert serves(step("API", live)) is expected


def test_a_new_account_or_schema_does_not_interrupt_running_programs() -> None:
    database, schema = step("Database", resource("MariaDBDatabase")), step("Schema", job())
    assert serves(database, schema, step("API", workload(ready=1), after=(database, schema)))
    assert not serves(database, schema, step("API", workload(ready=0), after=(database, schema)))


def test_a_first_installation_is_not_ready_before_its_last_step() -> None:
    api = step("API", workload(ready=1))
    assert not serves(api, step("Endpoint", resource("KeystoneService"), after=(api,)))
    assert not serves(api, step("Cells", job(), after=(api,)))
    catalog = resource("KeystoneService")
    assert not serves(api, step("Endpoint", catalog, after=(api,)), absent=(catalog,))
    other = workload(name="other", ready=0)
    assert not serves(api, step("Other", other), absent=(other,), is_installed=True)


def test_a_job_that_ends_a_change_does_not_interrupt_an_installed_service() -> None:
    api = step("API", workload(ready=1))
    assert serves(api, step("Cells", job(), after=(api,)), is_installed=True)
    assert serves(api, step("Endpoint", resource("KeystoneService", "True"), after=(api,)))


def test_a_program_that_does_not_serve_is_an_outage() -> None:
    conductor = step("Conductor", workload(name="conductor", ready=0))
    assert not serves(conductor, step("API", workload(ready=1), after=(conductor,)), is_installed=True)


def test_a_cloud_serves_while_installed_services_do_and_one_is_added() -> None:
    keystone = step("keystone", resource("Keystone", "True", status={"release": "2025.1"}, spec={"release": "2025.1"}))
    new_heat = step("heat", resource("Heat", "False", spec={"release": "2025.1"}))
    broken_heat = step("heat", resource("Heat", "False", spec={"release": "2025.1"}, status={"release": "2025.1"}))
    check = step("Preflight", verdict=progressing("check of release 2026.1"))
    assert serves(keystone)
    assert serves(keystone, new_heat, check, is_installed=True)
    assert not serves(keystone, new_heat)
    assert not serves(keystone, broken_heat, is_installed=True)


def test_a_services_own_verdict_outweighs_its_pods() -> None:
    members = workload("StatefulSet", pods=3, ready=2)
    assert not serves(step("Server", members, verdict=recovering("a member comes back")))
    assert not serves(
        step("API", workload(ready=1)),
        step("OVN", verdict=Verdict(State.PROGRESSING, "", serves=False)),
        is_installed=True,
    )
    assert serves(
        step("Server", members), step("Version", verdict=Verdict(State.PROGRESSING, "one by one", serves=True))
    )


def test_pulling_images_is_no_outage() -> None:
    pulling = step("Images", workload("DaemonSet", "images", pods=2), verdict=changing("1 of 2 nodes have all images"))
    assert serves(step("API", workload(ready=1)), pulling)


def written(verdict: Verdict, old: Object | None = None, **report: Any) -> Object:
    """The resource with the status that this verdict becomes."""
    new = status(Report(conditions={"Ready": verdict}, has_progress=True, **report), old or {}, 2)
    return {"apiVersion": OURS, "kind": "Placement", "metadata": {"name": "it", "generation": 2}, "status": new}


def kstatus(live: Object) -> str:
    """The rules of sigs.k8s.io/cli-utils/pkg/kstatus for kinds that it does not know, in their order."""
    conditions = {each["type"]: each["status"] for each in live["status"]["conditions"]}
    if live["status"]["observedGeneration"] != live["metadata"]["generation"]:
        return "InProgress"
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


@pytest.mark.parametrize(
    ("verdict", "ready", "progress", "tools"),
    [
        (READY, ("True", "Ready"), ("False", "Complete"), "Current"),
        (
            Verdict(State.PROGRESSING, "1/2", serves=True),
            ("True", "Progressing"),
            ("True", "Progressing"),
            "InProgress",
        ),
        (progressing("0/1"), ("False", "Progressing"), ("True", "Progressing"), "InProgress"),
        (Verdict(State.WAITING, "", serves=True), ("True", "Waiting"), ("True", "Waiting"), "InProgress"),
        (
            Verdict(State.PROGRESSING, "pod", "ImagePullFailed", serves=True),
            ("True", "ImagePullFailed"),
            ("True", "ImagePullFailed"),
            "InProgress",
        ),
        (
            Verdict(State.FAILED, "pod", "ImagePullFailed", serves=True),
            ("True", "ImagePullFailed"),
            ("False", "ImagePullFailed"),
            "Failed",
        ),
        (failed("spec.a", "InvalidSpec"), ("False", "InvalidSpec"), ("False", "InvalidSpec"), "Failed"),
        (Verdict(State.RETRYING, "", serves=True), ("Unknown", "Retrying"), ("True", "Retrying"), "InProgress"),
    ],
)
def test_tools_see_a_change_that_is_under_way(
    verdict: Verdict, ready: tuple[str, str], progress: tuple[str, str], tools: str
) -> None:
    live = written(verdict)
    conditions = kube.conditions(live)
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ready
    assert (conditions["Progressing"]["status"], conditions["Progressing"]["reason"]) == progress
    assert kstatus(live) == tools


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(State.PROGRESSING, "1/2", serves=True),
        Verdict(State.WAITING, "for a turn", "Waiting", serves=True),
        Verdict(State.FAILED, "pod", "ImagePullFailed", serves=True),
    ],
)
def test_dependents_of_a_changing_resource_wait_though_it_is_ready(verdict: Verdict) -> None:
    live = written(verdict)
    assert kube.conditions(live)["Ready"]["status"] == "True"
    assert kube.child_verdict(live).state is verdict.state
    assert not dependency_verdict(live, Dependency(kind="Placement", name="it")).ready
    assert complete_since(live) is None


def test_progress_is_in_the_message() -> None:
    live = written(Verdict(State.PROGRESSING, "Nova/nova: 0/1 pods ready", serves=True), progress_count="6 of 7")
    assert kube.conditions(live)["Progressing"]["message"] == "6 of 7 parts done; Nova/nova: 0/1 pods ready"


def test_a_status_of_an_earlier_version_keeps_its_completion_time() -> None:
    since = "2025-01-01T00:00:00Z"
    old = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": since}]}
    assert f"{complete_since(written(READY, old)):%Y-%m-%d}" == "2025-01-01"


def test_a_complete_resource_says_nothing_of_whether_it_serves() -> None:
    one = step("API", workload(ready=1))
    assert with_service(READY, Plan(one), {one: READY}, lambda obj: obj, is_installed=True) == READY
    assert with_service(waiting("x"), Plan(one), {one: waiting("x")}, lambda obj: obj, is_installed=True).serves


def child(live: Object, uid: str = "u") -> tuple[Kind, Cached]:
    owner = {"apiVersion": OURS, "kind": "Placement", "name": "it", "uid": uid, "controller": True}
    kind = next(kind for kind in (DEPLOYMENT, JOB, SECRET) if kind.kind == live["kind"])
    return kind, entry({**live, "metadata": {**live["metadata"], "ownerReferences": [owner]}}, kind)


def test_a_refused_spec_stops_no_pod() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    ready, down = child(workload(ready=1)), child(workload(name="other", ready=0))
    assert still_serves_without_plan([ready, child(secret), child(job())], "u", is_installed=True)
    assert not still_serves_without_plan([ready, down], "u", is_installed=True)
    assert not still_serves_without_plan([child(secret)], "u", is_installed=True), "a first installation"
    assert not still_serves_without_plan([ready], "u", is_installed=False)
    assert not still_serves_without_plan([child(workload(ready=1), "another")], "u", is_installed=True)
