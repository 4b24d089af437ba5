"""Names of the labels by which nodes get their roles.

A kubelet may set most labels of its own Node, so an attacker who is root on one node could give it each role, and with
it the Secrets of that role's pods. Labels below `node-restriction.kubernetes.io/` it may not set, if the API server has
the admission plug-in NodeRestriction. Plans speak of roles by their short names; these functions translate where pods
are made and where Nodes are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from .verdict import State, Verdict

UNUSED = "openstack.k8s.io/unused-roles"
"""Label that no Node has: the roles that it has by short names alone, as the operator reads it."""
CONDITION = "NodeLabelsIgnored"
_MOST = 3

NodeLabels = Literal["legacy", "restricted"]
"""Labels that give a node its roles: the short names themselves, or those that a kubelet may not set."""

PREFIX = "node-restriction.kubernetes.io/"
ROLES = frozenset(
    {"openstack-cell", "openstack-compute-node", "openstack-control-plane", "openstack-gateway", "openvswitch"}
)


def selector(labels: Mapping[str, str], kind: NodeLabels) -> dict[str, str]:
    """Return a nodeSelector with the names that these labels have on nodes."""
    return {_on_nodes(name, kind): value for name, value in labels.items()}


def affinity(value: Any, kind: NodeLabels) -> Any:
    """Return an affinity whose expressions on labels of nodes have the names there."""
    if kind == "legacy" or not isinstance(value, Mapping):
        return value
    fields = cast("Mapping[str, Any]", value)
    return {**fields, "nodeAffinity": _translated(fields["nodeAffinity"], kind)} if "nodeAffinity" in fields else value


def as_roles(labels: Mapping[str, str], kind: NodeLabels) -> Mapping[str, str]:
    """Return the labels of a node with its roles under their short names. In `restricted`, short names that the node
    has itself are no roles, and `UNUSED` names them.
    """
    if kind == "legacy":
        return labels
    other_labels = {name: value for name, value in labels.items() if name not in ROLES and name != UNUSED}
    roles = {name: labels[f"{PREFIX}{name}"] for name in sorted(ROLES) if f"{PREFIX}{name}" in labels}
    unused = sorted(ROLES & labels.keys() - roles.keys())
    return other_labels | roles | ({UNUSED: " ".join(unused)} if unused else {})


def unused_labels(nodes: Mapping[str, Mapping[str, str]]) -> dict[str, Verdict]:
    """Return the condition that names nodes which have roles by short names alone, in `restricted`; none without."""
    names_by_label: dict[str, list[str]] = {}
    for node, labels in sorted(nodes.items()):
        for label in labels.get(UNUSED, "").split():
            names_by_label.setdefault(label, []).append(node)
    texts = [
        f"{label} of {', '.join(names[:_MOST])}{f' and {len(names) - _MOST} more' if len(names) > _MOST else ''}"
        for label, names in sorted(names_by_label.items())
    ]
    advice = f"a kubelet may set this label on its own node; use the same label below {PREFIX}"
    return {CONDITION: Verdict(State.READY, f"{'; '.join(texts)}: {advice}", "NotRestricted")} if texts else {}


def _on_nodes(name: str, kind: NodeLabels) -> str:
    return f"{PREFIX}{name}" if kind == "restricted" and name in ROLES else name


def _translated(node: Any, kind: NodeLabels) -> Any:
    if isinstance(node, list):
        return [_translated(item, kind) for item in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    fields = cast("Mapping[str, Any]", node)
    return {
        name: _on_nodes(value, kind) if name == "key" and isinstance(value, str) else _translated(value, kind)
        for name, value in fields.items()
    }
