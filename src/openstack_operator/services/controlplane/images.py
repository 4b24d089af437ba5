"""Images that the nodes pull before the pods of the cloud need them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube
from ...api import PodSettings, ServiceSpec, Template
from ...parts.run.new_images import image_container
from ...plan import (
    Context,
    IgnoredFields,
    Object,
    Plan,
    Service,
    SpecError,
    State,
    Step,
    Verdict,
    changing,
    spec_images,
)
from .model import ControlPlaneSpec

CONDITION = "ImagesCached"
_COMPONENT = "images"
_NODES = (kube.CONTROL_PLANE, kube.COMPUTE, kube.NETWORK)
"""Labels of the nodes that run pods of a cloud, unless its templates choose others."""

Services = Iterable[tuple[Service, Template]]
"""Services that a cloud runs, with their templates."""


def image_cache(ctx: Context[ControlPlaneSpec], services: Services, *, encrypted: bool) -> tuple[Step, ...]:
    """Return the DaemonSet `<owner>-images`, if the cloud is to have one: an init container for each image, which ends
    at once, so that a pod that is ready proves that its node has all images. Kubelet does not remove them again while
    that pod exists. It serves no client, so all pods are replaced at once when an image changes.
    """
    images = _images(ctx, services, encrypted=encrypted) if ctx.spec.image_precaching.enabled else []
    if not images:
        return ()
    *earlier, last = (image_container(f"image-{index}", image, ctx.release.name) for index, image in enumerate(images))
    template = kube.pod(
        ctx, _COMPONENT, _sleeping(last), settings=_settings(ctx), node_selector={}, init=earlier, grace=0
    )
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}
    daemons = kube.workload(ctx, "DaemonSet", _COMPONENT, template, updateStrategy=strategy)
    return (Step(name=CONDITION, objects=(kube.annotated(daemons, {kube.BESIDE: "true"}), *_isolation(ctx))),)


def images_cached(ctx: Context[ControlPlaneSpec], steps: Sequence[Step]) -> Mapping[str, Verdict]:
    """Return the condition with the number of nodes that have all images; Ready does not follow from it."""
    return {CONDITION: _verdict(ctx, steps[0].objects[0])} if steps else {}


def ignored(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the fields that choose nodes, if no node pulls images before their pods need them."""
    if any(step.name == CONDITION for step in plan):
        return {}
    advice = "precaching is off; set enabled, or remove it"
    paths = ("imagePrecaching", "global.imagePrecaching")
    return {f"{path}.{field}": advice for path in paths for field in ("nodeSelector", "tolerations")}


def _isolation(ctx: Context[ControlPlaneSpec]) -> list[Object]:
    """Return the policies that let these pods connect to nothing, and be reached by nothing."""
    pods = {"matchLabels": kube.selector(ctx, _COMPONENT)}
    return [
        kube.obj(
            ctx,
            "NetworkPolicy",
            ctx.name(_COMPONENT, *suffix),
            "networking.k8s.io/v1",
            spec={"podSelector": pods, "policyTypes": [direction]},
        )
        for direction, suffix in (("Ingress", ()), ("Egress", ("egress",)))
    ]


def _verdict(ctx: Context[ControlPlaneSpec], daemons: Object) -> Verdict:
    live = ctx.live("DaemonSet", _COMPONENT)
    rollout, count = kube.Rollout(live), len(_names(daemons))
    if live is None or not rollout.is_observed or _names(live) != _names(daemons):
        return changing(f"nodes begin to pull {count} images")
    if not rollout.desired:
        return changing("no node has the labels that imagePrecaching.nodeSelector asks for")
    # An older pod may be ready as well, until it is replaced.
    nodes = min(rollout.ready, rollout.updated)
    text = f"{nodes} of {rollout.desired} nodes have all {count} images"
    if rollout.desired == 1:
        text = f"the node has all {count} images" if nodes else f"the node lacks some of the {count} images"
    # What pulls images serves no user, whatever its pods do.
    return Verdict(State.READY if nodes >= rollout.desired else State.PROGRESSING, text, serves=True)


def _names(daemons: Object) -> list[str]:
    pod = daemons["spec"]["template"]["spec"]
    return [each["image"] for each in (*pod.get("initContainers", ()), *pod["containers"])]


def _settings(ctx: Context[ControlPlaneSpec]) -> PodSettings:
    spec = ctx.spec.image_precaching
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]}
        for labels in _NODES
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"nodeAffinity": required} if spec.node_selector is None else None
    return PodSettings(node_selector=spec.node_selector, tolerations=spec.tolerations, affinity=affinity)


def _sleeping(container: kube.Container) -> kube.Container:
    # The first process of a container ignores the signal to stop; its pod has no time to do so.
    return replace(container, name="main", command=("sleep", "infinity"))


def _images(ctx: Context[ControlPlaneSpec], services: Services, *, encrypted: bool) -> list[str]:
    """Return the images of all services, sorted: those that their templates name, and those of the release for programs
    whose image no template replaces. The release's image is also in it if another one replaces it in some pods only.
    """
    return sorted(
        {image for service, template in services for image in _of_service(ctx, service, template, encrypted=encrypted)}
    )


def _of_service(
    ctx: Context[ControlPlaneSpec], service: Service, template: Template, *, encrypted: bool
) -> Iterator[str]:
    assert service.template is not None
    if getattr(template, "provider", "") == "external":
        return
    # Of other images nothing is known, not even a command that ends.
    if service.has_release_images:
        yield from spec_images(template).values()
    of_cloud = {"release": ctx.spec.release, "image_profile": ctx.spec.image_profile}
    unset = of_cloud.keys() & type(template).model_fields.keys() - template.model_fields_set
    try:
        release = ctx.releases(template.model_copy(update={name: of_cloud[name] for name in unset}))
    except SpecError:
        # Its own resource says so.
        return
    programs = service.template.programs
    programs = dict(programs(template) if callable(programs) else programs)
    if isinstance(template, ServiceSpec):
        programs["haproxy"] = ""
    if not encrypted and not getattr(template, "tls", None):
        programs.pop("haproxy", None)
    monitored = ctx.spec.monitoring.enabled or _value(template, "monitoring.enabled")
    for name, field in programs.items():
        if name.endswith("-exporter") and not monitored:
            continue
        if name in release and not (field and _value(template, field)):
            entry, version = release[name], str(_value(template, "version") or "")
            yield entry.versions.get(version, entry).image


def _value(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
