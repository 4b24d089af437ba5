"""Permissions of the operator: exactly the kinds that its plans create, and a short table of what the engine needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..admission.policy_names import NAMESPACE, OPERATOR, RUN_ON_NODES
from ..admission.presence import POLICY_KINDS, policies
from ..api import needs_verb
from ..kube import Object
from ..planned import Planned
from ..registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from ..runtime.kubernetes.kinds import ACCESS_REVIEW, CHILDREN, LEASE, POD, TOKEN_REVIEW, Catalog, optional_role
from ..services.backup import PHYSICAL_BACKUP

METRICS_READER = f"{OPERATOR}-metrics-reader"
"""ClusterRole of who may read the operator's metrics."""

WATCH = ("get", "list", "watch")
# Server-side apply makes what is not there: create and patch in one.
APPLY = ("create", "patch", "delete")

Rules = dict[tuple[str, str], set[str]]
"""Verbs by (API group, resource)."""

ENGINE: Mapping[tuple[str, str], Sequence[str]] = {
    # The last lines of a failed job's log stand in the status of its pods. Members of clusters are watched, and labeled
    # by what they do. Others make all pods, and delete all but those of nova-compute, which get a change in waves.
    ("", "pods"): (*WATCH, "patch", "delete"),
    # Whether what is being deleted goes with its whole namespace.
    ("", "namespaces"): ("get",),
    # Who is a node of an OVN is seen by its labels, and what is made for each by no manifest.
    ("", "nodes"): WATCH,
    ("ovn.c5c3.io", "ovnchassis"): APPLY,
    # A schedule makes these at its times, which no rendered plan has. A restore creates schedules.
    ("openstack.k8s.io", "openstackbackups"): APPLY,
    ("openstack.k8s.io", "openstackbackupschedules"): ("create",),
    # No rendered plan has the facts of a cloud that it backs up.
    (PHYSICAL_BACKUP.group, PHYSICAL_BACKUP.plural): APPLY,
    # What is refused, not mounted or not healthy Kubernetes says in Warning Events alone; the operator adds its own.
    ("", "events"): ("create", "list", "watch"),
    # Whether an issuer is a public authority, which certifies no names inside the cluster.
    **{("cert-manager.io", plural): ("get",) for plural in ("issuers", "clusterissuers")},
    # Whether a token that comes with a request for metrics is good, and whether its account may read them.
    (TOKEN_REVIEW.group, TOKEN_REVIEW.plural): ("create",),
    (ACCESS_REVIEW.group, ACCESS_REVIEW.plural): ("create",),
}


def permissions(rules: Mapping[str, Rules]) -> list[Object]:
    """Return ServiceAccount, roles and bindings of an operator that serves all namespaces."""
    account, *leases = _own_namespace()
    return [account, *_granted("Cluster", OPERATOR, [*_grouped(rules[OPERATOR]), _policies()]), *leases]


def namespaced_permissions(rules: Mapping[str, Rules]) -> tuple[list[Object], list[Object]]:
    """Return the permissions of an operator that serves some namespaces: objects that are made once, and those for each
    namespace, which `kubectl apply -n` names.
    """
    # All else that it reads or writes is in namespaces; to `get` a namespace is a right within it.
    nodes = ("", "nodes")
    reviews = [(kind.group, kind.plural) for kind in (TOKEN_REVIEW, ACCESS_REVIEW)]
    everywhere = {
        f"{OPERATOR}-nodes": [*_grouped({nodes: rules[OPERATOR][nodes]}), _policies()],
        # Apart, since metrics are all that is missing without it.
        f"{OPERATOR}-reviews": _grouped({resource: rules[OPERATOR][resource] for resource in reviews}),
    }
    inside = {resource: verbs for resource, verbs in rules[OPERATOR].items() if resource not in (nodes, *reviews)}
    once = [obj for name, granted in everywhere.items() for obj in _granted("Cluster", name, granted)]
    return [*_own_namespace(), *once], _granted("", OPERATOR, _grouped(inside))


def optional_permissions(rules: Mapping[str, Rules], scope: str) -> dict[str, list[Object]]:
    """Return roles with their bindings for kinds that a cluster may lack, by the name of the project that has these
    kinds. The scope is `Cluster`, or empty for one namespace.
    """
    names = sorted(rules.keys() - {OPERATOR})
    return {name.removeprefix(f"{OPERATOR}-"): _granted(scope, name, _grouped(rules[name])) for name in names}


