"""Each field of each kind says in its description what it does, in whole sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from openstack_operator.api import split_default
from openstack_operator.api.schema import flat_schema
from openstack_operator.api.templates import first_sentence, sentences
from openstack_operator.registry import RESOURCES
from tools.checks.descriptions import DOUBLED, MISSING, ONLY_DEFAULT, TRUNCATED, definitions, fault, faults, fields

STAYS = re.compile(r"\bcannot (be changed|shrink)\b")
SAYS_SO = re.compile(
    r"cannot (be )?(changed?|removed?|shrink|set)|cannot set or unset|(never|not) (shrink|decrease|remove|change)"
    r"|the same as|only grow",
    re.IGNORECASE,
)


def test_every_field_of_every_kind_has_a_whole_description() -> None:
    """Run `python -m tools.checks.descriptions` for the counts."""
    schemas = [(f"{name} {part}", schema) for name, parts in definitions() for part, schema in parts.items()]
    assert sum(1 for _, schema in schemas for _ in fields(schema)) > 10_000
    assert [(path, problem) for name, schema in schemas for path, problem in faults(schema, name)] == []


def test_a_template_has_the_first_sentence_of_each_field_of_its_kind() -> None:
    specs = {name: dict(fields(parts["spec"])) for name, parts in definitions()}
    cloud = specs["openstackcontrolplanes.openstack.k8s.io"]
    names = {path.removeprefix("spec.nova."): path for path in cloud if path.startswith("spec.nova.")}
    compared = 0
    for name, path in names.items():
        kind_field = specs["novas.openstack.k8s.io"].get(f"spec.{name}")
        if kind_field is None or "default" in kind_field:
            continue
        words = split_default(cloud[path]["description"])[0]
        assert words == first_sentence(split_default(kind_field["description"])[0]), path
        compared += 1
    assert compared > 200


def unsaid(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the path of each field that a rule keeps from changes, and whose description does not say so."""
    for rule in schema.get("x-kubernetes-validations", ()):
        name = rule.get("fieldPath", "").removeprefix(".")
        field = schema.get("properties", {}).get(name, {}) if name else schema
        if STAYS.search(rule["message"]) and field and not SAYS_SO.search(field.get("description", "")):
            yield f"{path}.{name}" if name else path


def schemas_in(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and each one in it: of fields, of entries of lists, of values of maps."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from schemas_in(field, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(name), dict):
            yield from schemas_in(cast("dict[str, Any]", inner), f"{path}[]")


def test_a_field_that_cannot_be_changed_says_so() -> None:
    missing: list[str] = []
    for resource in RESOURCES:
        spec = flat_schema(resource.spec, as_c5c3=resource.as_c5c3)
        for path, schema in schemas_in(spec, "spec"):
            missing += (f"{resource.crd_name} {each}" for each in unsaid(schema, path))
    assert missing == []


def test_a_field_that_does_not_say_that_it_stays_is_reported() -> None:
    rule = {"rule": "self == oldSelf", "message": "region cannot be changed once set; create a new resource instead"}
    field = {"type": "string", "description": "Region.", "x-kubernetes-validations": [rule]}
    group = {"properties": {"region": field}, "x-kubernetes-validations": [{**rule, "fieldPath": ".region"}]}
    assert list(unsaid(field, "spec.region")) == ["spec.region"]
    assert list(unsaid(group, "spec")) == ["spec.region"]
    assert list(unsaid({**field, "description": "Region. Cannot be changed."}, "spec.region")) == []


FAULTY = {
    "": MISSING,
    "Default: 2.": ONLY_DEFAULT,
    "Number of pods. Number of pods. Default: 2.": DOUBLED,
    "Number of pods. Default: 2. Default: 2.": DOUBLED,
    "Labels. They select. they select.": DOUBLED,
    "Labels, by which a Prometheus selects them: `release.": TRUNCATED,
    "Networks of programs (nova-compute.": TRUNCATED,
    "Number of pods": TRUNCATED,
    "Members of the cluster, e.g.": TRUNCATED,
    "Secret with `ca.crt`, and.": TRUNCATED,
    "Labels. Default: 2. They select": TRUNCATED,
}


@pytest.mark.parametrize("text", FAULTY, ids=lambda text: text or "empty")
def test_a_faulty_description_is_reported(text: str) -> None:
    assert fault(text) == FAULTY[text]


@pytest.mark.parametrize(
    "text",
    [
        "Number of pods. Default: 2.",
        "Labels, for example `release: prometheus`. Default: {}.",
        "Address to ask the load balancer for.",
        "A `(` in code is no parenthesis.",
        "Renamed; write storageClassName.",
    ],
)
def test_a_whole_description_has_no_fault(text: str) -> None:
    assert fault(text) == ""


SENTENCES = {
    "one": ("Number of pods.", ["Number of pods."]),
    "two": ("Number of pods. Unset is one.", ["Number of pods.", "Unset is one."]),
    "a colon ends none": ("Login: a Secret. Unset is none.", ["Login: a Secret.", "Unset is none."]),
    "a full stop in code": (
        "The name `ns1.example.org. `. It ends so.",
        ["The name `ns1.example.org. `.", "It ends so."],
    ),
    "an abbreviation": ("A taint, e.g. one of GPUs. Unset is none.", ["A taint, e.g. one of GPUs.", "Unset is none."]),
    "parentheses": ("Locks (in etcd. Or files). Unset is none.", ["Locks (in etcd. Or files).", "Unset is none."]),
    "a file name": ("The file policy.yaml of an API.", ["The file policy.yaml of an API."]),
    "no full stop": ("Number of pods", ["Number of pods"]),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("text", "parts"), SENTENCES.values(), ids=SENTENCES)
def test_sentences_end_at_full_stops_of_prose(text: str, parts: list[str]) -> None:
    assert list(sentences(text)) == parts
    assert first_sentence(text) == (parts[0] if parts else "")
