"""What the operator may do: exactly the kinds it was seen to make, and a short table of what the engine needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..api import node_fields
from ..catalogue import ACTUATORS, RESOURCES, SERVICES
from ..kube import Object
from ..render import Planned
from ..runtime.kinds import CHILDREN, OTHERS, POD, Catalog

OPERATOR = "openstack-operator"
NAMESPACE = "openstack-operator"
NODE_AGENTS = f"{OPERATOR}-node-agents"
"""ClusterRole of who may decide what runs on nodes as root."""
RUN_ON_NODES = "run-on-nodes"
"""The verb for that."""

WATCH = ("get", "list", "watch")
# Server-side apply makes what is not there: create and patch in one.
APPLY = ("create", "patch", "delete")

Rules = dict[tuple[str, str], set[str]]
"""Verbs by (API group, resource)."""

ENGINE: Mapping[tuple[str, str], Sequence[str]] = {
    # The last lines of a failed job's log stand in the status of its pods. Members of clusters are watched, and labeled
    # by what they do; pods are made and deleted by others.
    ("", "pods"): (*WATCH, "patch"),
    # Whether what is being deleted goes with its whole namespace.
    ("", "namespaces"): ("get",),
    # Who is a node of an OVN is seen by its labels, and what is made for each by no manifest.
    ("", "nodes"): WATCH,
    ("ovn.c5c3.io", "ovnchassis"): APPLY,
    # What is refused, not mounted or not healthy Kubernetes says in Warning Events alone; the operator adds its own.
    ("", "events"): ("create", "list", "watch"),
}


def permissions(rendered: Iterable[Planned]) -> list[Object]:
    """ServiceAccount, roles and bindings for an operator that serves every namespace."""
    metadata = {"name": OPERATOR}
    account, *leases = _own_namespace()
    return [
        account,
        role("ClusterRole", metadata, _grouped(rules(rendered))),
        binding("ClusterRoleBinding", "ClusterRole", metadata),
        *leases,
    ]


def namespaced_permissions(rendered: Iterable[Planned]) -> tuple[list[Object], list[Object]]:
    """The same for an operator that serves some namespaces: what is made once, and what is made in each of them, whose
    name `kubectl apply -n` adds.
    """
    every = rules(rendered)
    nodes = {"name": f"{OPERATOR}-nodes"}
    # All else that it reads or writes is in namespaces; to `get` a namespace is a right within it.
    watched = {what: verbs for what, verbs in every.items() if what == ("", "nodes")}
    inside = {what: verbs for what, verbs in every.items() if what not in watched}
    once = [
        *_own_namespace(),
        role("ClusterRole", nodes, _grouped(watched)),
        binding("ClusterRoleBinding", "ClusterRole", nodes),
    ]
    metadata = {"name": OPERATOR}
    return once, [role("Role", metadata, _grouped(inside)), binding("RoleBinding", "Role", metadata)]


def _own_namespace() -> list[Object]:
    """The ServiceAccount, and what it may do in the operator's own namespace."""
    metadata = {"name": OPERATOR, "namespace": NAMESPACE}
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        role("Role", metadata, [lease]),
        binding("RoleBinding", "Role", metadata),
    ]


def rules(rendered: Iterable[Planned]) -> Rules:
    """Everything the engine does with the kinds of these plans."""
    found: Rules = defaultdict(set)
    for kind in (*CHILDREN, *OTHERS):
        found[kind.group, kind.plural].update(WATCH)
    for entry in (*SERVICES, *ACTUATORS):
        group, plural = entry.resource.group, entry.resource.plural
        # A finalizer is set by patching the resource; owner references that block its deletion need `finalizers`.
        found[group, plural].update((*WATCH, "patch"))
        found[group, f"{plural}/status"].update(("get", "patch"))
        found[group, f"{plural}/finalizers"].update(("update",))
        if node_fields(entry.resource):
            # It hands on to the parts of a cloud what an allowed user wrote into the whole.
            found[group, plural].add(RUN_ON_NODES)
    catalog = Catalog(RESOURCES)
    for planned in rendered:
        for step in planned.plan or ():
            for obj in step.objects:
                if obj["kind"] == POD.kind:
                    continue
                kind = catalog.of(obj)
                found[kind.group, kind.plural].update((*APPLY, *(("update",) if step.guarded else ())))
    for what, verbs in ENGINE.items():
        found[what].update(verbs)
    return found


def _grouped(found: Mapping[tuple[str, str], set[str]]) -> list[Object]:
    """One rule for all resources of a group with the same verbs."""
    together: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), verbs in sorted(found.items()):
        together[group, tuple(sorted(verbs))].append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in together.items()
    ]


def role(kind: str, metadata: Mapping[str, str], granted: Sequence[Object]) -> Object:
    """A Role or ClusterRole with these rules."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": dict(metadata),
        "rules": list(granted),
    }


def binding(
    kind: str, role: str, metadata: Mapping[str, str], *, account: str = OPERATOR, of: str = NAMESPACE
) -> Object:
    """Grants a role of the same name to an account of that namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of}],
    }
