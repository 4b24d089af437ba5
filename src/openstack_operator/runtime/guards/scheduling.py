"""Settings of pods by which the scheduler would keep pods of other namespaces from running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...api import Model, PodSettings, models_in
from ...plan import Permissions, whom_to_ask

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def anti_affinity_faults(spec: Model, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield (path, message) of each field by which a required anti-affinity selects pods beyond the namespace: the
    scheduler then puts none of those on a node beside the resource's pods.
    """
    for path, settings in _pod_settings(spec):
        # A preferred rule, and any podAffinity, never keeps the pods that it selects from running.
        rules = _mapping(_mapping(settings.affinity).get("podAntiAffinity")).get(_REQUIRED)
        for index, term in enumerate(cast("list[Any]", rules) if isinstance(rules, list) else []):
            for field, value in _other_namespaces(_mapping(term), namespace):
                at = f"{path}.affinity.podAntiAffinity.{_REQUIRED}[{index}].{field}"
                text = f"{value} would keep pods of other namespaces off these nodes; remove {field}"
                yield at, f"{text}, so that the rule selects pods of this namespace, or make it a preferred rule"


def priority_class_faults(spec: Model, namespace: str, permissions: Permissions) -> Iterator[tuple[str, str]]:
    """Yield (path, message) of each PriorityClass that pods may not have: theirs would end pods of every namespace."""
    for path, settings in _pod_settings(spec):
        name = settings.priority_class_name
        if name and not permissions.allows_priority_class(namespace, name):
            text = f"{name!r} is for Kubernetes' own programs: to run such pods, it ends pods of other namespaces"
            ask = whom_to_ask("priority-classes", namespace, name)
            yield f"{path}.priorityClassName", f"{text}; choose a class that does not begin with 'system-', or {ask}"


def _pod_settings(spec: Model) -> Iterator[tuple[str, PodSettings]]:
    return ((path, model) for path, model in models_in(spec) if isinstance(model, PodSettings))


def _other_namespaces(term: Mapping[str, Any], namespace: str) -> Iterator[tuple[str, str]]:
    """Yield (field, what it says) where a term selects more than the pods of the namespace."""
    if term.get("namespaceSelector") is not None:
        yield "namespaceSelector", "a selector of namespaces"
    if term.get("namespaces") and term["namespaces"] != [namespace]:
        yield "namespaces", "a list with other namespaces"


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return the value, or nothing in place of what the API server takes for no object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
