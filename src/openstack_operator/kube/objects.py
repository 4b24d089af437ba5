"""Kubernetes objects as plain dicts, written in the shape of the YAML they become."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..api import Autoscaling
from ..plan import (
    NAME_LIMIT,
    RELEASE_ANNOTATION,
    SHARED_FIELDS,
    STATEFUL_SET_LIMIT,
    Context,
    Object,
    SpecError,
    digest,
    fitting,
    shared_fields,
)

MANAGED_BY = "openstack-operator"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
NAME = "app.kubernetes.io/name"
VERSION = "app.kubernetes.io/version"
"""Of the program, never of the operator: pods roll for a change of it. No selector has it."""
KIND = "openstack.k8s.io/kind"
MAKERS_OF_SECRETS = ("cert-manager.io/", "external-secrets.io/")
"""Beginnings of the apiVersions of owners that a Secret may have beside a resource of ours, to which it still belongs:
another operator made it for us."""
WATCHED = "openstack.k8s.io/watched"
"""Label of pod templates, "true" where the plan looks at the pods themselves; all others are left to Kubernetes."""


def drop_none(value: Any) -> Any:
    """Return the value without map entries that are None, at every depth."""
    # Most values are texts, and a call for each would be a tenth of a plan.
    if isinstance(value, dict):
        return {
            k: v if type(v) is str or not isinstance(v, _COLLECTIONS) else drop_none(v)
            for k, v in cast("dict[str, Any]", value).items()
            if v is not None
        }
    if isinstance(value, (list, tuple)):
        return [
            entry if type(entry) is str or not isinstance(entry, _COLLECTIONS) else drop_none(entry)
            for entry in cast("Sequence[Any]", value)
        ]
    return value


_COLLECTIONS = (dict, list, tuple)


def labels(ctx: Context[Any], component: str = "") -> dict[str, str]:
    """Return the labels by which the operator finds its own objects; with a component, a selector for its pods."""
    owner_labels = {
        "app.kubernetes.io/managed-by": MANAGED_BY,
        "app.kubernetes.io/part-of": "openstack",
        KIND: ctx.kind.lower(),
        INSTANCE: ctx.name(),
    }
    return owner_labels | ({COMPONENT: fitting(component)} if component else {})


def selector(ctx: Context[Any], component: str) -> dict[str, str]:
    """Return the labels of a pod that never change, for selectors, which are immutable."""
    return pods_of(ctx.kind, ctx.owner) | {COMPONENT: fitting(component)}


def pods_of(kind: str, owner: str) -> dict[str, str]:
    """Return the labels of all pods of a resource of ours."""
    return {KIND: kind.lower(), INSTANCE: fitting(owner)}


def obj(ctx: Context[Any], kind: str, name: str, api: str = "v1", *, component: str = "", **body: Any) -> Object:
    """Return an object of this resource, in its namespace, with its labels."""
    metadata = {"name": fitting(name), "namespace": ctx.namespace, "labels": labels(ctx, component)}
    return drop_none({"apiVersion": api, "kind": kind, "metadata": metadata, **body})


def annotated(manifest: Object, annotations: Mapping[str, str]) -> Object:
    """Return the same object with more annotations."""
    metadata = manifest["metadata"]
    merged = {**metadata.get("annotations", {}), **annotations}
    return {**manifest, "metadata": {**metadata, "annotations": merged}}


BESIDE = "openstack.k8s.io/beside"
"""Annotation of a Job or workload that nothing needs: what it belongs to is as good while it runs or starts."""


REPORTS = "openstack.k8s.io/reports"
"""Annotation of a Job that has a message (`terminationMessagePath`) also if it succeeds: its condition shows that."""


ENDING = "openstack.k8s.io/ending"
"""Annotation of a workload: what its pods wait for before they end, and how to see that; NODE stands for their node."""
RETAIN = "openstack.k8s.io/retain"
"""Annotation of what outlives its owner: no owner reference, never pruned."""


PROTECTED = {
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "helm.sh/resource-policy": "keep",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}
"""Annotations of objects that may be without an owner and hold data that cannot be made again. An Argo CD that prunes
by label takes them for objects of its application: one named `mariadb` has the same label
`app.kubernetes.io/instance`.
"""


HANDED_OVER = "openstack.k8s.io/handed-over"
"""Annotation of an object that a plan creates once for its later owner: it has no owner yet and labels of its own, is
never changed or pruned by the plan, and one that exists must be the same."""


IRREPLACEABLE = "openstack.k8s.io/irreplaceable"
OF_VOLUMES = "openstack.k8s.io/of-volumes"
"""Annotation of a Secret that data elsewhere depend on: deleted by hand, it is restored with the same content."""


NODE_PORT = "NodePort"
"""Type of a Service that clients outside the cluster reach at a port of every node."""


REMEMBERED = "openstack.k8s.io/remembered"
"""Annotation of objects that are also restored with the same content, though new content would do: a Secret, so that
clients need not be replaced, or a Service with node ports, so that clients need not learn other ones.
"""


RECREATED = "openstack.k8s.io/recreation"
"""Finalizer of a resource that its owner creates again after a deletion: its children keep running meanwhile."""


FIELD = "openstack.k8s.io/field"
"""Annotation: the field of the owner's spec that decides about an object, named when it is refused."""


