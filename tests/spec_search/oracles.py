"""What must hold after a change of a spec: Acto's three oracles, for a simulated cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from openstack_operator.kube import INSTANCE, RETAIN, Rollout
from openstack_operator.kube import KIND as KIND_LABEL
from openstack_operator.kube.pod_inputs import pod_inputs
from openstack_operator.plan import Context, Key, Object, Plan, key
from openstack_operator.runtime.reconcile.apply import APPLIED
from openstack_operator.testing import granted
from tests.schedules.api_server import ApiServer, Request
from tests.schedules.simulation import differences

from .world import NAMESPACE, World

State = dict[str, Any]
"""What an object has to be, by collection and name."""

_ROUNDS = 12
_INPUTS = {
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "serviceaccounts": "ServiceAccount",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
"""Kinds of what pods need to start, by collection."""
_ROLLED = ("deployments", "statefulsets", "daemonsets")
_OF_THE_ENGINE = {"app.kubernetes.io/managed-by", KIND_LABEL, INSTANCE, APPLIED}
_GIVEN = {"clusterIP", "nodePort"}
"""Fields that the API server gives a value of its own."""
_FIELD = re.compile(r"\b(spec|metadata)\.[A-Za-z]")
_OBJECT = re.compile(r"\b[A-Z][A-Za-z0-9]+/[a-z0-9]|\bjob [a-z0-9]")
_TRACEBACK = re.compile(r"Traceback|File \"|Error: |Error\(|0x[0-9a-f]{6,}|<class |object at ")


class Allowance(NamedTuple):
    """A difference from a new resource that is meant."""

    place: str
    """Pattern of the difference: the name of an object, and the path in it."""
    reason: str


ALLOWED = (
    Allowance(r"statefulsets/.*\.spec\.volumeClaimTemplates\b", "Kubernetes lets nobody change the claims of a set"),
    Allowance(r"secrets/.*-rotation is gone", "the order of a CredentialRotation belongs to the service that it names"),
    Allowance(r"secrets/nova-migration\.data\.", "live migration that is switched on again has a new authority"),
    Allowance(r"secrets/ovnnetwork-remote-chassis\.data\.", "certificates of nodes outside are made anew"),
    Allowance(r"secrets/horizon-session-keys\.data\.until\b", "the key before lasts as long as its sessions"),
    Allowance(
        r"secrets/pki-(authority\.data\.next\.|bundle\.data\.ca\.crt)"
        r"|status\.conditions\.RotationReady: \['True', 'Trusting'\]",
        "an authority that is being replaced is not taken back",
    ),
)


def normalized(obj: Object) -> Any:
    """Return all that somebody decided of an object."""
    meta = obj["metadata"]
    content = {name: _plain(value) for name, value in obj.items() if name not in ("metadata", "status")}
    labels = {name: text for name, text in (meta.get("labels") or {}).items() if name not in _OF_THE_ENGINE}
    notes = {name: text for name, text in (meta.get("annotations") or {}).items() if name not in _OF_THE_ENGINE}
    if "tls.crt" in (obj.get("data") or {}):
        # A certificate is issued anew.
        content["data"] = dict.fromkeys(obj["data"], "…")
    return {**content, "labels": labels, "annotations": notes}


def _plain(value: Any) -> Any:
    """Return a value without what the API server adds, what is empty, and the order of lists that have keys: the
    simulated one keeps the order of before, as Kubernetes does not.
    """
    if isinstance(value, dict):
        fields = {name: _plain(inner) for name, inner in cast("dict[str, Any]", value).items() if name not in _GIVEN}
        return {name: inner for name, inner in fields.items() if inner is not None and inner not in ({}, [])}
    if isinstance(value, list):
        items = [_plain(inner) for inner in cast("list[Any]", value)]
        if items and all(isinstance(each, dict) and {"name", "mountPath"} & each.keys() for each in items):
            return {str(each.get("mountPath") or each["name"]): each for each in items}
        return items
    return value


def state_of(world: World) -> State:
    """Return the objects of the resource, and what its status says to others."""
    live = world.live
    status = live.get("status") or {}
    told = {name: [each[0], each[1]] for name, each in world.verdicts.items()}
    shown = {name: status.get(name) for name in ("published", "endpoint", "phase", "members", "release")}
    children = world.children()
    objects = {
        name: _decided(name, children) for name, obj in children.items() if not (_is_retained(obj) or _ends(obj))
    }
    return objects | {"status": {**shown, "conditions": told}}


def _decided(name: str, children: Mapping[str, Object]) -> Any:
    """Return all that the operator decided of an object."""
    return _without_scale(name, normalized(children[name]), children)


def _without_scale(name: str, obj: Any, objects: Mapping[str, Any]) -> Any:
    """Return an object without its number of pods, if an autoscaler decides that."""
    if f"horizontalpodautoscalers/{name.partition('/')[2]}" not in objects or collection(name) != "deployments":
        return obj
    return {**obj, "spec": {field: value for field, value in obj["spec"].items() if field != "replicas"}}


def _is_retained(obj: Object) -> bool:
    """Return True for what stays once it was made, whatever a spec says: data."""
    return (obj["metadata"].get("annotations") or {}).get(RETAIN) == "true"


def _ends(obj: Object) -> bool:
    """Return True for what is being deleted, and waits for an operator that does not run here."""
    return "deletionTimestamp" in obj["metadata"]


def new_state(world: World) -> State:
    """Return the objects that the present spec alone would lead to, by plans of a resource that is new."""
    context = cast("Context[Any]", world.context)
    fresh = replace(context, children={}, deleted_secrets={}, pods=(), without_image=(), generation=1)
    return _carried_out(world, _last_plan(world, fresh))


def new_state_with_secrets(world: World) -> State:
    """Return the same, with the drawn contents of the Secrets that exist: keys are not drawn twice."""
    context = cast("Context[Any]", world.context)
    secrets = {name: obj for name, obj in context.children.items() if name[0] == "Secret"}
    fresh = replace(context, children=secrets, deleted_secrets={}, pods=(), without_image=())
    return _carried_out(world, _last_plan(world, replace(fresh, generation=1), secrets))


def _last_plan(world: World, context: Context[Any], secrets: Mapping[Key, Object] | None = None) -> Plan:
    """Return the plan that comes after all that plans before it ask for."""
    children: dict[Key, Object] = dict(secrets or {})
    # With the ports and addresses that Kubernetes gave them.
    live = cast("Context[Any]", world.context).children
    services = {name: obj for name, obj in live.items() if name[0] == "Service"}
    for _ in range(_ROUNDS):
        plan = world.service.make_plan(replace(context, children=children))
        desired = {key(obj): services.get(key(obj)) or _stored(granted(obj)) for obj in plan.objects}
        if desired == children:
            return plan
        children = desired
    raise AssertionError("plans of a new resource do not come to an end")


def _stored(obj: Object) -> Object:
    meta = {"uid": "uid", **obj["metadata"]}
    return {**obj, "metadata": meta}


def _carried_out(world: World, plan: Plan) -> State:
    """Return the objects of a plan as the API server stores them."""
    server, catalog = ApiServer(world.loop), world.manager.world.catalog
    for obj in plan.objects:
        if obj["kind"] == "Pod":
            continue
        kind = catalog.of(obj)
        path = f"/apis/x/v1/namespaces/{NAMESPACE}/{kind.plural}"
        server.handle(Request("POST", path, {"fieldManager": "fresh"}, json.loads(json.dumps(obj)), by="fresh"))
    return {f"{name}/{stored.obj['metadata']['name']}": normalized(stored.obj) for name, stored in server.all()}


def judge_reached(world: World) -> Iterator[str]:
    """Yield how the state differs from that of a new resource with the same spec."""
    children = world.children()
    problems = list(_unexpected(children, new_state(world)))
    if problems:
        problems = list(_unexpected(children, new_state_with_secrets(world)))
    yield from problems


def _unexpected(children: Mapping[str, Object], expected: State) -> Iterator[str]:
    live = {
        name: _decided(name, children)
        for name, obj in children.items()
        if name in expected or not (_is_retained(obj) or _ends(obj))
    }
    planned = {name: _without_scale(name, obj, expected) for name, obj in expected.items()}
    for line in differences(live, planned):
        if not is_allowed(line):
            yield line


def is_allowed(line: str) -> bool:
    """Return True for a difference that is meant."""
    return any(re.match(each.place, line) for each in ALLOWED)


def judge_kept(world: World, before: Mapping[str, Object]) -> Iterator[str]:
    """Yield what a spec that did not come true changed of what runs."""
    after = world.children()
    planned = new_state(world) if world.is_planned else {}
    for name, obj in before.items():
        is_meant = collection(name) == "jobs" or (world.is_planned and name not in planned)
        live = after.get(name)
        if live is None:
            # A Job that is done leaves nothing that runs. What a spec switches off goes at once, unless pods need it.
            line = f"{name} is gone"
            if not (is_meant and not _is_needed(name, after, planned)) and not is_allowed(line):
                yield line
        elif live["metadata"]["uid"] != obj["metadata"]["uid"]:
            yield f"{name} was replaced"
        elif live["metadata"].get("deletionTimestamp") != obj["metadata"].get("deletionTimestamp"):
            if not is_meant:
                yield f"{name} is being deleted"
        elif not world.is_planned and (changes := differences(normalized(live), normalized(obj), name)):
            # What is refused as a whole changes nothing.
            yield f"changed: {'; '.join(changes)}"


def _is_needed(name: str, live: Mapping[str, Object], planned: State) -> bool:
    """Return True if a pod may need an object to start, or another one of its kind may have to come first."""
    kind = _INPUTS.get(collection(name))
    if kind is None:
        return False
    workloads = [obj for each, obj in live.items() if collection(each) in _ROLLED]
    needed = {each for obj in workloads for each in pod_inputs(obj["spec"]["template"])}
    awaited = {_INPUTS.get(collection(each)) for each in planned.keys() - live.keys()}
    is_rolled = any(Rollout(obj).is_running for obj in workloads)
    return is_rolled or kind in awaited or (kind, name.partition("/")[2]) in needed


def collection(name: str) -> str:
    """Return the collection of an object `collection/name`."""
    return name.partition("/")[0]


def message_problems(verdicts: Mapping[str, tuple[str, str, str]]) -> Iterator[str]:
    """Yield what is wrong with how a refusal is told: conditions by status, reason and message."""
    for name, (_, reason, message) in verdicts.items():
        if reason == "InternalError" or _TRACEBACK.search(message):
            yield f"{name} tells of the inside of the operator: {reason} {message}"
    _, reason, message = verdicts["Ready"]
    if reason in ("InvalidSpec", "MissingReference") and not (_FIELD.search(message) or _OBJECT.search(message)):
        yield f"Ready names no field: {reason}: {message}"
    if not message:
        yield f"Ready says nothing: {reason}"
