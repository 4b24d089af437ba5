"""Roles of users for resources of ours, for the cluster's administrator to bind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ..admission.policy_names import NODE_AGENTS, OPERATOR, RUN_ON_NODES
from ..api import Resource, needs_verb
from ..kube import Object
from ..registry import RESOURCES
from ..runtime.serve.scrapers import PATH, VERB
from .permissions import METRICS_READER, WATCH, role

_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def user_roles() -> list[Object]:
    """Return ClusterRoles to view and to change resources, which are part of Kubernetes' own roles of these names, and
    three that are part of none: one allows to back up and restore clouds, one to decide what runs on nodes as root, one
    to read the operator's metrics.
    """
    common = [resource for resource in RESOURCES if not resource.privileged]
    privileged = [resource for resource in RESOURCES if resource.privileged]
    scaled = [resource for resource in RESOURCES if resource.scale]
    change, scale = (
        (*WATCH, "create", "update", "patch", "delete"),
        _rules(scaled, ("get", "update", "patch"), "/scale"),
    )
    on_nodes = [resource for resource in RESOURCES if needs_verb(resource)]
    return [
        _aggregated("view", [*_rules(RESOURCES, WATCH), *_rules(scaled, ("get",), "/scale")]),
        _aggregated("edit", [*_rules(common, change), *scale]),
        _aggregated("admin", [*_rules(common, (*change, "deletecollection")), *scale]),
        role("ClusterRole", {"name": f"{OPERATOR}-backups"}, _rules(privileged, (*change, "deletecollection"))),
        role("ClusterRole", {"name": NODE_AGENTS}, _rules(on_nodes, (RUN_ON_NODES,))),
        role("ClusterRole", {"name": METRICS_READER}, [{"nonResourceURLs": [PATH], "verbs": [VERB]}]),
    ]


def _aggregated(name: str, rules: Sequence[Object]) -> Object:
    cluster_role = role("ClusterRole", {"name": f"{OPERATOR}-{name}"}, rules)
    return {**cluster_role, "metadata": {**cluster_role["metadata"], "labels": {f"{_AGGREGATE}{name}": "true"}}}


def _rules(resources: Sequence[Resource[Any]], verbs: Sequence[str], subresource: str = "") -> list[Object]:
    """Return one rule for each group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for resource in resources:
        groups[resource.group].append(f"{resource.plural}{subresource}")
    return [
        {"apiGroups": [group], "resources": sorted(names), "verbs": list(verbs)}
        for group, names in sorted(groups.items())
    ]