def recreated(resource: Object) -> Object:
    """Return the resource, marked to keep what it made unless its owner deletes it."""
    return {**resource, "metadata": {**resource["metadata"], "finalizers": [RECREATED]}}


def from_field(resource: Object, field: str, shared: Mapping[str, str] | None = None) -> Object:
    """Annotate a resource with its origin: `field` is the path of its template in its owner's spec; `shared` has the
    paths of fields that come from other places there, by name.
    """
    places = [name if path == f"spec.{name}" else f"{name}={path}" for name, path in sorted((shared or {}).items())]
    return annotated(resource, {FIELD: field} | ({SHARED_FIELDS: " ".join(places)} if places else {}))


def owner_path(resource: Mapping[str, Any], path: str) -> str | None:
    """Return the field of the owner's spec that sets `path` of a resource made from a template; None for other objects
    and fields.
    """
    annotations: Mapping[str, str] = resource["metadata"].get("annotations") or {}
    template = annotations.get(FIELD)
    if not template or not path.startswith("spec"):
        return None
    shared = shared_fields(annotations)
    within = path.removeprefix("spec").removeprefix(".")
    field = re.split(r"[.\[]", within, maxsplit=1)[0]
    if field in shared:
        return f"{shared[field]}{within.removeprefix(field)}"
    return f"{template}.{within}" if field else template


_FIELD_PATH = re.compile(r"\bspec(\.[A-Za-z0-9_-]+|\[[0-9]+\])+(?=: |, spec\.)")


def as_owner_says(resource: Mapping[str, Any], message: str) -> str:
    """Return a message about a resource made from a template, with the paths of fields as its owner's spec has them."""
    return _FIELD_PATH.sub(lambda path: owner_path(resource, path[0]) or path[0], message)


def refused_of_owner(child: Mapping[str, Any], error: SpecError) -> SpecError:
    """Return the API server's refusal of a resource made from a template (`Nova/nova spec.cells[0]: …`), by the field
    of its owner; for anything else the same error.
    """
    place = owner_path(child, error.path.partition(" ")[2])
    if place is None:
        return error
    return SpecError(place, as_owner_says(child, str(error).removeprefix(f"{error.path}: ")))


def is_dispensable(manifest: Mapping[str, Any]) -> bool:
    """Return True if nothing needs what an object runs."""
    return (manifest["metadata"].get("annotations") or {}).get(BESIDE) == "true"


def reporting(job: Object) -> Object:
    """Return the Job, marked to show the message of a success in its condition."""
    return annotated(job, {REPORTS: "true"})


def retained(manifest: Object) -> Object:
    """Return the object, marked to be kept when its owner is deleted, and adopted when the owner is created again."""
    return annotated(manifest, {RETAIN: "true", **PROTECTED})


def handed_over(manifest: Object) -> Object:
    """Return the object, marked to be created once for its later owner."""
    return annotated(manifest, {HANDED_OVER: "true"})


def irreplaceable(manifest: Object) -> Object:
    """Return the object, marked to be restored with its content when it is deleted (`Context.deleted_secrets`)."""
    return annotated(manifest, {IRREPLACEABLE: "true", **PROTECTED})


def of_volumes(manifest: Object) -> Object:
    """Return the object, marked to be true only as long as its volumes exist, which no backup holds."""
    return annotated(manifest, {OF_VOLUMES: "true"})


def remembered(manifest: Object) -> Object:
    """Return the object, marked to be restored like an irreplaceable one."""
    return annotated(manifest, {REMEMBERED: "true"})


def secret(ctx: Context[Any], name: str, data: Mapping[str, str], *, component: str = "") -> Object:
    """Return a Secret with `data`, plain text. It is written as base64, so that what is applied equals what is read
    back.
    """
    # Bytes that are no text come as `secret_data` has read them.
    encoded = {k: base64.b64encode(v.encode(errors="surrogateescape")).decode() for k, v in data.items()}
    return obj(ctx, "Secret", name, component=component, type="Opaque", data=encoded)


def service(
    ctx: Context[Any],
    name: str,
    ports: Mapping[str, int],
    target: Mapping[str, str],
    *,
    headless: bool = False,
    type_: str | None = None,
) -> Object:
    """Return a Service over the pods that `target` selects. Headless ones publish members before they are ready."""
    manifest = obj(
        ctx,
        "Service",
        name,
        spec={
            "type": None if headless else type_ or "ClusterIP",
            "clusterIP": "None" if headless else None,
            "publishNotReadyAddresses": headless or None,
            "selector": dict(target),
            "ports": [{"name": port, "port": number, "protocol": "TCP"} for port, number in ports.items()],
        },
    )
    return remembered(manifest) if type_ == NODE_PORT else manifest


