"""Reasons why a service is not Ready: each is in the conditions within five seconds, as an Event, and goes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openstack_operator.cli.inspection.causes import CERTIFICATE_EXPIRED
from openstack_operator.cli.inspection.commands import NOT_READY
from tools.cloud.session import Cloud, Session
from tools.localcluster import faults as nodes
from tools.localcluster.kubernetes import Kubernetes
from tools.localcluster.layout import Cluster

from ..facts import ready_again
from . import faults
from .observe import Object, Seconds, Sign, observe

SOON = 5.0
"""Seconds from what Kubernetes says to both conditions."""
LOOKS = 2.0
"""Seconds two looks may take, beside other work of the machine."""
WHY = 2.0
"""Seconds in which `why` answers."""
CACHE = "memcached-server-0"
AGENT = "neutron-metadata-agent"
WANTED = "openstack.k8s.io/kind"


def waits(reason: str) -> Callable[[list[Object], list[Object]], bool]:
    """A container waits for this reason."""

    def reported(pods: list[Object], warnings: list[Object]) -> bool:
        del warnings
        statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", ())]
        return any(reason in status["state"].get("waiting", {}).get("reason", "") for status in statuses)

    return reported


def killed(pods: list[Object], warnings: list[Object]) -> bool:
    """A container was killed for its memory."""
    del warnings
    statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", ())]
    ended = (status.get("lastState", {}).get("terminated", {}) for status in statuses)
    return any(each.get("reason") == "OOMKilled" for each in ended)


def unschedulable(pods: list[Object], warnings: list[Object]) -> bool:
    """The scheduler has no node for a pod."""
    del warnings
    known = [condition for pod in pods for condition in pod["status"].get("conditions", ())]
    return any((each["type"], each["status"]) == ("PodScheduled", "False") for each in known)


def warned(reason: str, name: str) -> Callable[[list[Object], list[Object]], bool]:
    """A Warning of this reason about what is called so."""

    def reported(pods: list[Object], warnings: list[Object]) -> bool:
        del pods
        return any(w["reason"] == reason and name in w["involvedObject"]["name"] for w in warnings)

    return reported


def at_once(pods: list[Object], warnings: list[Object]) -> bool:
    """The operator needs no report of Kubernetes for it."""
    del pods, warnings
    return True


def unready(name: str) -> Callable[[list[Object], list[Object]], bool]:
    """The pod is no longer ready."""

    def reported(pods: list[Object], warnings: list[Object]) -> bool:
        del warnings
        known = [c for pod in pods if pod["metadata"]["name"].startswith(name) for c in pod["status"]["conditions"]]
        return any((each["type"], each["status"]) == ("Ready", "False") for each in known)

    return reported


def why(namespace: str) -> list[Object]:
    """Return the causes that `openstack-operator why` names for the cloud, the likeliest first."""
    command = [Path(sys.executable).with_name("openstack-operator"), "why", "-n", namespace, "-o", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == NOT_READY, result.stderr
    return json.loads(result.stdout)[0]["causes"]


@contextmanager
def edited(cluster: Kubernetes, cloud: Cloud, spec: Object, undo: Object) -> Generator[None]:
    """The control plane asks for something else for a while."""
    faults.change(cluster, cloud.namespace, cloud.name, spec)
    try:
        yield
    finally:
        faults.change(cluster, cloud.namespace, cloud.name, undo)


@contextmanager
def replaced(cluster: Kubernetes, cloud: Cloud, mutate: Callable[[Object], None]) -> Generator[None]:
    """The cache's pod is another one for a while."""
    try:
        faults.replace_pod(cluster, cloud.namespace, CACHE, mutate)
        yield
    finally:
        faults.limit_pods(cluster, cloud.namespace, None)
        faults.delete_pod(cluster, cloud.namespace, CACHE)