def _policies() -> Object:
    """Return the rule that lets the operator see whether the policies that limit it are there."""
    return {
        "apiGroups": [POLICY_KINDS[0].group],
        "resources": [kind.plural for kind in POLICY_KINDS],
        "verbs": ["get"],
        # A binding has the name of its policy.
        "resourceNames": sorted({obj["metadata"]["name"] for obj in policies()}),
    }


def _granted(scope: str, name: str, granted: Sequence[Object]) -> list[Object]:
    metadata = {"name": name}
    bound = binding(f"{scope}RoleBinding", f"{scope}Role", metadata)
    return [role(f"{scope}Role", metadata, granted), bound]


def _own_namespace() -> list[Object]:
    """Return the ServiceAccount and its permissions in the operator's own namespace."""
    metadata = {"name": OPERATOR, "namespace": NAMESPACE}
    leases = {"apiGroups": [LEASE.group], "resources": [LEASE.plural]}
    # OLM grants these rules in every namespace that the operator serves, and others keep leases there. A right to
    # create has no name: Kubernetes does not know that of an object which it has not got yet.
    lease = [{**leases, "verbs": ["get", "update"], "resourceNames": [OPERATOR]}, {**leases, "verbs": ["create"]}]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        role("Role", metadata, lease),
        binding("RoleBinding", "Role", metadata),
    ]


def rules(rendered: Iterable[Planned]) -> dict[str, Rules]:
    """Return everything the engine does with the kinds of these plans, by the role that grants it."""
    optional = [kind for kind in Catalog(RESOURCES, EXTERNAL_KINDS).all if kind.optional]
    roles = {kind.group: optional_role(kind) for kind in optional}
    by_role: dict[str, Rules] = defaultdict(dict)
    for (group, resource), verbs in _all_rules(rendered).items():
        by_role[roles.get(group, OPERATOR)][group, resource] = verbs
    return by_role


def _all_rules(rendered: Iterable[Planned]) -> Rules:
    verbs_by_resource: Rules = defaultdict(set)
    for kind in (*CHILDREN, *EXTERNAL_KINDS):
        verbs_by_resource[kind.group, kind.plural].update(WATCH)
    for entry in (*SERVICES, *ACTUATORS):
        group, plural = entry.resource.group, entry.resource.plural
        # A finalizer is set by patching the resource; owner references that block its deletion need `finalizers`.
        verbs_by_resource[group, plural].update((*WATCH, "patch"))
        if not entry.resource.privileged:
            # A restore creates what users wrote.
            verbs_by_resource[group, plural].add("create")
        verbs_by_resource[group, f"{plural}/status"].update(("get", "patch"))
        verbs_by_resource[group, f"{plural}/finalizers"].update(("update",))
        if needs_verb(entry.resource):
            # It hands on to the parts of a cloud what an allowed user wrote into the whole.
            verbs_by_resource[group, plural].add(RUN_ON_NODES)
    catalog = Catalog(RESOURCES, EXTERNAL_KINDS)
    for planned in rendered:
        for step in planned.plan or ():
            for obj in step.objects:
                if obj["kind"] == POD.kind:
                    continue
                kind = catalog.of(obj)
                verbs_by_resource[kind.group, kind.plural].update((*APPLY, *(("update",) if step.guarded else ())))
    for resource, verbs in ENGINE.items():
        verbs_by_resource[resource].update(verbs)
    return verbs_by_resource


def _grouped(verbs_by_resource: Mapping[tuple[str, str], set[str]]) -> list[Object]:
    """Return one rule for all resources of a group with the same verbs."""
    resources_by_verbs: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), verbs in sorted(verbs_by_resource.items()):
        resources_by_verbs[group, tuple(sorted(verbs))].append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in resources_by_verbs.items()
    ]


def role(kind: str, metadata: Mapping[str, str], granted: Sequence[Object]) -> Object:
    """Return a Role or ClusterRole with these rules."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": dict(metadata),
        "rules": list(granted),
    }


def binding(
    kind: str, role: str, metadata: Mapping[str, str], *, account: str = OPERATOR, of: str = NAMESPACE
) -> Object:
    """Return a binding of the role of the same name to an account of that namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of}],
    }