def disruption_budget(ctx: Context[Any], name: str, target: Mapping[str, str]) -> Object:
    """Return a PodDisruptionBudget that allows one pod to be down for a drain or a node upgrade."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": dict(target)}}
    return obj(ctx, "PodDisruptionBudget", name, "policy/v1", spec=spec)


def network_policy(ctx: Context[Any], name: str, target: Mapping[str, str], rules: Sequence[Object]) -> Object:
    """Return a NetworkPolicy: pods that `target` selects accept what the rules of any of their policies allow, and
    nothing else.
    """
    spec = {"podSelector": {"matchLabels": dict(target)}, "policyTypes": ["Ingress"], "ingress": list(rules)}
    return obj(ctx, "NetworkPolicy", name, "networking.k8s.io/v1", spec=spec)


def labeled_pod(
    live: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Object:
    """Return that very pod with these labels and annotations, and without those an earlier plan gave it."""
    metadata = {name: live["metadata"][name] for name in ("name", "namespace", "uid")}
    added = {"labels": dict(labels), "annotations": dict(annotations or {}) or None}
    return drop_none({"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, **added}})


def autoscaler(ctx: Context[Any], target: Object, autoscaling: Autoscaling) -> Object:
    """Return a HorizontalPodAutoscaler of the same name as the workload it scales."""
    name = target["metadata"]["name"]
    average = {"type": "Utilization", "averageUtilization": autoscaling.cpu_utilization}
    return obj(
        ctx,
        "HorizontalPodAutoscaler",
        name,
        "autoscaling/v2",
        spec={
            "scaleTargetRef": {"apiVersion": target["apiVersion"], "kind": target["kind"], "name": name},
            "minReplicas": autoscaling.min_replicas,
            "maxReplicas": autoscaling.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": average}}],
        },
    )


def workload(
    ctx: Context[Any], kind: str, component: str, template: Object, *, replicas: int | None = None, **spec: Any
) -> Object:
    """Return a Deployment, StatefulSet or DaemonSet named `<owner>-<component>` over a pod template of that component.

    Without `replicas` their number is left to an autoscaler, and is at first what Kubernetes takes: one.
    """
    unlabeled = obj(
        ctx,
        kind,
        fitting(ctx.name(component), STATEFUL_SET_LIMIT if kind == "StatefulSet" else NAME_LIMIT),
        "apps/v1",
        component=component,
        spec={
            "replicas": replicas,
            "revisionHistoryLimit": 3 if kind == "Deployment" else None,
            "selector": {"matchLabels": selector(ctx, component)},
            "template": template,
            **spec,
        },
    )
    return _with_program_labels(ctx, unlabeled, template)


def _with_program_labels(ctx: Context[Any], target: Object, template: Object) -> Object:
    """Label an object with the program and version of its pods, and annotate it with its release."""
    release = ctx.release.name if ctx.spec.runs_release else ""
    target = annotated(target, {RELEASE_ANNOTATION: release}) if release else target
    labels_of_pods = {name: value for name, value in template["metadata"]["labels"].items() if name in (NAME, VERSION)}
    metadata = target["metadata"]
    return {**target, "metadata": {**metadata, "labels": {**metadata["labels"], **labels_of_pods}}}


def job(ctx: Context[Any], component: str, template: Object, *, retries: int = 6) -> Object:
    """Return a Job named after what it runs: changed work is a new Job, and the old one is pruned."""
    # Never, not OnFailure: the pod of a failed try keeps its last log lines for the condition.
    pod = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    body = {"backoffLimit": retries, "completions": 1, "parallelism": 1, "template": pod}
    name = f"{fitting(ctx.name(component), NAME_LIMIT - 9)}-{digest(pod)}"
    return _with_program_labels(ctx, obj(ctx, "Job", name, "batch/v1", component=component, spec=body), template)


def cron_job(
    ctx: Context[Any], component: str, template: Object, schedule: str, *, once: bool = False, **spec: Any
) -> Object:
    """Return a CronJob `<owner>-<component>`. It starts no run while the last one goes on, and retries one that fails
    unless `once`.
    """
    pod = {**template, "spec": {**template["spec"], "restartPolicy": "Never" if once else "OnFailure"}}
    body = {
        "schedule": schedule,
        "timeZone": "Etc/UTC",
        "concurrencyPolicy": "Forbid",
        # One that was missed for longer is left out: without a deadline a hundred of these end the schedule for good.
        "startingDeadlineSeconds": 3600,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"backoffLimit": 0 if once else 3, "template": pod}},
        **spec,
    }
    # Jobs add eleven characters to it, and their name is a label.
    name = fitting(ctx.name(component), NAME_LIMIT - 11)
    return _with_program_labels(ctx, obj(ctx, "CronJob", name, "batch/v1", component=component, spec=body), template)