@contextmanager
def wrong_image(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    image = "registry.invalid/placement:9"
    with edited(cluster, cloud, {"placement": {"api": {"image": image}}}, {"placement": {"api": {"image": None}}}):
        yield Sign(
            kind="Placement", name="placement", reason="ImagePullFailed", text=image, reported=waits("ErrImagePull")
        )


@contextmanager
def no_node(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    label = {"no-such": "node"}
    undo = {"placement": {"api": {"nodeSelector": None}}}
    with edited(cluster, cloud, {"placement": {"api": {"nodeSelector": label}}}, undo):
        text = "didn't match Pod's node affinity/selector"
        yield Sign(kind="Placement", name="placement", reason="Unschedulable", text=text, reported=unschedulable)


@contextmanager
def no_storage_class(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    wanted = {"etcd": {"enabled": True, "storageClassName": "nowhere", "retention": "Delete"}}
    try:
        with edited(cluster, cloud, wanted, {"etcd": None}):
            text = '"nowhere" not found'
            yield Sign(
                kind="Etcd",
                name="etcd",
                reason="VolumeNotBound",
                text=text,
                reported=warned("ProvisioningFailed", "etcd"),
                stalls=True,
            )
    finally:
        cluster.kubectl("wait", "--for=delete", "pod/etcd-server-0", "-n", cloud.namespace, "--timeout=60s")
        claims = ("delete", "pvc", "data-etcd-server-0", "-n", cloud.namespace, "--ignore-not-found")
        cluster.kubectl(*claims)


@contextmanager
def no_key(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    def mutate(spec: Object) -> None:
        named = {"name": "memcached-extra", "key": "motto"}
        spec["containers"][0].setdefault("env", []).append({"name": "MOTTO", "valueFrom": {"secretKeyRef": named}})

    with replaced(cluster, cloud, mutate):
        yield Sign(
            kind="Memcached",
            name="memcached",
            reason="ContainerConfigError",
            text='secret "memcached-extra" not found',
            reported=waits("CreateContainerConfigError"),
            stalls=True,
        )


@contextmanager
def bad_option(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    def mutate(spec: Object) -> None:
        spec["containers"][0]["command"] = ["memcached", "--no-such-option"]

    with replaced(cluster, cloud, mutate):
        text = "its log ends: "
        reported = waits("CrashLoopBackOff")
        yield Sign(kind="Memcached", name="memcached", reason="CrashLoop", text=text, reported=reported)


@contextmanager
def not_mounted(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    def mutate(spec: Object) -> None:
        volume = {"name": "extra", "hostPath": {"path": "/no/such/folder", "type": "Directory"}}
        spec.setdefault("volumes", []).append(volume)
        spec["containers"][0].setdefault("volumeMounts", []).append({"name": "extra", "mountPath": "/extra"})

    with replaced(cluster, cloud, mutate):
        yield Sign(
            kind="Memcached",
            name="memcached",
            reason="VolumeNotMounted",
            text="hostPath type check failed",
            reported=warned("FailedMount", CACHE),
        )


@contextmanager
def out_of_memory(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    limit = {"resources": {"limits": {"memory": "24Mi"}}}
    # One process: where nodes have cgroups of version 1, of several the kernel ends one, and its parent makes another.
    with edited(cluster, cloud, {"nova": {"scheduler": limit}}, {"nova": {"scheduler": {"resources": None}}}):
        text = "out of memory at its limit of 24Mi"
        yield Sign(kind="Nova", name="nova", reason="OutOfMemory", text=text, reported=killed)


@contextmanager
def failing_probe(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    pods = cluster.items("pods", "-n", cloud.namespace, "-l", f"{WANTED}=placement")
    name = next(pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running")
    nodes.freeze(Cluster(), cloud.namespace, name)
    try:
        text = "readiness probe failed"
        yield Sign(kind="Placement", name="placement", reason="ProbeFailed", text=text, reported=unready(name))
    finally:
        nodes.thaw(Cluster(), cloud.namespace, name)


@contextmanager
def quota(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    faults.limit_pods(cluster, cloud.namespace, faults.running_pods(cluster, cloud.namespace))
    try:
        with edited(cluster, cloud, {"placement": {"replicas": 2}}, {"placement": {"replicas": None}}):
            yield Sign(
                kind="Placement",
                name="placement",
                reason="PodsRefused",
                text="exceeded quota: reasons",
                reported=warned("FailedCreate", "placement-api"),
                stalls=True,
            )
    finally:
        faults.limit_pods(cluster, cloud.namespace, None)


@contextmanager
def policy(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    faults.enforce(cluster, cloud.namespace, "baseline")
    try:
        (pod,) = [
            pod["metadata"]["name"]
            for pod in cluster.items("pods", "-n", cloud.namespace)
            if pod["metadata"]["name"].startswith(AGENT)
        ]
        faults.delete_pod(cluster, cloud.namespace, pod)
        yield Sign(
            kind="Neutron",
            name="neutron",
            reason="PodsRefused",
            text='violates PodSecurity "baseline:latest"',
            reported=warned("FailedCreate", AGENT),
        )
    finally:
        faults.enforce(cluster, cloud.namespace, "")


@contextmanager
def expired_certificate(cluster: Kubernetes, cloud: Cloud) -> Generator[Sign]:
    faults.store_expired_certificate(cluster, cloud.namespace, "expired")
    tls = {"tls": {"secretRef": {"name": "expired"}}}
    try:
        with edited(cluster, cloud, {"placement": tls}, {"placement": {"tls": None}}):
            yield Sign(
                kind="Placement",
                name="placement",
                reason="InvalidSpec",
                text="Secret 'expired': the certificate ended at",
                reported=at_once,
                why=CERTIFICATE_EXPIRED,
            )
    finally:
        cluster.kubectl("delete", "secret", "expired", "-n", cloud.namespace)


CAUSES = {
    "wrong image": wrong_image,
    "no node for it": no_node,
    "missing StorageClass": no_storage_class,
    "missing Secret": no_key,
    "bad option": bad_option,
    "volume not mounted": not_mounted,
    "too little memory": out_of_memory,
    "probe without an answer": failing_probe,
    "quota": quota,
    "Pod Security": policy,
    "expired certificate": expired_certificate,
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_reason_is_told_and_goes(name: str, stood: tuple[Session, Cloud], table: dict[str, Seconds]) -> None:
    cluster, cloud = stood[0].cluster, stood[1]
    ready_again(cluster, cloud)
    with CAUSES[name](cluster, cloud) as sign:
        found = table[name] = observe(sign, cloud.namespace, cloud.name)
        print(f"\n{name}: {found.message}")
        began = time.monotonic()
        causes = why(cloud.namespace)
        seconds = time.monotonic() - began
    ready_again(cluster, cloud, timeout=400)
    assert found.service is not None, "the service does not say so"
    assert found.plane is not None, "the control plane does not say so"
    assert max(found.service, found.plane) <= SOON + LOOKS
    assert found.event is not None
    assert not sign.stalls or found.stalled is not None
    assert causes[0]["reason"] == (sign.why or sign.reason), causes
    assert sign.text in causes[0]["message"]
    assert causes[0]["chain"][0] == f"OpenStackControlPlane/{cloud.name}"
    assert f"{sign.kind}/{sign.name}" in causes[0]["chain"]
    assert causes[0]["advice"]
    assert seconds <= WHY
