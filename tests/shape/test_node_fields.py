"""Who may decide what runs on nodes as root: no field gets there without a mark, and policies and roles say so."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.admission.backups import backup_policies
from openstack_operator.admission.nodes import node_rules
from openstack_operator.admission.policy_names import NODE_AGENTS, OPERATOR, RUN_ON_NODES
from openstack_operator.api import (
    EACH,
    Image,
    Model,
    NodeAgents,
    Resource,
    gives_orders,
    handle,
    is_obeyed,
    needs_verb,
    node_agents,
    node_fields,
    node_values,
)
from openstack_operator.api.schema import flat_schema
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object, secret_data
from openstack_operator.plan import SpecError
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load

pytestmark = pytest.mark.security

ROOT = Path(__file__).parent.parent.parent
CASES = sorted(
    path
    for path in ROOT.glob("src/openstack_operator/services/*/cases/[!.]*.yaml")
    if not path.name.endswith(".golden.yaml")
)
KINDS = {resource.handle: resource for resource in RESOURCES}
SERVED = [kind.handle for kind in EXTERNAL_KINDS]
PLAIN: list[list[Object]] = [
    [{"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "plain"}}]
    for resource in RESOURCES
    if needs_verb(resource)
]
# What becomes of its fields are those of other kinds.
WHOLE = {"OpenStackControlPlane", "ControlPlane.c5c3.io"}

FieldPath = tuple[str, ...]

OBEYED = {
    "Barbican",
    "Cinder",
    "Glance",
    "Keystone",
    "MariaDB",
    "Memcached",
    "Neutron",
    "Nova",
    "OVNCluster",
    "OVNNetwork",
    "Placement",
    "RabbitMQ",
}
"""Kinds that run what nova-compute, ovn-controller or the metadata agent take orders or answers from."""
GIVES_NO_ORDERS: dict[str, str] = {
    "number, size or time of what the release and the operator choose": """
        cpu cpuUtilization fernet credentialKeys keep keepFor kekGeneration maxActiveKeys maxConnections maxHeaderSize
        maxReplicas maxUnavailable memory memoryMB minReplicas pauseAfterFailure processes replicas rotationSchedule
        schedule size storageSize timeout quotas vniRanges""",
    "place of pods that are not root on nodes, or the order in which nodes get a change": """
        affinity antiAffinity canaries nodeSelector only paused priorityClassName tolerations
        topologySpreadConstraints""",
    "choice among images and versions of the operator's administrator": """
        checkRelease complete release version""",
    "choice among a few words, of which each is safe": """
        accessMode activeActive announced backend conversion datapath distributedFloatingIPs elsewhere enabled
        encapType format liveMigration mechanism mechanismDrivers newSecrets provider provisioning required retention
        reverseZones storageType targetHelper tenantNetworkTypes typeDrivers expose.type dependsOn type virtType
        extensionDrivers""",
    "name of a resource of the same namespace, whose images and addresses need the verb themselves": """
        barbicanRef cinderRef cortexRef coordination designateRef glanceRef keystoneRef mariadbRef memcachedRef
        neutronRef notificationsRef novaRef ovnNetworkRef placementRef rabbitmqRef serviceAuth""",
    "certificates and authorities, which the namespace has": "pkiRef tls.secretRef certSecretRef",
    "access for clients: programs on nodes call internal addresses": """
        allowFrom expose monitoring networkPolicies remoteAccess remoteChassis""",
    "users, roles and texts within OpenStack, whose administrator an editor is anyway": """
        adminPasswordSecretRef adminProject adminUser accessRules allowOrphans apiDatabase applicationCredential
        bootstrap bootstrapResources catalog cellDatabase database.database defaultVolumeType dnsDomain domains
        extraSpecs federation flatNetworks networkVlanRanges policies region volumeType""",
    "names within OVN, shares of nodes by their labels, or which of its own addresses a node uses": """
        bridgeMappings computeRef consoleNetwork externalBridge.name migrationNetwork""",
    "place of data, which is no order": """
        backup.ceph backup.files backup.s3 backup.swift rbd s3 storageClass storageClassName swift vault""",
    "order of the hosts that Nova selected": "externalScheduler",
    "name of an entry of a list": "name backup.type",
}
"""Fields of these kinds that every editor may write, by the reason. A new field of theirs has to be in this table, or
among the fields that need the verb (`gives_orders`): an image, options, or an address of another server does."""


class WithImage(Model):
    """A model whose schema says how an image is written."""

    image: Image


IMAGE = flat_schema(WithImage)["properties"]["image"]["pattern"]


def suspicious(schema: Mapping[str, Any], path: FieldPath = ()) -> Iterator[tuple[FieldPath, Callable[[str], Any]]]:
    """Fields that might decide what runs somewhere, and how to write a word there."""
    if path and (write := writer(path[-1], schema)):
        yield path, write
        return
    for name, field in schema.get("properties", {}).items():
        yield from suspicious(field, (*path, name))
    if isinstance(items := schema.get("items"), dict):
        yield from suspicious(items, (*path, EACH))


def writer(name: str, schema: Mapping[str, Any]) -> Callable[[str], Any] | None:
    if name == "nodeSelector":
        return lambda word: {word: "true"}
    if name == "tolerations":
        return lambda word: [{"key": word, "operator": "Exists"}]
    if schema.get("pattern") == IMAGE or "repository" in schema.get("properties", ()):
        return lambda word: f"example.org/{word}:1"
    if str(schema.get("pattern", "")).startswith("^/"):
        return lambda word: f"/{word}"
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and "additionalProperties" in values:
        return lambda word: {word: {"option": "value"}}
    if isinstance(values, dict) and values.get("x-kubernetes-preserve-unknown-fields"):
        return lambda word: {word: "value"}
    return None


def written(spec: Any, path: Sequence[str], value: Any) -> None:
    """Sets a field, in each entry of lists on the way to it that are there, or each entry itself."""
    name, *below = path
    if name == EACH and not below:
        spec[:] = [value for _ in spec]
    elif name == EACH:
        for entry in spec:
            written(entry, below, value)
    elif not below:
        spec[name] = value
    elif below[0] == EACH:
        written(spec.get(name, []), below, value)
    else:
        written(spec.setdefault(name, {}), below, value)


def on_nodes(objects: Sequence[Object]) -> str:
    """Everything of which what runs on nodes as root is made, as text."""
    secrets = {obj["metadata"]["name"]: secret_data(obj) for obj in objects if obj["kind"] == "Secret"}
    found: list[Any] = []
    for obj in objects:
        if obj["kind"] == "CephCluster":
            found.append(obj["spec"])
        template = obj.get("spec", {}).get("template", {})
        pod = json.dumps(template)
        if any(sign in pod for sign in ('"privileged": true', '"hostPath"', '"hostNetwork": true')):
            found += [template, *(data for name, data in secrets.items() if f'"{name}"' in pod)]
    return json.dumps(found)


def reached(manifests: list[Object], resource: Resource[Any], fields: Sequence[Any]) -> set[FieldPath]:
    """Those of the fields that get into what runs on nodes as root."""
    changed = copy.deepcopy(manifests)
    main = next(obj for obj in changed if handle(obj.get("apiVersion", ""), obj["kind"]) == resource.handle)
    words = {path: f"word-{number}-end" for number, (path, _) in enumerate(fields)}
    for path, write in fields:
        written(main.setdefault("spec", {}), path, write(words[path]))
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), served=SERVED)
    try:
        planned = next(each for each in paper.render(changed) if each.id.kind == resource.handle)
    except (SpecError, ValueError):
        if len(fields) == 1:
            return set()
        return {path for field in fields for path in reached(manifests, resource, [field])}
    text = on_nodes(planned.objects)
    return {path for path, word in words.items() if word in text}


@pytest.fixture(scope="module")
def found() -> dict[str, set[FieldPath]]:
    """By kind, what gets to nodes in any case."""
    kinds: dict[str, set[FieldPath]] = {}
    for manifests in (*map(load, CASES), *PLAIN):
        for kind in {handle(obj.get("apiVersion", ""), obj["kind"]) for obj in manifests} & (set(KINDS) - WHOLE):
            resource = KINDS[kind]
            fields = sorted(suspicious(flat_schema(resource.spec)), key=lambda field: len(field[0]))
            # What is set for one program hides what is set for all.
            for _, same_depth in groupby(fields, key=lambda field: len(field[0])):
                kinds.setdefault(kind, set()).update(reached(manifests, resource, list(same_depth)))
    return kinds


@pytest.mark.seconds
def test_fields_that_reach_nodes_are_marked(found: dict[str, set[FieldPath]]) -> None:
    unmarked = {
        kind: paths - {field.path for field in node_fields(KINDS[kind])}
        for kind, paths in found.items()
        if not paths <= {field.path for field in node_fields(KINDS[kind])}
    }
    assert not unmarked, "name these fields in `on_nodes` of their model"


@pytest.mark.seconds
def test_marked_images_and_options_get_there(found: dict[str, set[FieldPath]]) -> None:
    """Otherwise the test above sees nothing."""
    for kind in ("Nova", "Neutron", "OVNNetwork", "OVNCluster.ovn.c5c3.io", "Cinder", "CephStorage"):
        paths = {field.path for field in node_fields(KINDS[kind]) if not field.is_order}
        wanted = {path for path, _ in suspicious(flat_schema(KINDS[kind].spec)) if path in paths}
        assert wanted - found[kind] == set(), kind


@pytest.mark.seconds
def test_the_same_fields_are_marked_by_either_groups_names(found: dict[str, set[FieldPath]]) -> None:
    checks = 0
    for resource in RESOURCES:
        if resource.kind in found and resource.kind in KINDS and not resource.alias:
            ours = {field.path for field in node_fields(KINDS[resource.kind])}
            checks += 1
            assert {field.path for field in node_fields(resource)} == ours
    assert checks


def leaves(schema: Mapping[str, Any], path: FieldPath = ()) -> Iterator[FieldPath]:
    """The fields that hold no others with names."""
    inner = dict(schema.get("properties", {}))
    if isinstance(items := schema.get("items"), dict) and items.get("properties"):
        inner = {EACH: items}
    for name, field in inner.items():
        yield from leaves(field, (*path, name))
    if not inner:
        yield path


def test_each_field_of_what_nodes_obey_is_classified() -> None:
    harmless = {tuple(name.split(".")) for names in GIVES_NO_ORDERS.values() for name in names.split()}
    assert {resource.kind for resource in RESOURCES if is_obeyed(resource)} == OBEYED
    unclassified: set[str] = set()
    for resource in filter(is_obeyed, RESOURCES):
        marked = {field.path for field in node_fields(resource)}
        for path in leaves(flat_schema(resource.spec, as_c5c3=resource.as_c5c3)):
            names = tuple(name for name in path if name != EACH)
            steps = {names[start:end] for end in range(len(names) + 1) for start in range(end)}
            if not any(path[: len(field)] == field for field in marked) and not steps & harmless:
                unclassified.add(f"{resource.kind}: spec.{'.'.join(path)}")
    assert not unclassified, "may somebody who writes this choose a program or a server that nodes obey?"


def test_images_options_and_addresses_of_what_nodes_obey_need_the_verb() -> None:
    """A field that reads like one is not called harmless."""
    checks = 0
    for resource in filter(is_obeyed, RESOURCES):
        schema = flat_schema(resource.spec, as_c5c3=resource.as_c5c3)
        marked = {field.path for field in node_fields(resource)}
        for path, _ in suspicious(schema):
            if path[-1] not in {"nodeSelector", "tolerations", "path"}:
                checks += 1
                assert any(path[: len(field)] == field for field in marked), f"{resource.kind} {path}"
    assert checks


def test_fields_that_give_orders_are_known_by_their_path() -> None:
    cells = "cells", EACH, "conductor", "image"
    orders = ("imageProfile",), ("envSecretRef",), ("config",)
    for path in (("image",), cells, ("ovnImage",), ("database", "host"), *orders):
        assert gives_orders(path, {})
    for path in (("expose", "host"), ("tls", "secretRef"), ("replicas",)):
        assert not gives_orders(path, {})


def is_started(agents: NodeAgents, spec: Mapping[str, Any]) -> bool:
    """Whether a spec starts these programs, as the policies see it."""

    def values(node: Any, path: FieldPath, unset: Any) -> list[Any]:
        if not path:
            return [node]
        if path[0] == EACH:
            return [value for entry in node or [] for value in values(entry, path[1:], unset)]
        if not isinstance(node, Mapping) or node.get(path[0]) is None:
            return [] if EACH in path else [unset]
        return values(node[path[0]], path[1:], unset)

    return all(set(values(spec, one.path, one.unset)) & set(one.values) for one in agents.switches)


@pytest.mark.seconds
def test_specs_with_privileged_pods_need_the_verb() -> None:
    """Each spec whose plan has such pods turns on programs that the policies know, or sets a field of theirs."""
    seen: set[str] = set()
    for manifests in (*map(load, CASES), *PLAIN):
        paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), served=SERVED)
        try:
            plans = list(paper.render(copy.deepcopy(manifests)))
        except (SpecError, ValueError):
            continue
        for planned in plans:
            resource = KINDS[planned.id.kind]
            written_specs = [
                obj.get("spec", {})
                for obj in manifests
                if handle(obj.get("apiVersion", ""), obj["kind"]) == resource.handle
                and obj["metadata"]["name"] == planned.id.name
            ]
            if not written_specs or on_nodes(planned.objects) == "[]":
                continue
            seen.add(resource.kind)
            text = json.dumps(written_specs[0])
            started = [agents for agents in node_agents(resource) if is_started(agents, written_specs[0])]
            fields = [field for field in node_fields(resource) if f'"{field.path[-1]}"' in text]
            assert started or fields, f"{resource.kind} {planned.id.name}"
    assert seen >= {"Nova", "Neutron", "OVNNetwork", "OVNCluster", "Cinder", "HypervisorCluster", "CephStorage"}


def documents(name: str) -> list[Object]:
    return load(ROOT / "deploy" / f"{name}.yaml")


def test_each_kind_with_such_a_field_has_a_policy_in_force() -> None:
    objects = documents("admission")
    policies = [obj for obj in objects if obj["kind"] == "ValidatingAdmissionPolicy"]
    # Those are about an annotation, and no field.
    of_backups = [obj["metadata"]["name"] for obj in backup_policies() if obj in policies]
    rules = {
        (rule["apiGroups"][0], resource): policy["spec"]["validations"]
        for policy in policies
        if policy["metadata"]["name"] not in of_backups
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    for resource in RESOURCES:
        validations = rules.get((resource.group, resource.plural), [])
        assert validations == node_rules(resource)
        named = {validation["message"].split()[0] for validation in validations}
        assert named >= {str(field) for field in (*node_fields(resource), *node_agents(resource))}
        assert bool(validations) == needs_verb(resource)
    bound = {obj["spec"]["policyName"]: obj["spec"] for obj in objects if obj["kind"].endswith("Binding")}
    assert set(bound) == {policy["metadata"]["name"] for policy in policies}
    assert all(spec["validationActions"] == ["Deny"] and "matchResources" not in spec for spec in bound.values())


def test_roles_of_users_cover_every_kind_and_do_not_allow_it() -> None:
    roles = {obj["metadata"]["name"]: obj for obj in documents("roles")}
    for name in ("view", "edit", "admin"):
        role = roles[f"{OPERATOR}-{name}"]
        assert role["metadata"]["labels"] == {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}
        granted = {(rule["apiGroups"][0], resource) for rule in role["rules"] for resource in rule["resources"]}
        privileged = {(resource.group, resource.plural) for resource in RESOURCES if resource.privileged}
        others = {(resource.group, resource.plural) for resource in RESOURCES} - privileged
        assert granted >= others
        # Only a role of its own lets a user have the operator read and write Secrets.
        assert granted & privileged == (privileged if name == "view" else set())
        verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
        assert not verbs & {RUN_ON_NODES, "*"}
        assert ("create" in verbs) == (name != "view")
    agents = roles[NODE_AGENTS]
    assert "labels" not in agents["metadata"]
    assert {verb for rule in agents["rules"] for verb in rule["verbs"]} == {RUN_ON_NODES}


def test_inherited_fields_need_the_verb_as_in_their_templates() -> None:
    checks = 0
    for whole in map(KINDS.__getitem__, sorted(WHOLE)):
        properties = flat_schema(whole.spec, as_c5c3=whole.as_c5c3)["properties"]
        shared = {(name,) for name in properties if gives_orders((name,), {})}
        checks += 1
        assert shared <= {field.path for field in node_fields(whole)}, whole.handle
    assert checks


def test_service_types_allow_no_other_spelling_of_a_type_nodes_obey() -> None:
    checks = 0
    (resource,) = (each for each in RESOURCES if each.handle == "KeystoneService")
    pattern = re.compile(flat_schema(resource.spec)["properties"]["type"]["pattern"])
    for values in node_values(resource):
        for value in values.values:
            checks += 1
            assert pattern.search(value)
            assert not ("-" in value and pattern.search(value.replace("-", "_")))
    assert checks
