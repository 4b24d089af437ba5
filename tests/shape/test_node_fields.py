"""Who may decide what runs on nodes as root: no field gets there without a mark, and policies and roles say so."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.admission.names import NODE_AGENTS, OPERATOR, RUN_ON_NODES
from openstack_operator.api import EACH, Image, Model, Resource, handle, node_fields
from openstack_operator.api.schema import flat_schema
from openstack_operator.kube import Object, secret_data
from openstack_operator.manifests import load
from openstack_operator.plan import SpecError
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.render import OfflineCluster

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
    if node_fields(resource)
]
# What becomes of its fields are those of other kinds.
WHOLE = {"OpenStackControlPlane", "ControlPlane.c5c3.io"}

FieldPath = tuple[str, ...]


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


def test_what_gets_to_nodes_is_marked(found: dict[str, set[FieldPath]]) -> None:
    unmarked = {
        kind: paths - {field.path for field in node_fields(KINDS[kind])}
        for kind, paths in found.items()
        if not paths <= {field.path for field in node_fields(KINDS[kind])}
    }
    assert not unmarked, "name these fields in `on_nodes` of their model"


def test_marked_images_and_options_get_there(found: dict[str, set[FieldPath]]) -> None:
    """Otherwise the test above sees nothing."""
    for kind in ("Nova", "Neutron", "OVNNetwork", "OVNCluster.ovn.c5c3.io", "Cinder", "CephStorage"):
        paths = {field.path for field in node_fields(KINDS[kind])}
        wanted = {path for path, _ in suspicious(flat_schema(KINDS[kind].spec)) if path in paths}
        assert wanted - found[kind] == set(), kind


def test_the_same_fields_are_marked_by_either_groups_names(found: dict[str, set[FieldPath]]) -> None:
    for resource in RESOURCES:
        if resource.kind in found and resource.kind in KINDS and not resource.alias:
            ours = {field.path for field in node_fields(KINDS[resource.kind])}
            assert {field.path for field in node_fields(resource)} == ours


def documents(name: str) -> list[Object]:
    return load(ROOT / "deploy" / f"{name}.yaml")


def test_each_kind_with_such_a_field_has_a_policy_in_force() -> None:
    objects = documents("admission")
    policies = [obj for obj in objects if obj["kind"] == "ValidatingAdmissionPolicy"]
    rules = {
        (rule["apiGroups"][0], resource): policy["spec"]["validations"]
        for policy in policies
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    for resource in RESOURCES:
        validations = rules.get((resource.group, resource.plural), [])
        named = [validation["message"].split()[0] for validation in validations]
        assert named == [str(field) for field in node_fields(resource)]
    bound = {obj["spec"]["policyName"]: obj["spec"] for obj in objects if obj["kind"].endswith("Binding")}
    assert set(bound) == {policy["metadata"]["name"] for policy in policies}
    assert all(spec["validationActions"] == ["Deny"] and "matchResources" not in spec for spec in bound.values())


def test_roles_of_users_cover_every_kind_and_do_not_allow_it() -> None:
    roles = {obj["metadata"]["name"]: obj for obj in documents("roles")}
    for name in ("view", "edit", "admin"):
        role = roles[f"{OPERATOR}-{name}"]
        assert role["metadata"]["labels"] == {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}
        granted = {(rule["apiGroups"][0], resource) for rule in role["rules"] for resource in rule["resources"]}
        assert granted >= {(resource.group, resource.plural) for resource in RESOURCES}
        verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
        assert not verbs & {RUN_ON_NODES, "*"}
        assert ("create" in verbs) == (name != "view")
    agents = roles[NODE_AGENTS]
    assert "labels" not in agents["metadata"]
    assert {verb for rule in agents["rules"] for verb in rule["verbs"]} == {RUN_ON_NODES}
