"""What Kubernetes says of pods that do not start reaches the resource they are made for, and its parent."""

from __future__ import annotations

from typing import Any

from openstack_operator import api, kube
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, POD, STATEFUL_SET, WARNING, Kind
from openstack_operator.runtime.reconcile.report import stamp

from . import toy
from .harness import Cluster, eventually

ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")


async def make_pod(cluster: Cluster, name: str, resource: str, owner: tuple[str, str], **status: Any) -> None:
    """A pod of a workload as its controller makes it and its kubelet reports it."""
    if await cluster.get(ACCOUNT, "default") is None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
        await cluster.client.create(ACCOUNT, account)
    labels = {"app.kubernetes.io/managed-by": kube.MANAGED_BY, kube.KIND: resource, kube.INSTANCE: resource}
    reference = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}
    # Not by its uid: nobody has made that ReplicaSet, and the garbage collector would take the pod away.
    meta = {**cluster.meta(name), "labels": labels}
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    live = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    if owner[0] != "ReplicaSet":
        workload = await cluster.get(STATEFUL_SET, owner[1])
        assert workload
        reference["uid"] = workload["metadata"]["uid"]
    else:
        made = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": cluster.meta(owner[1]),
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": spec},
            },
        }
        made_set = await cluster.client.create(Kind("apps/v1", "ReplicaSet", "replicasets"), made)
        reference["uid"] = made_set["metadata"]["uid"]
    await cluster.client.create(POD, {**live, "metadata": {**meta, "ownerReferences": [reference]}})
    await cluster.client.merge_status(POD, cluster.namespace, name, {"phase": "Pending", **status})


def waits(reason: str, message: str) -> dict[str, Any]:
    known = {"name": "main", "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
    return {"containerStatuses": [{**known, "state": {"waiting": {"reason": reason, "message": message}}}]}


async def reason(cluster: Cluster, resource: api.Resource[Any], name: str, wanted: str) -> str:
    """The message of Ready, once that has this reason."""

    async def found() -> str:
        condition = await cluster.condition(resource, name)
        return condition.get("message", "") if condition.get("reason") == wanted else ""

    return await eventually(found)


async def test_an_image_pull_error_is_shown_by_the_resource_and_its_parent(cluster: Cluster):
    async with cluster.simulator("Deployment"), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await eventually(lambda: cluster.get(DEPLOYMENT, "app-api"))
        seen = {"observedGeneration": 1, "replicas": 1}
        await cluster.client.merge_status(DEPLOYMENT, cluster.namespace, "app-api", seen)
        await make_pod(cluster, "app-api-1-a", "app", ("ReplicaSet", "app-api-1"), **waits("ErrImagePull", "not found"))
        assert "pod app-api-1-a cannot pull the image x of container main: not found" in await reason(
            cluster, toy.APP, "app", "ImagePullFailed"
        )
        assert "pod app-api-1-a cannot pull" in await reason(cluster, toy.STACK, "stack", "ImagePullFailed")
        # Nothing heals that: both say so.
        bad = waits("InvalidImageName", "no image is called so")
        await cluster.client.merge_status(POD, cluster.namespace, "app-api-1-a", bad)

        async def stalled() -> bool:
            known = [await cluster.condition(*each, "Stalled") for each in ((toy.APP, "app"), (toy.STACK, "stack"))]
            return [each.get("reason") for each in known] == ["ImagePullFailed"] * 2

        await eventually(stalled)
        done = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}
        await cluster.client.merge_status(DEPLOYMENT, cluster.namespace, "app-api", done)
        await cluster.ready(toy.STACK, "stack")


async def test_a_warning_about_a_workload_is_taken_in_whoever_wrote_it_first(cluster: Cluster):
    """Refused pods are told of in Events alone; those of other things wake nobody."""
    async with cluster.simulator("StatefulSet"):
        await cluster.create(toy.SERVER, "server")
        async with cluster.operator() as manager:
            await eventually(lambda: cluster.get(STATEFUL_SET, "server-db"))
            await warn(cluster, "StatefulSet", "server-db", "FailedCreate", "failed error: exceeded quota: small")
            text = await reason(cluster, toy.SERVER, "server", "PodsRefused")
            assert "Kubernetes refuses its pods: exceeded quota: small" in text
            await warn(cluster, "Deployment", "another", "Other", "not ours")
            await warn(cluster, "StatefulSet", "server-db", "Last", "the one after")
            await eventually(lambda: _counts(manager, 2))
        # What was said while nobody listened is read at the start.
        async with cluster.operator() as manager:
            await eventually(lambda: _counts(manager, 2))


async def _counts(manager: Any, count: int) -> bool:
    return len(manager.world.warnings) == count


async def warn(cluster: Cluster, kind: str, name: str, cause: str, message: str) -> None:
    live = await cluster.get(STATEFUL_SET, name) or {"metadata": {"uid": "u"}, "apiVersion": "apps/v1"}
    about = {"kind": kind, "name": name, "namespace": cluster.namespace, "uid": live["metadata"]["uid"]}
    at = stamp()
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": cluster.meta(f"{name}.{cause.lower()}"),
        "involvedObject": {**about, "apiVersion": "apps/v1"},
        "reason": cause,
        "message": message,
        "type": "Warning",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": "test"},
    }
    await cluster.client.create(WARNING, body)
