"""Pods that end, one at a time, and all at once."""

from __future__ import annotations

from openstack_operator.kube import KIND
from tools.localcluster import faults

from ..journal import now
from ..scenario import Stage, scenario
from ..services import enabled
from ..site import OPERATOR, Object, until


def one_of_each(pods: list[Object]) -> dict[str, str]:
    """Return the pod to take of each kind of pod (its controller's name without digests), the last one by name: any
    member of a cluster will do, and pods of a Deployment are alike.
    """
    chosen: dict[str, str] = {}
    for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"]):
        labels = pod["metadata"].get("labels", {})
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        digest = labels.get("pod-template-hash", "")
        chosen[owner.removesuffix(f"-{digest}") if digest else owner] = pod["metadata"]["name"]
    return chosen


@scenario(1, "Each kind of pod killed (SIGKILL), one at a time")
def each_kind(stage: Stage) -> None:
    site = stage.site
    took: dict[str, float] = {}
    # In a cloud with services that are off by default, these alone: two processors cannot also take the rest, whose
    # pods the same scenario kills in a cloud without these services.
    services = enabled(site)
    chosen = [pod for pod in site.pods() if not services or pod["metadata"]["labels"].get(KIND) in services]
    for kind, pod in one_of_each(chosen).items():
        # A primary is the member whose loss is felt.
        primary = [p["metadata"]["name"] for p in site.pods() if _leads(p) and p["metadata"]["name"].startswith(kind)]
        victim = primary[0] if primary else pod
        began = now()
        faults.kill_pod(site.machine, site.namespace, victim)
        took[kind] = stage.await_recovery(f"kill of {victim}", began)
    leader = until("a leader of the operator", site.leader, 60)
    began = now()
    faults.kill_pod(site.machine, OPERATOR, leader)
    took["openstack-operator"] = stage.await_recovery(f"kill of {leader}", began)
    stage.note(recovered_seconds=took)


def _leads(pod: Object) -> bool:
    return pod["metadata"].get("labels", {}).get("openstack.k8s.io/role") == "primary"


@scenario(2, "Every pod of the cloud killed at once")
def all_at_once(stage: Stage) -> None:
    site = stage.site
    pods = len(site.pods())
    began = now()
    faults.kill_namespace(site.machine, site.namespace)
    stage.note(pods=pods)
    stage.await_recovery(f"kill of {pods} pods", began, timeout=600)
