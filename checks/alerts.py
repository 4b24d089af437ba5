"""Each alert of a cloud, tried by promtool: it fires once what it is about lasts, not before, and no other one does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NAMESPACE = "openstack"
"""Namespace of the cloud under test."""
_RULES, _TESTS = "rules.yaml", "tests.yaml"
_LENGTH = 30
"""Minutes of the series; the longest alert waits for ten."""
_MEMBER = f'namespace="{NAMESPACE}", pod="rabbitmq-server-0"'
_API = f'namespace="{NAMESPACE}", job="{NAMESPACE}/keystone-api", proxy="api"'
_TARGET = f'namespace="{NAMESPACE}", job="{NAMESPACE}/keystone-api", pod="keystone-api-0"'

_MEMORY = f"rabbitmq_alarms_memory_used_watermark{{{_MEMBER}}}"
_DISK = f"rabbitmq_alarms_free_disk_space_watermark{{{_MEMBER}}}"
_UNREACHABLE = f"rabbitmq_unreachable_cluster_peers_count{{{_MEMBER}}}"
_ANSWERED = f'haproxy_backend_http_responses_total{{{_API}, code="2xx"}}'
_FAILED = f'haproxy_backend_http_responses_total{{{_API}, code="5xx"}}'
_UP = f"up{{{_TARGET}}}"
_LEADER = 'leader_election_master_status{namespace="openstack-operator", pod="openstack-operator-0"}'
_NO_SAMPLE = f"_x{_LENGTH}"

HEALTHY: Mapping[str, str] = {
    _MEMORY: f"0x{_LENGTH}",
    _DISK: f"0x{_LENGTH}",
    _UNREACHABLE: f"0x{_LENGTH}",
    _ANSWERED: f"0+91x{_LENGTH}",
    _FAILED: f"0+9x{_LENGTH}",
    _UP: f"1x{_LENGTH}",
    _LEADER: f"1x{_LENGTH}",
}
"""Series of a cloud that works, in promtool's notation, with a sample each minute; nine requests of a hundred fail."""


@dataclass(frozen=True)
class Fault:
    """A fault from the first minute on, and the alert that reports it."""

    alert: str
    series: Mapping[str, str]
    """In place of those of a cloud that works."""
    labels: Mapping[str, str]
    """Of the alert, beside its severity."""
    summary: str
    """Of the alert, with its values."""
    first_minute: int = 0
    """The first one in which the alert's expression is true."""


_OF_MEMBER = {"namespace": NAMESPACE, "pod": "rabbitmq-server-0"}
_OF_JOB = {"namespace": NAMESPACE, "job": f"{NAMESPACE}/keystone-api"}
_BLOCKED = "rabbitmq-server-0 has no memory or no disk left: clients that publish wait, at all members"
_NO_OPERATOR = (
    "no openstack-operator acts, or Prometheus does not read its metrics: what fails may not be healed, and "
    "certificates and keys may not be renewed"
)
_SILENT = "no pod of openstack/keystone-api answers Prometheus"
FAULTS = (
    Fault("OpenStackBrokerBlocked", {_MEMORY: f"1x{_LENGTH}"}, _OF_MEMBER, _BLOCKED),
    Fault("OpenStackBrokerBlocked", {_DISK: f"1x{_LENGTH}"}, _OF_MEMBER, _BLOCKED),
    Fault(
        "OpenStackBrokerApart",
        {_UNREACHABLE: f"2x{_LENGTH}"},
        _OF_MEMBER,
        "rabbitmq-server-0 does not reach 2 of the other members of its broker",
    ),
    Fault(
        "OpenStackAPIFails",
        {_FAILED: f"0+13x{_LENGTH}"},
        _OF_JOB,
        "of the requests to openstack/keystone-api, 12.5% are answered with 5xx",
        first_minute=1,  # a rate needs two samples
    ),
    Fault("OpenStackSilent", {_UP: f"0x{_LENGTH}"}, _OF_JOB, _SILENT),
    # Samples of minutes 0 to 2, and then no target; Prometheus repeats the last one for five minutes.
    Fault("OpenStackSilent", {_UP: f"1x2 _x{_LENGTH - 3}"}, _OF_JOB, _SILENT, first_minute=7),
    Fault("OpenStackOperatorGone", {_LEADER: _NO_SAMPLE}, {}, _NO_OPERATOR),
    Fault("OpenStackOperatorGone", {_LEADER: f"0x{_LENGTH}"}, {}, _NO_OPERATOR),
)


class AlertsError(Exception):
    """A rule that promtool refuses, or that does not fire as it should, with promtool's words."""


def check(promtool: Path, documents: Iterable[Mapping[str, Any]], folder: Path) -> int:
    """Try each alert of the PrometheusRules among the documents, with files in `folder`; return how many there are.

    Raises AlertsError if promtool refuses a rule, if an alert fires too early, too late or beside another one, and if
    there is an alert without a fault in `FAULTS`.
    """
    groups = [group for each in documents if each["kind"] == "PrometheusRule" for group in each["spec"]["groups"]]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    if untried := sorted(rules.keys() ^ {fault.alert for fault in FAULTS}):
        raise AlertsError(f"checks/alerts.py has no fault for these alerts, or one for what is none: {untried}")
    (folder / _RULES).write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    tests = [_healthy(rules), *(_faulty(fault, rules) for fault in FAULTS)]
    content = {"rule_files": [_RULES], "evaluation_interval": "1m", "tests": tests}
    (folder / _TESTS).write_text(yaml.safe_dump(content), encoding="utf-8")
    for command in (("check", "rules", "--lint=all", "--lint-fatal", _RULES), ("test", "rules", _TESTS)):
        result = subprocess.run([promtool, *command], cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode:
            raise AlertsError(f"promtool {' '.join(command)}:\n{result.stdout}{result.stderr}")
    return len(rules)


def _healthy(rules: Mapping[str, Any]) -> dict[str, Any]:
    return _test("a cloud that works", HEALTHY, _silent(rules))


def _faulty(fault: Fault, rules: Mapping[str, Any]) -> dict[str, Any]:
    """The alert fires in the minute in which it has lasted, and still at the end, and not a minute before; no other one
    fires in any minute.
    """
    (series,) = fault.series
    begin = fault.first_minute + int(rules[fault.alert]["for"].removesuffix("m"))
    labels = {**rules[fault.alert]["labels"], **fault.labels}
    alerts = [{"exp_labels": labels, "exp_annotations": {"summary": fault.summary}}]
    expected = [_expected(fault.alert, begin - 1), *(_expected(fault.alert, each, alerts) for each in (begin, _LENGTH))]
    expected += _silent(rules.keys() - {fault.alert})
    return _test(f"{fault.alert}: {series}", {**HEALTHY, **fault.series}, expected)


def _silent(alerts: Iterable[str]) -> list[dict[str, Any]]:
    return [_expected(alert, minute) for alert in sorted(alerts) for minute in range(_LENGTH + 1)]


def _expected(alert: str, minute: int, alerts: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": list(alerts)}


def _test(name: str, series: Mapping[str, str], expected: list[dict[str, Any]]) -> dict[str, Any]:
    inputs = [{"series": each, "values": values} for each, values in series.items()]
    return {"name": name, "interval": "1m", "input_series": inputs, "alert_rule_test": expected}


def parse_objects(text: str) -> Iterator[dict[str, Any]]:
    """Objects of a rendered cloud."""
    return (each for each in yaml.safe_load_all(text) if each)
