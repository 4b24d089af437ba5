"""Agents: DaemonSets of which a node can run those of one cloud only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..plan import Context, Object
from .objects import annotated, workload

NODES_FIELD = "openstack.k8s.io/nodes-field"
"""Annotation of a DaemonSet of agents: the field of the owner's spec that chooses its nodes."""

LabeledNode = tuple[str, Mapping[str, str]]
"""The name of a node, and its labels."""

_NAMES_LIMIT = 3
"""Names of nodes in a message."""


def agents(ctx: Context[Any], component: str, template: Object, field: str, **spec: Any) -> Object:
    """Return a DaemonSet `<owner>-<component>`. A node runs that of one cloud only; `field` of the spec chooses the
    nodes.

    Programs that belong to a node as a whole declare the ports they have on it. The scheduler then keeps those of
    another cloud from starting beside them, also where the operator of that one sees no other namespace.
    """
    return annotated(workload(ctx, "DaemonSet", component, template, **spec), {NODES_FIELD: field})


@dataclass(frozen=True)
class NodeSelection:
    """Nodes that a DaemonSet takes: by nodeSelector and required node affinity. Taints do not count."""

    labels: Mapping[str, str]
    terms: tuple[Object, ...] | None
    """Alternatives of the affinity; None where it has none."""

    @classmethod
    def of(cls, daemons: Mapping[str, Any]) -> NodeSelection:
        """Return the selection that a DaemonSet makes."""
        pod = daemons["spec"]["template"]["spec"]
        node_affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
        required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        terms = None if required is None else tuple(required.get("nodeSelectorTerms") or ())
        return cls(pod.get("nodeSelector") or {}, terms)

    def takes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if it takes a node of that name and with those labels."""
        if not self.labels.items() <= labels.items():
            return False
        return self.terms is None or any(_matches(term, name, labels) for term in self.terms)

    def nodes(self, candidates: Iterable[LabeledNode]) -> list[LabeledNode]:
        """Return those of the candidates that the selection takes."""
        return [(name, labels) for name, labels in candidates if self.takes(name, labels)]


def name_nodes(names: Iterable[str]) -> str:
    """Return `node a`, `nodes a, b`, or the first few names and the number of the others."""
    listed = sorted(names)
    beginning = ", ".join(listed[:_NAMES_LIMIT])
    rest = f" and {len(listed) - _NAMES_LIMIT} more" if len(listed) > _NAMES_LIMIT else ""
    return f"node{'s' if len(listed) > 1 else ''} {beginning}{rest}"


def _matches(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Return True if all of a term holds; an empty one takes no node, as in Kubernetes."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    node_fields = {"metadata.name": name}
    return all(_holds(each, labels) for each in expressions) and all(_holds(each, node_fields) for each in fields)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return True if labels match an expression; `value` is None where there is no such label."""
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    rules: Mapping[str, bool] = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": _is_less(next(iter(values), None), value),
        "Lt": _is_less(value, next(iter(values), None)),
    }
    return rules.get(expression["operator"], False)


def _is_less(number: str | None, bound: str | None) -> bool:
    """Return True if the number is below the bound; False for text that is no number."""
    try:
        return int(number or "") < int(bound or "")
    except ValueError:
        return False
