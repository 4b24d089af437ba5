"""Copies of live objects of a service, for a time in which it uses two brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from ... import kube
from ...plan import STATEFUL_SET_LIMIT, Context, Object, fitting

BROKER = "openstack.k8s.io/broker"
"""Label of copies and of their pods: the broker that they serve."""


def is_copy(live: Mapping[str, Any]) -> bool:
    """Return True for a copied workload, and for a pod of one."""
    return BROKER in (live["metadata"].get("labels") or {})


def copy_name(name: str, broker: str) -> str:
    """Return the name of the copy of an object that serves a broker."""
    return fitting(f"{name}-on-{broker}", STATEFUL_SET_LIMIT)


def as_planned(live: Object) -> Object:
    """Return a live object as a plan would have it, so that it stays as it is."""
    names = ("name", "namespace", "labels", "finalizers")
    metadata = {name: live["metadata"][name] for name in names if name in live["metadata"]}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata, "spec": _written(live)}


def secret_copy(ctx: Context[Any], name: str, broker: str, addresses: Collection[str]) -> Object | None:
    """Return the copy of a Secret, made before it has one of the new `addresses`; None if it has one already, and no
    copy exists.
    """
    copied = ctx.children.get(("Secret", copy_name(name, broker)))
    data = kube.secret_data(copied or ctx.children.get(("Secret", name)))
    if not data or (copied is None and any(has_address(data, address) for address in addresses)):
        return None
    return kube.secret(ctx, copy_name(name, broker), data)


def has_address(data: Mapping[str, str], address: str) -> bool:
    """Return True if one of the files of a Secret has this address, host:port/path, behind a login."""
    return any(f"@{address}" in text for text in data.values())


def workload_copy(live: Object, broker: str, secrets: Collection[str]) -> Object:
    """Return a copy of a live workload that reads the copies of these Secrets."""
    name, labels = live["metadata"]["name"], live["metadata"]["labels"]
    component = labels[kube.COMPONENT]
    copied_component = fitting(f"{component}-on-{broker}")
    # Affinities name the component, too.
    spec = _replaced(_written(live), kube.COMPONENT, component, copied_component)
    for secret in secrets:
        spec = _replaced(spec, "secretName", secret, copy_name(secret, broker))
    template = spec["template"]
    metadata = {**template["metadata"], "labels": {**template["metadata"]["labels"], BROKER: broker}}
    pod = _with_host(template["spec"], name) if live["kind"] == "StatefulSet" else template["spec"]
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": copy_name(name, broker),
            "namespace": live["metadata"]["namespace"],
            "labels": {**labels, kube.COMPONENT: copied_component, BROKER: broker},
        },
        "spec": {**spec, "template": {**template, "metadata": metadata, "spec": pod}},
    }


def _written(live: Object) -> Object:
    """Return the spec of a live object; an API server may add fields without a value."""
    return kube.drop_none(live["spec"])


def _replaced(value: Any, name: str, old: str, new: str) -> Any:
    """Return the value with the new text in each field of that name that has the old one."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {k: new if (k, v) == (name, old) else _replaced(v, name, old, new) for k, v in fields.items()}
    if isinstance(value, list):
        return [_replaced(each, name, old, new) for each in cast("list[Any]", value)]
    return value


def _with_host(pod: Object, host: str) -> Object:
    """Return a pod that calls itself like the pod of the StatefulSet `host` with its number: programs list themselves
    in the database by host, and a name of its own would stay there as a service that is down.
    """
    index = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
    own_host = [
        {"name": "POD_INDEX", "valueFrom": index},
        {"name": "OS_DEFAULT__HOST", "value": f"{host}-$(POD_INDEX)"},
    ]
    main, *sidecars = pod["containers"]
    return {**pod, "containers": [{**main, "env": [*own_host, *main.get("env", ())]}, *sidecars]}
