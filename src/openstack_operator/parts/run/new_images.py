"""A try of each new image, before a workload that has to end an old pod first replaces it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

from ... import kube
from ...api import PodSettings, Resources
from ...plan import Context, Object, Plan, ReleaseEntry, Step, key

NEW_IMAGES = "NewImages"
"""Condition that says what the tries of new images come to."""
_COMPONENT = "new-images"
_USER = 65534
"""User of no file and no other program."""
_TINY = PodSettings(resources=Resources(limits={"memory": "64Mi"}))
_SCHEDULING = ("nodeSelector", "tolerations", "priorityClassName", "serviceAccountName", "imagePullSecrets")
"""Fields of a pod that decide where it may run, and with which logins its node pulls."""


def image_container(name: str, image: str, version: str = "") -> kube.Container:
    """Return a container that runs `true` in an image: it ends well where the node can pull and start the image."""
    entry = ReleaseEntry(image, _USER, _USER, {"run": ("true",)}, version=version)
    return kube.Container(name=name, entry=entry, memory="4Mi", cpu="1m", settings=_TINY)


def with_image_trials(planner: Callable[[Context[Any]], Plan]) -> Callable[[Context[Any]], Plan]:
    """Return the function that plans a service, with a Job that tries the new images of each workload which ends an old
    pod before a new one starts. The workload keeps its old pods until that Job has succeeded.
    """

    @wraps(planner)
    def planned(ctx: Context[Any]) -> Plan:
        return _try_images(ctx, planner(ctx))

    return planned


def _try_images(ctx: Context[Any], plan: Plan) -> Plan:
    jobs: dict[str, Object] = {}
    needed: dict[Step, list[str]] = {}
    for step in plan:
        for obj in step.workloads:
            live = ctx.children.get(key(obj))
            if live is None or not _ends_old_pod_first(obj):
                continue
            if images := sorted(set(_images(obj)) - set(_images(live))):
                job = _job(ctx, obj, images)
                jobs[job["metadata"]["name"]] = job
                needed.setdefault(step, []).append(job["metadata"]["name"])
    if not jobs:
        return plan
    trials = {name: Step(name=NEW_IMAGES, objects=(job,), barrier=True) for name, job in jobs.items()}
    changed = {
        step: replace(step, after=(*step.after, *(trials[name] for name in dict.fromkeys(names))))
        for step, names in needed.items()
    }
    return plan.rearranged(changed, *trials.values(), name=NEW_IMAGES)


def _ends_old_pod_first(obj: Object) -> bool:
    """Return True for all workloads but a Deployment whose new pod starts while all old ones go on."""
    if obj["kind"] != "Deployment":
        return True
    strategy = obj["spec"].get("strategy") or {}
    return strategy.get("type") == "Recreate" or (strategy.get("rollingUpdate") or {}).get("maxSurge") == 0


def _images(obj: Object) -> Iterator[str]:
    pod = obj["spec"]["template"]["spec"]
    yield from (each["image"] for each in (*(pod.get("initContainers") or ()), *pod["containers"]))


def _job(ctx: Context[Any], obj: Object, images: list[str]) -> Object:
    """Return the Job that starts these images where a pod of the workload may run, without its volumes."""
    pod: Mapping[str, Any] = obj["spec"]["template"]["spec"]
    containers = [image_container(f"image-{index}", image) for index, image in enumerate(images)]
    template = kube.pod(ctx, _COMPONENT, *containers, settings=PodSettings(), grace=0)
    # Rules about other pods would keep it away from the node of the pod that it is tried for.
    affinity = {name: value for name, value in (pod.get("affinity") or {}).items() if name == "nodeAffinity"}
    scheduling = {name: pod.get(name) for name in _SCHEDULING} | {"affinity": affinity or None}
    spec = kube.drop_none({**template["spec"], **scheduling})
    return kube.job(ctx, _COMPONENT, {**template, "spec": spec})
