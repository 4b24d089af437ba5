"""What `make check-manifests` lets pass, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

from checks import schemas
from checks.findings import OF_AGENTS, OF_ALL, OF_ONE, Finding, explained, unused

PRIVILEGED = Finding(
    check="container-security-context-privileged", kind="DaemonSet", name="nova-libvirt", container="main", summary=""
)
EVERYTHING = [
    *(replace(PRIVILEGED, check=check) for check in OF_AGENTS),
    *(replace(PRIVILEGED, name="keystone-api", check=check) for check in OF_ALL),
    *(replace(PRIVILEGED, name=name, check=check) for name, check in OF_ONE),
]


def test_a_node_agent_may_be_privileged_and_an_api_may_not() -> None:
    assert explained(PRIVILEGED)
    assert not explained(replace(PRIVILEGED, name="keystone-api"))


def test_a_reason_for_one_object_is_none_for_another() -> None:
    (name, check), *_ = OF_ONE
    assert explained(replace(PRIVILEGED, name=name, check=check))
    assert not explained(replace(PRIVILEGED, name="glance-api", check=check))


def test_a_check_that_nobody_has_a_reason_for_is_not_explained() -> None:
    assert not any(
        explained(replace(PRIVILEGED, name=name, check="container-resources")) for name in ("nova-libvirt", "x")
    )


def test_each_reason_is_needed_by_a_finding() -> None:
    assert unused(EVERYTHING) == []
    for finding in EVERYTHING:
        left = [each for each in EVERYTHING if each != finding]
        assert [words.partition(" of ")[0] for words in unused(left)] == [finding.check]


def test_a_schema_refuses_fields_it_does_not_name() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "string"}}}}}
    strict = schemas.strict(schema)
    assert strict["additionalProperties"] is False
    assert strict["properties"]["spec"]["additionalProperties"] is False
    assert "additionalProperties" not in strict["properties"]["spec"]["properties"]["size"]


def test_a_schema_takes_what_it_leaves_open() -> None:
    free = {"type": "object", "properties": {"kind": {}}, "x-kubernetes-preserve-unknown-fields": True}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    assert schemas.strict(free)["additionalProperties"] is True
    assert schemas.strict(labels) == labels


def test_a_property_may_be_called_properties() -> None:
    schema = {"properties": {"properties": {"type": "object", "properties": {"a": {}}}}}
    assert schemas.strict(schema)["properties"]["properties"]["additionalProperties"] is False


def test_a_pattern_of_a_number_or_text_is_for_text_alone() -> None:
    port = {"type": "string", "pattern": "^[0-9]+%$", "x-kubernetes-int-or-string": True}
    assert schemas.strict(port) == {"anyOf": [{"type": "string", "pattern": "^[0-9]+%$"}, {"type": "integer"}]}
