"""What `make check-manifests` lets pass, and what it refuses."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.checks import alerts, olm_bundle, schemas
from tools.checks.findings import AGENT_REASONS, COMMON_REASONS, OBJECT_REASONS, Finding, explained, unused

PRIVILEGED = Finding(
    check="container-security-context-privileged", kind="DaemonSet", name="nova-libvirt", container="main", summary=""
)
EVERYTHING = [
    *(replace(PRIVILEGED, check=check) for check in AGENT_REASONS),
    *(replace(PRIVILEGED, name="keystone-api", check=check) for check in COMMON_REASONS),
    *(replace(PRIVILEGED, name=name, check=check) for name, check in OBJECT_REASONS),
]


def test_a_node_agent_may_be_privileged_and_an_api_may_not() -> None:
    assert explained(PRIVILEGED)
    assert not explained(replace(PRIVILEGED, name="keystone-api"))


def test_a_reason_for_one_object_is_none_for_another() -> None:
    (name, check), *_ = OBJECT_REASONS
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


def _cloud(*names: str) -> list[dict[str, Any]]:
    rules = [{"alert": name, "for": "5m", "labels": {"severity": "critical"}, "annotations": {}} for name in names]
    return [{"kind": "Service"}, {"kind": "PrometheusRule", "spec": {"groups": [{"name": "cloud", "rules": rules}]}}]


NAMES = list(dict.fromkeys(fault.alert for fault in alerts.FAULTS))


def _promtool(folder: Path, exit_status: int) -> Path:
    path = folder / "promtool"
    path.write_text(f"#!/bin/sh\necho words of promtool; exit {exit_status}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def looks(test: dict[str, Any]) -> dict[str, dict[int, list[str]]]:
    """Return what a test of promtool expects: alert → minute → summaries."""
    found: dict[str, dict[int, list[str]]] = {}
    for each in test["alert_rule_test"]:
        summaries = [alert["exp_annotations"]["summary"] for alert in each["exp_alerts"]]
        found.setdefault(each["alertname"], {})[int(each["eval_time"].removesuffix("m"))] = summaries
    return found


def test_each_alert_is_expected_at_its_time_and_no_other_beside_it(tmp_path: Path) -> None:
    assert alerts.check(_promtool(tmp_path, 0), _cloud(*NAMES), tmp_path) == len(NAMES)
    silent: dict[int, list[str]] = {minute: [] for minute in range(alerts.LENGTH + 1)}
    healthy, *faulty = json.loads((tmp_path / "tests.yaml").read_text(encoding="utf-8"))["tests"]
    assert looks(healthy) == dict.fromkeys(NAMES, silent)
    for fault, test in zip(alerts.FAULTS, faulty, strict=True):
        found = looks(test)
        begin = fault.first_minute + 5
        assert found.pop(fault.alert) == {begin - 1: [], begin: [fault.summary], alerts.LENGTH: [fault.summary]}
        assert found == {name: silent for name in NAMES if name != fault.alert}


@pytest.mark.parametrize("names", [NAMES[1:], [*NAMES, "OpenStackNew"]])
def test_alerts_without_faults_and_faults_without_alerts_are_named(names: list[str], tmp_path: Path) -> None:
    with pytest.raises(alerts.AlertsError, match="OpenStackNew" if "OpenStackNew" in names else NAMES[0]):
        alerts.check(_promtool(tmp_path, 0), _cloud(*names), tmp_path)


def test_words_of_promtool_are_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(alerts.AlertsError, match="words of promtool"):
        alerts.check(_promtool(tmp_path, 1), _cloud(*NAMES), tmp_path)


def test_findings_about_the_bundle_are_explained_or_faults() -> None:
    count, faults = olm_bundle.judge([*olm_bundle.EXPLAINED, "Error: Value : no icon at all"])
    assert count == len(olm_bundle.EXPLAINED) + 1
    assert faults == ["bundle: Error: Value : no icon at all"]
    _, unused = olm_bundle.judge([])
    assert all("explains a finding that is not there" in each for each in unused)
    assert len(unused) == len(olm_bundle.EXPLAINED)
