"""Why pods do not start, from objects of the shape Kubernetes gives them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from openstack_operator import kube
from openstack_operator.kube.pod_facts import unready_since
from openstack_operator.plan import Object, State
from openstack_operator.runtime.cache.entries import Request
from openstack_operator.runtime.cache.trimmed_pods import trimmed, workload_of
from openstack_operator.runtime.cache.warnings import warning
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.clock import steady
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import POD, WARNING, Catalog, Kind
from openstack_operator.runtime.reconcile.apply_cache import ApplyCache
from openstack_operator.runtime.reconcile.diagnosis import Diagnostician
from openstack_operator.services.nova.model import NOVA

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWNERS = {"Deployment": ("ReplicaSet", "api-5b9"), "StatefulSet": ("StatefulSet", "api")}


def stamp(seconds: float = 0) -> str:
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(kind: str = "Deployment", *, limit: str = "", **status: Any) -> Object:
    container = {"name": "main", "resources": {"limits": {"memory": limit}} if limit else {}}
    spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    api = "batch/v1" if kind == "Job" else "apps/v1"
    meta = {"name": "api", "uid": "w", "generation": 1}
    counts = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, **status}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec, "status": counts}


def pod(
    name: str = "api-5b9-x", *, node: str = "node1", at: float = 0, kind: str = "Deployment", **status: Any
) -> Object:
    """A pod as the API server has it, that is not ready since it was made."""
    owner_kind, owner = OWNERS.get(kind, (kind, "api"))
    owners = [{"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": "o", "controller": True}]
    given = {entry["type"]: entry for entry in status.pop("conditions", ())}
    known = {"PodScheduled": "True", "Ready": "False", "ContainersReady": "False"}
    conditions = [
        {"type": type_, "status": value, "lastTransitionTime": stamp(at), **given.pop(type_, {})}
        for type_, value in known.items()
    ]
    meta = {"name": name, "namespace": "x", "uid": f"uid-{name}", "resourceVersion": "1", "ownerReferences": owners}
    return {
        "metadata": {**meta, "creationTimestamp": stamp(at), "labels": {"app": "api"}},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Pending", "conditions": [*conditions, *given.values()], **status},
    }


def container(state: Object, *, restarts: int = 0, last: Object | None = None, **fields: Any) -> Object:
    ended = {"lastState": {"terminated": last}} if last else {}
    known = {"name": "main", "ready": False, "restartCount": restarts, "image": "example.org/api:9", "imageID": ""}
    return {"containerStatuses": [{**known, "state": state, **ended, **fields}]}


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def ended(message: str = "", *, code: int = 1, reason: str = "Error", at: float = 40) -> Object:
    times = {"startedAt": stamp(at - 30), "finishedAt": stamp(at)}
    return {"exitCode": code, "reason": reason, "message": message, "containerID": "c", **times}


def event(reason: str, message: str, *, kind: str = "Pod", name: str = "api-5b9-x", at: float = 5) -> Object:
    about = {"kind": kind, "name": name, "namespace": "x", "uid": ""}
    meta = {"name": f"{name}.{reason}", "namespace": "x", "uid": reason, "resourceVersion": "3"}
    times = {"firstTimestamp": stamp(at), "lastTimestamp": stamp(at), "eventTime": None, "series": None}
    return {"metadata": meta, "involvedObject": about, "reason": reason, "message": message, "type": "Warning", **times}


def diagnose(
    live: Object, pods: Sequence[Object] = (), events: Sequence[Object] = (), *, after: float = 60
) -> kube.Diagnosis:
    """The diagnosis so many seconds later, by way of what the engine keeps of pods and Events."""
    known = [warning(msgspec.json.encode(each), WARNING).decode() for each in events]

    def about(kind: str, name: str, uid: str) -> list[Object]:
        return [e for e in known if (e["kind"], e["name"]) == (kind, name) and e["uid"] in ("", uid)]

    held = [trimmed(msgspec.json.encode(each), POD) for each in pods]
    mine = [each.decode() for each in held if workload_of(each.meta) == (live["kind"], "api")]
    ending = [each.decode() for each in held if each.meta.deletion_timestamp]
    now = BEGAN + timedelta(seconds=after)
    return kube.diagnose(live, kube.judge(live), mine, about, now, neighbours=ending)


NO_IMAGE = 'failed to pull and unpack image "example.org/api:9": example.org/api:9: not found'
# As containerd says it of a registry that got no login, and of one that got a wrong one.
NO_LOGIN = (
    'failed to resolve reference "example.org/api:9": pull access denied, repository does not exist or may require'
    " authorization: authorization failed: no basic auth credentials"
)
WRONG_LOGIN = "pulling from host example.org failed with status code [manifests 9]: 401 Unauthorized"
LOG_IN = (
    "create a Secret of type kubernetes.io/dockerconfigjson in this namespace, name it in imagePullSecrets of the"
    " ServiceAccount default, and delete the pod"
)
QUOTA = "exceeded quota: small, requested: pods=1, used: pods=9, limited: pods=9"
NO_CLASS = 'storageclass.storage.k8s.io "fast" not found'
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data-api-0"}}
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
OOM = ended("", code=137, reason="OOMKilled")


def unscheduled(message: str, **spec: Any) -> Object:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    found = pod(node="", conditions=[said])
    found["spec"] |= spec
    return found


def refusal(kind: str) -> Object:
    what = f'create Pod api-0 in {kind} api failed error: pods "api-0" is forbidden: {QUOTA}'
    return event("FailedCreate", what, kind=kind, name="api")


CASES: dict[str, tuple[str, str, Object, list[Object], list[Object]]] = {
    "pull": (
        "ImagePullFailed",
        "pod api-5b9-x on node node1 cannot pull the image example.org/api:9 of container main: not found; correct",
        workload(),
        [pod(**container(waiting("ErrImagePull", NO_IMAGE)))],
        [],
    ),
    "no login": (
        "ImagePullFailed",
        f"of container main: {NO_LOGIN.partition(': ')[2]}; correct the image, or log in to its registry: {LOG_IN}",
        workload(),
        [pod(**container(waiting("ErrImagePull", NO_LOGIN)))],
        [],
    ),
    "wrong login": (
        "ImagePullFailed",
        f"{WRONG_LOGIN}; correct the image, or log in to its registry: create a Secret",
        workload(),
        [
            pod(
                **container(
                    waiting("ImagePullBackOff", f'Back-off pulling image "r.org/api:9": ErrImagePull: {WRONG_LOGIN}')
                )
            )
        ],
        [],
    ),
    "back-off": (
        "ImagePullFailed",
        "cannot pull the image example.org/api:9 of container main: not found; correct",
        workload(),
        [
            pod(
                **container(
                    waiting("ImagePullBackOff", f'Back-off pulling image "example.org/api:9": ErrImagePull: {NO_IMAGE}')
                )
            )
        ],
        [],
    ),
    "back-off of an older kubelet": (
        "ImagePullFailed",
        "of container main: not found; correct",
        workload(),
        [pod(**container(waiting("ImagePullBackOff", 'Back-off pulling image "example.org/api:9"')))],
        [
            event("Failed", f'Failed to pull image "example.org/api:9": {NO_IMAGE}'),
            event("Failed", "Error: ErrImagePull", at=6),
        ],
    ),
    "unschedulable": (
        "Unschedulable",
        "pod api-5b9-x cannot be scheduled: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity",
        workload(),
        [unscheduled("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity.")],
        [],
    ),
    "no such StorageClass": (
        "VolumeNotBound",
        f"has no volume: claim data-api-0 is not bound: {NO_CLASS}; create that StorageClass, or name another",
        workload(),
        [unscheduled(UNBOUND, volumes=[CLAIM])],
        [event("ProvisioningFailed", NO_CLASS, kind="PersistentVolumeClaim", name="data-api-0")],
    ),
    "a claim nobody speaks of": (
        "VolumeNotBound",
        "look at claim data-api-0 and its StorageClass",
        workload(),
        [unscheduled(UNBOUND, volumes=[CLAIM])],
        [],
    ),
    "no such key": (
        "ContainerConfigError",
        "cannot start container main: couldn't find key url in Secret x/api; create the missing object",
        workload(),
        [pod(**container(waiting("CreateContainerConfigError", "couldn't find key url in Secret x/api")))],
        [],
    ),
    "no such program": (
        "ContainerStartFailed",
        'cannot start container main: RunContainerError: exec: "nova": executable file not found',
        workload(),
        [pod(**container(waiting("RunContainerError", 'exec: "nova": executable file not found')))],
        [],
    ),
    "crash loop": (
        "CrashLoop",
        "cannot keep container main running: exit code 1; its log ends: ValueError: many is no number",
        workload(),
        [
            pod(
                **container(
                    waiting("CrashLoopBackOff"), restarts=2, last=ended("Traceback\nValueError: many is no number\n")
                )
            )
        ],
        [],
    ),
    "end without an error": (
        "CrashLoop",
        "exit code 0; read its log with kubectl logs --previous",
        workload(),
        [pod(**container(waiting("CrashLoopBackOff"), restarts=2, last={"exitCode": 0, "reason": "Completed"}))],
        [],
    ),
    "crash loop of uWSGI": (
        "CrashLoop",
        "cannot keep container main running: exit code 22; its log says: ValueError: many is no number",
        workload(),
        [
            pod(
                **container(
                    waiting("CrashLoopBackOff"),
                    restarts=2,
                    last=ended(
                        'Traceback (most recent call last):\n  File "/a.py", line 1, in <module>\n'
                        "ValueError: many is no number\n*** no app loaded. GAME OVER ***\nVACUUM: pidfile removed.\n",
                        code=22,
                    ),
                )
            )
        ],
        [],
    ),
    "crash loop while it runs again": (
        "CrashLoop",
        "exit code 1; its log ends: no",
        workload(),
        [pod(phase="Running", **container({"running": {"startedAt": stamp(50)}}, restarts=2, last=ended("no")))],
        [],
    ),
    "out of memory": (
        "OutOfMemory",
        "container main was killed out of memory at its limit of 10Mi; raise the limit",
        workload(limit="10Mi"),
        [pod(**container(waiting("CrashLoopBackOff"), restarts=1, last=OOM))],
        [],
    ),
    "a liveness probe": (
        "ProbeFailed",
        "Kubernetes ends it, since its liveness probe failed: HTTP probe failed with statuscode: 500",
        workload(),
        [pod(**container(waiting("CrashLoopBackOff"), restarts=1, last=ended("", code=137)))],
        [event("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500", at=35)],
    ),
    "a readiness probe": (
        "ProbeFailed",
        "cannot get ready: container main runs, but its readiness probe failed: HTTP probe failed with statuscode: 503",
        workload(),
        [pod(phase="Running", **container({"running": {"startedAt": stamp(2)}}))],
        [event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", at=9)],
    ),
    "a volume that is not mounted": (
        "VolumeNotMounted",
        'cannot mount a volume: MountVolume.SetUp failed for volume "data" : no such device',
        workload(),
        [pod(**container(waiting("ContainerCreating")))],
        [event("FailedMount", 'MountVolume.SetUp failed for volume "data" : no such device')],
    ),
    "no network": (
        "SandboxFailed",
        "has no network or sandbox on the node: plugin bridge failed",
        workload(),
        [pod(**container(waiting("ContainerCreating")))],
        [event("FailedCreatePodSandBox", "plugin bridge failed")],
    ),
    "a quota, of a Deployment": (
        "PodsRefused",
        f'Kubernetes refuses its pods: pods "api-5b9-" is forbidden: {QUOTA}; raise the quota, or lower',
        workload(
            conditions=[
                {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "lastTransitionTime": stamp(),
                    "message": f'pods "api-5b9-" is forbidden: {QUOTA}',
                }
            ]
        ),
        [],
        [],
    ),
    "a quota, of a StatefulSet": (
        "PodsRefused",
        f'api: 0/1 pods ready; Kubernetes refuses its pods: pods "api-0" is forbidden: {QUOTA}',
        workload("StatefulSet", replicas=0, currentRevision="a", updateRevision="a"),
        [],
        [refusal("StatefulSet")],
    ),
    "a policy, of a DaemonSet": (
        "PodsRefused",
        'Kubernetes refuses its pods: pods "api-x" is forbidden: violates PodSecurity "baseline": privileged; label',
        workload("DaemonSet", desiredNumberScheduled=1, currentNumberScheduled=0),
        [],
        [
            event(
                "FailedCreate",
                'Error creating: pods "api-x" is forbidden: violates PodSecurity "baseline": privileged',
                kind="DaemonSet",
                name="api",
            )
        ],
    ),
    "a claim that is being deleted, of a StatefulSet": (
        "PodsRefused",
        "refuses its pods: pvc data-api-0 is being deleted; after its deletion, Kubernetes creates a new, empty claim",
        workload("StatefulSet", replicas=0, currentRevision="a", updateRevision="a"),
        [],
        [
            event(
                "FailedCreate",
                "create Pod api-0 in StatefulSet api failed error: pvc data-api-0 is being deleted",
                kind="StatefulSet",
                name="api",
            )
        ],
    ),
    "a claim that is being deleted, of a pod": (
        "VolumeNotBound",
        'has no volume: persistentvolumeclaim "data-api-0" is being deleted; after its deletion',
        workload(),
        [unscheduled('persistentvolumeclaim "data-api-0" is being deleted', volumes=[CLAIM])],
        [],
    ),
    "a quota, of a Job": (
        "PodsRefused",
        f'job api is running; Kubernetes refuses its pods: pods "api-0" is forbidden: {QUOTA}',
        workload("Job"),
        [],
        [refusal("Job")],
    ),
    "a try of a Job": (
        "CrashLoop",
        "job api is running, 1 try failed; pod api-0 on node node1 ended: exit code 1; its log ends: no database",
        workload("Job", failed=1),
        [
            pod("api-0", kind="Job", phase="Failed", **container({"terminated": ended("no database")})),
            pod("api-1", kind="Job", at=50, **container(waiting("ContainerCreating"))),
        ],
        [],
    ),
    "a node that is gone": (
        "NodeLost",
        "pod api-5b9-x on node node1 cannot be reached: the node does not report; repair it",
        workload(),
        [pod(phase="Running", conditions=[{"type": "ContainersReady", "status": "True"}])],
        [],
    ),
    "a node that is full": (
        "Evicted",
        "was ended by Kubernetes (Evicted): The node was low on resource: memory",
        workload(),
        [pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory. ")],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cause_is_a_reason_and_a_sentence(name: str) -> None:
    reason, text, live, pods, events = CASES[name]
    found = diagnose(live, pods, events, after=59).verdict
    assert (found.reason, found.state) == (reason, State.PROGRESSING)
    assert text in found.message
    assert found.message.startswith(("api: ", "job api "))


@pytest.mark.parametrize("name", CASES)
def test_lasting_causes_are_failures(name: str) -> None:
    reason, _, live, pods, events = CASES[name]
    # The cause is still there: what crashed has just done so again.
    found = diagnose(live, pods, events, after=599 if reason == "CrashLoop" else 610).verdict
    heals = reason in {"NodeLost", "Evicted"} or (live["kind"] == "Job" and reason == "CrashLoop")
    assert (found.state, found.reason) == (State.PROGRESSING if heals else State.FAILED, reason)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (QUOTA, "raise the quota"),
        ("failed quota: small: must specify limits.memory", "set what it must specify in spec.defaultResources"),
        ('violates PodSecurity "baseline:latest": host namespaces', "label the namespace pod-security"),
        ('Internal error occurred: failed calling webhook "v.example.org": no route', "let the API server reach"),
        ('admission webhook "v.example.org" denied the request: no', "change the policy of that webhook"),
        ("no reason that anybody knows", "change the named policy"),
    ],
)
def test_the_advice_is_for_what_the_api_server_names(said: str, advice: str) -> None:
    live = workload("StatefulSet", replicas=0, currentRevision="a", updateRevision="a")
    what = f"create Pod api-0 in StatefulSet api failed error: {said}"
    verdict = diagnose(live, [], [event("FailedCreate", what, kind="StatefulSet", name="api")]).verdict
    assert f"{said}; {advice}" in verdict.message
    assert ("quota" in verdict.message) == ("quota" in said)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("pull", 300),
        ("unschedulable", 300),
        ("no such key", 60),
        ("no such StorageClass", 60),
        ("a readiness probe", 600),
    ],
)
def test_the_engine_comes_again_when_time_alone_changes_the_verdict(name: str, seconds: float) -> None:
    _, _, live, pods, events = CASES[name]
    found = diagnose(live, pods, events, after=40)
    assert found.changes_at == BEGAN + timedelta(seconds=seconds)
    assert diagnose(live, pods, events, after=seconds).verdict.state is State.FAILED
    assert diagnose(live, pods, events, after=seconds - 1).verdict.state is State.PROGRESSING


MOUNTED = {"type": "PodReadyToStartContainers", "status": "True"}
NORMAL: dict[str, tuple[list[Object], list[Object]]] = {
    "it was not looked at yet": ([pod(node="", conditions=[{"type": "PodScheduled", "status": "True"}])], []),
    "it is being made": ([pod(**container(waiting("ContainerCreating")))], []),
    "it starts": (
        [pod(phase="Running", **container({"running": {"startedAt": stamp(1)}}))],
        [event("Unhealthy", "Startup probe failed: connection refused", at=3)],
    ),
    "it ended once": (
        [pod(phase="Running", **container({"running": {"startedAt": stamp(8)}}, restarts=1, last=ended("no", at=7)))],
        [],
    ),
    "an older container did not answer": (
        [pod(phase="Running", **container({"running": {"startedAt": stamp(9)}}))],
        [event("Unhealthy", "Readiness probe failed: 503", at=3)],
    ),
    "its volumes are there by now": (
        [pod(conditions=[MOUNTED], **container(waiting("ContainerCreating")))],
        [event("FailedMount", "failed to sync secret cache", at=1)],
    ),
    "its claim is being provided": ([unscheduled(UNBOUND, volumes=[CLAIM])], []),
    "it ends": ([{**(p := pod(**container(waiting("ImagePullBackOff")))),
                  "metadata": {**p["metadata"], "deletionTimestamp": stamp(9)}}], []),
    "another workload's cannot": ([pod(kind="StatefulSet", **container(waiting("ImagePullBackOff")))], []),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMAL)
def test_a_usual_start_is_nothing_but_a_count(name: str) -> None:
    pods, events = NORMAL[name]
    found = diagnose(workload(), pods, events, after=1 if "claim" in name else 12)
    assert (found.verdict.state, found.verdict.message, found.verdict.reason) == (
        State.PROGRESSING,
        "api: 0/1 pods ready",
        "",
    )


STARTUP = {"httpGet": {"path": "/", "port": 1}, "periodSeconds": 1, "failureThreshold": 600}
UNANSWERED = event("Unhealthy", "Startup probe failed: connection refused", at=12)
RUNNING: Object = {"running": {"startedAt": stamp(50)}}


def with_probe(probe: Object) -> Object:
    """A Deployment with that startup probe."""
    live = workload()
    live["spec"]["template"]["spec"]["containers"][0]["startupProbe"] = probe
    return live


@pytest.mark.parametrize("after", [41, 51, 59, 85, 599])
def test_a_crash_stays_a_crash_while_the_container_starts_again(after: float) -> None:
    """A program that crashes while it starts answers no probe, either."""
    live = with_probe(STARTUP)
    state = waiting("CrashLoopBackOff") if after < 50 else RUNNING
    one = pod(phase="Running", **container(state, restarts=1 + (after > 50), last=ended("ValueError: no")))
    verdict = diagnose(live, [one], [UNANSWERED], after=after).verdict
    assert (verdict.reason, "ValueError: no" in verdict.message) == ("CrashLoop", True)


@pytest.mark.parametrize(
    ("probe", "lived", "reason"),
    [
        (STARTUP, 500, "CrashLoop"),
        (STARTUP, 600, "ProbeFailed"),
        (kube.Probe(command=["true"]).render_start(), 300, "CrashLoop"),
        (kube.Probe(command=["true"]).render_start(), 700, "ProbeFailed"),
        (kube.Probe(http=("/", 1)).render_start(), 500, "CrashLoop"),
    ],
)
def test_kubernetes_ends_only_what_it_has_asked_often_enough(probe: Object, lived: float, reason: str) -> None:
    live = with_probe(probe)
    last = {**ended("no"), "startedAt": stamp(), "finishedAt": stamp(lived)}
    one = pod(phase="Running", **container(waiting("CrashLoopBackOff"), restarts=2, last=last))
    assert diagnose(live, [one], [UNANSWERED], after=lived + 1).verdict.reason == reason


def test_time_before_a_restart_does_not_count_as_running() -> None:
    running = {"running": {"startedAt": stamp(40 + 300)}}
    one = pod(phase="Running", **container(running, restarts=6, last=ended("no")))
    unanswered = event("Unhealthy", "Startup probe failed: connection refused", at=345)
    assert diagnose(with_probe(STARTUP), [one], [unanswered], after=340 + 599).verdict.reason == "CrashLoop"
    assert diagnose(with_probe(STARTUP), [one], [unanswered], after=340 + 601).verdict.reason == "ProbeFailed"


def test_the_most_telling_container_is_named_in_any_order() -> None:
    crash = container(waiting("CrashLoopBackOff"), restarts=2, last=ended("no"))["containerStatuses"]
    no_secret = container(waiting("CreateContainerConfigError", 'secret "x" not found'), name="tls-proxy")
    both = [*crash, *no_secret["containerStatuses"]]
    for statuses in (both, both[::-1]):
        verdict = diagnose(workload(), [pod(containerStatuses=statuses)]).verdict
        assert (verdict.reason, "container tls-proxy" in verdict.message) == ("ContainerConfigError", True)


def test_the_most_telling_pod_comes_first_at_any_age() -> None:
    crash = container(waiting("CrashLoopBackOff"), restarts=2, last=ended("no"))
    slow = container({"running": {"startedAt": stamp(2)}})
    for ages in ((0, 9), (9, 0), (0, 0)):
        pods = [
            pod("api-5b9-a", phase="Running", at=ages[0], **crash),
            pod("api-5b9-b", phase="Running", at=ages[1], **slow),
        ]
        events = [event("Unhealthy", "Readiness probe failed: 503", name="api-5b9-b", at=9)]
        verdict = diagnose(workload(), pods, events).verdict
        assert verdict.reason == "CrashLoop"
        assert verdict.message.index("cannot keep") < verdict.message.index("cannot get ready")


def ends(seconds: float, grace: int, **meta: str) -> Object:
    """A pod that is ready and is to end at that time at the latest."""
    found = pod("api-5b9-a", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    found["metadata"] |= {"deletionTimestamp": stamp(seconds), "deletionGracePeriodSeconds": grace, **meta}
    return found


def test_a_slowly_ending_pod_is_named_with_its_reason() -> None:
    live = workload("DaemonSet", desiredNumberScheduled=1, currentNumberScheduled=1, numberReady=1)
    live["metadata"]["annotations"] = {kube.ENDING: "look at node NODE"}
    old = ends(1800, 1800)
    old["metadata"]["ownerReferences"][0] |= {"kind": "DaemonSet", "name": "api"}
    diagnosis = diagnose(live, [old], after=29)
    assert "ending" not in diagnosis.verdict.message, "most pods end within this time"
    assert diagnosis.changes_at == BEGAN + timedelta(seconds=30)
    verdict = diagnose(live, [old], after=31).verdict
    text = "pod api-5b9-a on node node1 is stopping, until 12:30 UTC at the latest; look at node node1"
    assert verdict.message == f"api: 1/1 pods ready, 0/1 have the change; {text}"
    assert (verdict.state, verdict.reason) == (State.PROGRESSING, "")
    late = diagnose(live, [old], after=1831).verdict
    assert late.message.endswith("pod api-5b9-a on node node1 should have stopped by 12:30 UTC: check its node")


def replaced(each: Object, daemon_set: str, owner: str = "nova") -> Object:
    """Make the pod one of a DaemonSet of Nova, whose pods the operator replaces."""
    each["metadata"]["ownerReferences"][0] |= {"kind": "DaemonSet", "name": daemon_set, "uid": daemon_set}
    each["metadata"]["annotations"] = {kube.TEMPLATE_DIGEST: "1"}
    each["metadata"]["labels"] = {kube.WATCHED: "true", kube.KIND: "nova", kube.INSTANCE: owner}
    return each


def test_a_node_that_changes_daemon_sets_waits_for_its_old_pod() -> None:
    """That one has half an hour for its work, and is of another workload."""
    counts = {"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberReady": 0, "updatedNumberScheduled": 1}
    live = workload("DaemonSet")
    live["status"] |= counts
    live["metadata"]["annotations"] = {kube.ENDING: "look at node NODE"}
    taken = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    new = replaced(unscheduled(taken, affinity=for_node("node1")), "api")
    old = replaced(ends(1800, 1800, name="old"), "other")
    for pods in ([new, old], [old, new]):
        verdict = diagnose(live, pods, after=1700).verdict
        assert (verdict.state, verdict.reason) == (State.PROGRESSING, "")
        text = "pod old on node node1 is stopping, until 12:30 UTC at the latest; look at node node1"
        assert verdict.message.endswith(text)
    elsewhere = replaced(ends(1800, 1800, name="old"), "other")
    elsewhere["spec"]["nodeName"] = "node2"
    of_another_nova = replaced(ends(1800, 1800, name="old"), "other", "nova2")
    libvirt = replaced(ends(1800, 1800, name="old"), "libvirt")
    del libvirt["metadata"]["annotations"]
    for each in (elsewhere, of_another_nova, libvirt):
        verdict = diagnose(live, [new, each], after=1700).verdict
        assert (verdict.state, verdict.reason) == (State.FAILED, "Unschedulable")


def test_the_operator_knows_pods_of_the_other_daemon_sets() -> None:
    world = World(cast("Client", None), Catalog([NOVA]), [], lambda change: None)
    live = workload("DaemonSet")
    live["status"] |= {"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberReady": 0}
    new = replaced(unscheduled("0/1 nodes are available", affinity=for_node("node1")), "api")
    for each in (new, replaced(ends(1800, 1800, name="old"), "other")):
        world.pods.put(trimmed(msgspec.json.encode(each), POD))
    request, began = Request(Kind.of(NOVA).handle, "x", "nova"), steady()
    now = BEGAN + timedelta(seconds=1700)
    verdict = Diagnostician(world, request, now, ApplyCache(), "", steady=began).judge(live)
    assert verdict.state is State.PROGRESSING
    assert "pod old on node node1 is stopping" in verdict.message


def for_node(name: str) -> Object:
    """Return the affinity that the controller of a DaemonSet gives a pod."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_a_pod_scheduled_late_has_its_time_from_then_on() -> None:
    """The kubelet says a little later that the pod is not ready."""
    new = pod(conditions=[{"type": "PodScheduled", "lastTransitionTime": stamp(1800)}])
    assert unready_since(new) == BEGAN
    new["status"]["conditions"] = [each for each in new["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert unready_since(new) == BEGAN + timedelta(seconds=1800)
    new["status"]["conditions"][0]["status"] = "False"
    assert unready_since(new) == BEGAN


def test_a_pod_that_ends_hides_no_cause() -> None:
    crash = pod("api-5b9-b", **container(waiting("CrashLoopBackOff"), restarts=2, last=ended("no")))
    verdict = diagnose(workload(), [ends(120, 120), crash], after=60).verdict
    assert verdict.reason == "CrashLoop"
    assert verdict.message.index("cannot keep") < verdict.message.index("is stopping")


def test_times_are_compared_as_times() -> None:
    """As text, 12:00:05.9 is earlier than 12:00:05."""
    one = pod(phase="Running", **container({"running": {"startedAt": stamp(5)}}))
    seen = {"firstTimestamp": None, "lastTimestamp": None, "eventTime": stamp(5).replace("Z", ".900000Z")}
    unanswered = {**event("Unhealthy", "Readiness probe failed: 503"), **seen}
    assert diagnose(workload(), [one], [unanswered]).verdict.reason == "ProbeFailed"


def test_a_refusal_of_an_earlier_time_is_no_cause_of_today() -> None:
    live = workload("StatefulSet", replicas=0, currentRevision="a", updateRevision="a")
    assert diagnose(live, [], [refusal("StatefulSet")], after=3600).verdict.reason == ""


def test_a_restart_of_months_ago_is_none_either() -> None:
    last = ended("no", at=-86400)
    running = pod(phase="Running", **container({"running": {"startedAt": stamp(-86000)}}, restarts=7, last=last))
    assert diagnose(workload(), [running]).verdict.message == "api: 0/1 pods ready"


def test_an_invalid_image_name_fails_at_once() -> None:
    one = pod(**container(waiting("InvalidImageName", 'couldn\'t parse image name "A:b:c"')))
    assert diagnose(workload(), [one], after=1).verdict.state is State.FAILED


def test_pods_with_one_cause_share_a_sentence() -> None:
    pods = [pod(f"api-5b9-{n}", at=n, **container(waiting("ErrImagePull", NO_IMAGE))) for n in range(3)]
    text = diagnose(workload(), pods).verdict.message
    assert "3 pods, such as api-5b9-2 on node node1, cannot pull" in text
    assert text.count("cannot pull") == 1


def test_many_causes_are_counted() -> None:
    pods = [pod(f"api-5b9-{n}", **container(waiting("RunContainerError", f"cause {n}"))) for n in range(5)]
    assert diagnose(workload(), pods).verdict.message.endswith("; and 2 other causes")


def test_an_evicted_pod_does_not_hide_the_present_one() -> None:
    gone = pod("api-5b9-a", phase="Failed", reason="Evicted", message="full")
    there = pod("api-5b9-b", at=9, **container(waiting("ContainerCreating")))
    assert diagnose(workload(), [gone, there]).verdict.message == "api: 0/1 pods ready"


def test_a_ready_workload_is_asked_nothing() -> None:
    done = workload(updatedReplicas=1, readyReplicas=1)
    assert diagnose(done, [pod(**container(waiting("ErrImagePull", NO_IMAGE)))]).verdict.ready


def test_a_refusal_before_the_last_pod_is_over() -> None:
    live = workload("StatefulSet", currentRevision="a", updateRevision="a")
    live["spec"]["replicas"] = 3
    known = [pod(f"api-{n}", at=n * 10, kind="StatefulSet") for n in range(2)]
    assert "refuses" in diagnose(live, known[:1], [refusal("StatefulSet")]).verdict.message
    assert diagnose(live, known, [refusal("StatefulSet")]).verdict.message == "api: 0/3 pods ready"


def test_an_old_event_of_a_claim_does_not_hide_the_scheduling_failure() -> None:
    earlier = event("ProvisioningFailed", NO_CLASS, kind="PersistentVolumeClaim", name="data-api-0")
    one = unscheduled("0/1 nodes are available: 1 Insufficient cpu.", volumes=[CLAIM])
    assert diagnose(workload(), [one], [earlier]).verdict.reason == "Unschedulable"


def test_a_deployment_that_kubernetes_gave_up_is_stalled() -> None:
    said = 'ReplicaSet "api-5b9" has timed out progressing.'
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": said}
    found = diagnose(workload(conditions=[late])).verdict
    assert (found.state, found.reason) == (State.FAILED, "ProgressDeadlineExceeded")


@pytest.mark.parametrize(
    "line",
    [
        "cannot connect to mysql://nova:hunter2@mariadb/nova",
        "refused: password=hunter2",
        '{"admin_password": "hunter2"}',
        "ERROR [auth] secret_key: hunter2, user: nova",
        "AUTH_TOKEN='hunter2'",
    ],
)
def test_a_log_is_quoted_without_passwords(line: str) -> None:
    one = pod(**container(waiting("CrashLoopBackOff"), restarts=1, last=ended(line)))
    text = diagnose(workload(), [one]).verdict.message
    assert "its log ends: " in text
    assert "***" in text
    assert "hunter2" not in text


def test_of_a_long_log_the_end_is_kept_without_passwords() -> None:
    line = f"cannot connect to mysql://nova:hunter2@mariadb/{'x' * 1012}"
    one = pod(**container(waiting("CrashLoopBackOff"), restarts=1, last=ended(line)))
    (kept,) = trimmed(msgspec.json.encode(one), POD).decode()["status"]["containerStatuses"]
    message = kept["lastState"]["terminated"]["message"]
    assert len(message) == 1024
    assert "er2" not in message


def test_a_quoted_job_log_drops_the_line_that_the_kubelet_cut() -> None:
    line = f"hunter2@mariadb/nova is down: {'x' * 2048}"
    one = pod("api-0", kind="Job", phase="Failed", **container({"terminated": ended(line)}))
    text = diagnose(workload("Job", failed=1), [one]).verdict.message
    assert "its log ends: " in text
    assert "hunter2" not in text


def test_of_a_pod_that_runs_hardly_anything_is_kept() -> None:
    running = container({"running": {"startedAt": stamp()}}, ready=True)
    live = pod(phase="Running", conditions=[{"type": "Ready", "status": "True"}], **running)
    live["spec"]["volumes"] = [CLAIM]
    kept = trimmed(msgspec.json.encode(live), POD)
    assert set(kept.decode()["status"]) == {"phase", "conditions"}
    assert len(kept.raw) < 600
