"""`render` and `validate` with any Secret beside a resource that names it: a finding or a plan, no defect."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.cli.offline.documents import parse
from openstack_operator.cli.offline.manifest import Checker
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.cli.offline.schema import validate
from openstack_operator.cli.offline.survey import survey
from openstack_operator.plan import Object
from openstack_operator.registry import RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import dump_all, load
from tests.fields import ROOT
from tests.searches import IS_LONG
from tests.toggling import LISTED

CASES = {
    f"{path.parent.parent.name}/{path.stem}": load(path)
    for path in sorted((ROOT / "src" / "openstack_operator" / "services").glob("*/cases/*.yaml"))
    if not path.stem.endswith(".golden")
}
VERSIONS = {service.resource.kind: service.resource.api_version for service in reversed(SERVICES)}


def _of_bases() -> dict[str, list[Object]]:
    """Resources whose fields are toggled, with the Secrets that they name."""
    secrets = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        for name, data in LISTED["secrets"].items()
    ]
    return {
        f"{kind} {index}": [
            {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec},
            *secrets,
        ]
        for kind, entries in LISTED["bases"].items()
        for index, entry in enumerate(entries)
        for spec in [{name: value for name, value in entry.items() if name not in {"only", "all"}}]
        if "case" not in entry and "secret" in json.dumps(entry).lower()
    }


MANIFESTS = {
    name: manifests
    for name, manifests in {**CASES, **_of_bases()}.items()
    if any(each["kind"] == "Secret" for each in manifests)
}
BINARY = base64.b64encode(bytes(range(128, 256)) + b"\0\n").decode()
CONTENTS: Mapping[str, Callable[[Sequence[str]], Mapping[str, Any]]] = {
    "no data": lambda keys: {},
    "null data": lambda keys: {"data": None, "stringData": None},
    "null values": lambda keys: {"data": dict.fromkeys(keys)},
    "empty values": lambda keys: {"stringData": dict.fromkeys(keys, "")},
    "other keys": lambda keys: {"data": {"other": BINARY}},
    "binary values": lambda keys: {"data": dict.fromkeys(keys, BINARY)},
    "control characters": lambda keys: {"stringData": dict.fromkeys(keys, "a\0b\r\n\t%(x)s{{ y }}")},
    "unfinished files": lambda keys: {"stringData": dict.fromkeys(keys, "-----BEGIN CERTIFICATE-----\n[global\n{")},
    "both forms": lambda keys: {"data": dict.fromkeys(keys, BINARY), "stringData": dict.fromkeys(keys, "x")},
    "no base64": lambda keys: {"data": dict.fromkeys(keys, "%")},
    "wrong types": lambda keys: {"data": dict.fromkeys(keys, 5), "stringData": {key: {"a": [True]} for key in keys}},
    "a list": lambda keys: {"data": ["a"], "stringData": "b"},
}


def with_contents(manifest: Object, contents: str) -> Object:
    """The same Secret with other contents under its keys; any other manifest as it is."""
    if manifest["kind"] != "Secret":
        return manifest
    keys = [*(manifest.get("data") or {}), *(manifest.get("stringData") or {})]
    bare = {name: value for name, value in manifest.items() if name not in {"data", "stringData"}}
    return {**bare, **CONTENTS[contents](keys)}


def _as_yaml(manifests: Sequence[Object]) -> str:
    """Return documents in the part of YAML that is JSON: the emitter of PyYAML takes longer than the tests."""
    return "\n---\n".join(map(json.dumps, manifests))


def _combinations() -> list[tuple[str, str]]:
    """Manifests, each with all contents in a long run, else with every fourth: another quarter for each manifest."""
    step = 1 if IS_LONG else 4
    return [
        (name, contents) for offset, name in enumerate(MANIFESTS) for contents in [*CONTENTS][offset % step :: step]
    ]


@pytest.mark.security
@pytest.mark.search
@pytest.mark.seconds
@pytest.mark.parametrize(("name", "contents"), _combinations())
def test_any_secret_is_read_or_refused(name: str, contents: str) -> None:
    text = _as_yaml([with_contents(each, contents) for each in MANIFESTS[name]])
    documents, problems = parse(text.encode(), "f.yaml")
    result = survey(documents, ReleaseFiles(), namespace="openstack", rules=_RULES)
    said = "\n".join(map(str, (*problems, *result.findings)))
    assert "defect of the operator" not in said
    assert "Traceback" not in said
    # It can be printed, too.
    assert all(dump_all(children).encode() for _, children in result.objects)
    # Not a part of what is secret.
    assert "\\udc" not in said
    assert BINARY not in said


def test_every_case_with_a_secret_is_tried() -> None:
    assert len(MANIFESTS) > 30
    assert {"glance", "cephstorage", "keystone"} <= {name.partition("/")[0] for name in MANIFESTS}


def test_all_that_is_wrong_with_a_secret_is_said_at_once() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"a": 5, "b": "%", "c": "Yw=="},
    }
    assert [path for path, _ in Checker(RESOURCES).check(manifest).problems] == ["data.a", "data.b"]


def test_a_number_of_the_wrong_step_is_refused_before_the_operator_does() -> None:
    [resource] = [each for each in RESOURCES if each.kind == "CinderVolumeType"]
    schema = Checker(RESOURCES).schema(resource)["properties"]["spec"]
    spec = {"name": "fast", "encryption": {"keySize": 130}}
    assert validate(schema, spec, _RULES) == [("encryption.keySize", "Invalid value: 130: should be a multiple of 64")]


KNOWN = {
    *("additionalProperties", "default", "description", "enum", "format", "items", "maxItems", "maxLength"),
    *("maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern"),
    *("properties", "required", "type", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-validations", "nullable"),
    # Of what is an integer or a text.
    "anyOf",
}
"""Keywords of schemas that `validate` follows, or that refuse nothing."""


@pytest.mark.parametrize("resource", RESOURCES, ids=[each.handle for each in RESOURCES])
def test_no_keyword_of_a_schema_is_passed_over(resource: Any) -> None:
    assert _keywords(Checker(RESOURCES).schema(resource)) <= KNOWN


def _keywords(schema: Mapping[str, Any]) -> set[str]:
    inner = [*schema.get("properties", {}).values()]
    inner += [each for name in ("items", "additionalProperties") if isinstance(each := schema.get(name), dict)]
    return set(schema).union(*map(_keywords, inner))


def test_every_kind_in_the_definitions_is_known() -> None:
    """What a cluster gets from deploy/ is what `render` knows."""
    folders = [ROOT / "deploy" / folder for folder in ("crds", "crds-c5c3")]
    files = [path for folder in folders for path in folder.glob("*.yaml") if path.name != "kustomization.yaml"]
    installed = {
        (each["spec"]["group"], each["spec"]["names"]["kind"]) for path in files for each in _definitions(path)
    }
    assert installed == {(each.group, each.kind) for each in RESOURCES}


def _definitions(path: Path) -> list[Object]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [
        each for each in yaml.load_all(path.read_text("utf-8"), loader) if each["kind"] == "CustomResourceDefinition"
    ]


_RULES = evaluator()


@pytest.mark.seconds
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_secret_that_is_in_no_file_is_no_error(name: str) -> None:
    """A cluster may have it."""
    manifests = [each for each in MANIFESTS[name] if each["kind"] != "Secret"]
    documents, problems = parse(_as_yaml(manifests).encode(), "f.yaml")
    result = survey(documents, ReleaseFiles(), namespace="openstack", rules=_RULES)
    assert problems == []
    assert [each for each in result.errors if "Secret" in each.message] == []
