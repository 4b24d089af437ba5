"""What is done counts before Kubernetes says so: a program's start, and a job."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
COMMAND = ["agent-listens"]
SELDOM = kube.Probe.of_worker(COMMAND)
SELECTOR = {"app": "agent"}


def stamp(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(probe: kube.Probe = SELDOM, kind: str = "DaemonSet", **status: Any) -> Object:
    container = {"name": "main", "readinessProbe": probe.render(), "startupProbe": probe.render_start()}
    counts = {
        "DaemonSet": {"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1},
        "StatefulSet": {"replicas": 1, "currentRevision": "1", "updateRevision": "1"},
        "Deployment": {"replicas": 1, "updatedReplicas": 1},
    }
    template = {"metadata": {"labels": {"app": "agent", "tier": "node"}}, "spec": {"containers": [container]}}
    spec = {"template": template, **({} if kind == "DaemonSet" else {"replicas": 1})}
    meta = {"name": "agent", "generation": 1}
    return {
        "kind": kind,
        "metadata": meta,
        "spec": spec,
        "status": {"observedGeneration": 1, **counts[kind], **status},
    }


def pod(*, started: bool = True, began: float = 10, unready: float = 5, **changes: Any) -> Object:
    main = {"name": "main", "ready": False, "started": started, "state": {"running": {"startedAt": stamp(began)}}}
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(unready)}
    status = {"phase": "Running", "conditions": [ready], "containerStatuses": [{**main, **changes}]}
    return {"metadata": {"name": "agent-x", "creationTimestamp": stamp(4)}, "status": status}


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet", "Deployment"])
def test_startup_answers_for_two_minutes(kind: str) -> None:
    assert kube.started_until(workload(kind=kind), [pod()], []) == BEGAN + timedelta(seconds=130)


def test_the_first_of_several_pods_counts() -> None:
    two = workload(desiredNumberScheduled=2, currentNumberScheduled=2, updatedNumberScheduled=2)
    assert kube.started_until(two, [pod(began=30), pod()], []) == BEGAN + timedelta(seconds=130)
    ready = pod()
    ready["status"]["conditions"][0]["status"] = "True"
    assert kube.started_until(two, [pod(began=30), ready], []) == BEGAN + timedelta(seconds=150)


@pytest.mark.parametrize(
    ("live", "pods", "why"),
    [
        (workload(), [], "a pod is not there"),
        (workload(), [pod(), pod()], "a pod of before is there"),
        (workload(), [pod(started=False)], "it starts"),
        (workload(), [pod(state={"waiting": {"reason": "CrashLoopBackOff"}})], "it does not run"),
        (workload(), [pod(unready=60)], "a readiness probe failed after the start"),
        (workload(observedGeneration=0), [pod()], "its controller has not seen the change"),
        (workload(updatedNumberScheduled=0), [pod()], "the pod is of the template before"),
        (workload(kube.Probe(command=COMMAND)), [pod()], "the first probe comes within ten seconds"),
        (workload(kube.Probe(http=("/", 80))), [pod()], "clients reach it"),
        (workload(kind="StatefulSet", updateRevision="2"), [pod()], "the pod is of the template before"),
    ],
)
def test_nothing_less_is_enough(live: Object, pods: list[Object], why: str) -> None:
    assert kube.started_until(live, pods, []) is None, why


def test_another_startup_probe_tells_nothing_of_readiness() -> None:
    live = deepcopy(workload())
    live["spec"]["template"]["spec"]["containers"][0]["startupProbe"] = kube.Probe(command=["true"]).render_start()
    assert kube.started_until(live, [pod()], []) is None


def test_a_service_sends_clients_to_ready_pods_alone() -> None:
    of_one_pod = {"statefulset.kubernetes.io/pod-name": "agent-0"}
    assert kube.started_until(workload(), [pod()], [{"app": "other"}, {}, {**of_one_pod, "app": "other"}]) is not None
    for selector in (SELECTOR, {**SELECTOR, **of_one_pod}, of_one_pod):
        assert kube.started_until(workload(), [pod()], [selector]) is None


def test_a_container_without_a_probe_has_to_run() -> None:
    live, running = workload(), pod()
    live["spec"]["template"]["spec"]["containers"].append({"name": "beside"})
    beside = {"name": "beside", "state": {"running": {"startedAt": stamp(10)}}}
    running["status"]["containerStatuses"].append(beside)
    assert kube.started_until(live, [running], []) is not None
    beside["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert kube.started_until(live, [running], []) is None


def try_of_job(phase: str = "Running", *codes: int | None, uid: str = "job") -> Object:
    """A pod of a Job with a container for each code with which one ended; None is one that runs."""
    states = [{"running": {}} if code is None else {"terminated": {"exitCode": code}} for code in codes]
    containers = [{"name": f"c{number}", "state": state} for number, state in enumerate(states)]
    meta = {"name": "job-x", "ownerReferences": [{"kind": "Job", "name": "job", "uid": uid, "controller": True}]}
    return {"metadata": meta, "status": {"phase": phase, "containerStatuses": containers}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([try_of_job("Running", 0)], True),
        ([try_of_job("Failed", 1), try_of_job("Running", 0)], True),
        ([try_of_job("Succeeded")], True),
        ([], False),
        ([try_of_job("Pending")], False),
        ([try_of_job("Running", None)], False),
        ([try_of_job("Running", 0, None)], False),
        ([try_of_job("Failed", 1)], False),
        # Of a Job of the same name that is gone.
        ([try_of_job("Succeeded", 0, uid="another")], False),
    ],
)
def test_a_job_is_done_once_one_of_its_pods_ended_well(pods: list[Object], expected: bool) -> None:
    assert kube.job_succeeded({"metadata": {"name": "job", "uid": "job"}}, pods) is expected
