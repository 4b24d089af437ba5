"""Each alert of a cloud, tried by promtool: it fires once what it is about lasts, not before, and no other one does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NAMESPACE = "openstack"
"""Namespace of the cloud under test."""
_RULES, _TESTS = "rules.yaml", "tests.yaml"
"""Written as JSON, which is YAML: that is a hundred times as fast."""
LENGTH = 45
"""Minutes of the series; the longest alert waits for thirty."""
_OPERATOR = 'namespace="openstack-operator", pod="openstack-operator-0"'
_MEMBER = f'namespace="{NAMESPACE}", pod="rabbitmq-server-0"'
_API = f'namespace="{NAMESPACE}", job="{NAMESPACE}/keystone-api", proxy="api"'
_TARGET = f'namespace="{NAMESPACE}", job="{NAMESPACE}/keystone-api", pod="keystone-api-0"'
_RESOURCE = f'kind="Keystone", namespace="{NAMESPACE}", name="keystone"'
_HELD_RESOURCE = f'kind="Glance", namespace="{NAMESPACE}", name="glance"'
_CERTIFICATE = f'{_RESOURCE}, secret="keystone-api-tls", key="tls.crt"'
_OF_A_DAY = f'{_RESOURCE}, secret="of-a-day", key="tls.crt"'
_CLAIM = f'namespace="{NAMESPACE}", persistentvolumeclaim="data-mariadb-server-0"'
_DAY = 24 * 3600


def _workload(metric: str, kind: str, workload_kind: str, workload: str) -> str:
    where = f'kind="{kind}", namespace="{NAMESPACE}", name="{kind.lower()}"'
    return (
        f'openstack_operator_workload_pods_{metric}{{{where}, workload_kind="{workload_kind}", workload="{workload}"}}'
    )


_WORKLOADS = {
    "mariadb-server": ("MariaDB", "StatefulSet"),
    "keystone-api": ("Keystone", "Deployment"),
    "nova-cell1-compute": ("Nova.nova.openstack.c5c3.io", "DaemonSet"),
    "ovn-chassis": ("OVNNetwork", "DaemonSet"),
}
"""Workloads with three pods each, with kind of the resource and of the workload."""
_READY = {name: _workload("ready", *kinds, name) for name, kinds in _WORKLOADS.items()}
_DESIRED = {name: _workload("desired", *kinds, name) for name, kinds in _WORKLOADS.items()}
_MEMORY = f"rabbitmq_alarms_memory_used_watermark{{{_MEMBER}}}"
_DISK = f"rabbitmq_alarms_free_disk_space_watermark{{{_MEMBER}}}"
_UNREACHABLE = f"rabbitmq_unreachable_cluster_peers_count{{{_MEMBER}}}"
_ANSWERED = f'haproxy_backend_http_responses_total{{{_API}, code="2xx"}}'
_FAILED = f'haproxy_backend_http_responses_total{{{_API}, code="5xx"}}'
_SECONDS = f"haproxy_backend_response_time_average_seconds{{{_API}}}"
_UP = f"up{{{_TARGET}}}"
_IS_READY = f"openstack_operator_resource_ready{{{_RESOURCE}}}"
_STALLED = f'openstack_operator_resource_condition{{{_RESOURCE}, type="Stalled", status="True"}}'
_CHANGING = f'openstack_operator_resource_condition{{{_RESOURCE}, type="Progressing", status="True"}}'
_OF_SCHEDULE = {"namespace": NAMESPACE, "kind": "OpenStackBackupSchedule", "name": "nightly"}
_SCHEDULE = f'namespace="{NAMESPACE}", kind="OpenStackBackupSchedule", name="nightly"'
_LATE, _BEHIND, _UNPROVEN = (
    f'openstack_operator_resource_condition{{{_SCHEDULE}, type="{each}", status="False"}}'
    for each in ("BackupsReady", "ArchiveReady", "RestoreVerified")
)
_EXPIRY = f"openstack_operator_certificate_expiry_timestamp_seconds{{{_CERTIFICATE}}}"
_START = f"openstack_operator_certificate_start_timestamp_seconds{{{_CERTIFICATE}}}"
_FREE = f"kubelet_volume_stats_available_bytes{{{_CLAIM}}}"
_SIZE = f"kubelet_volume_stats_capacity_bytes{{{_CLAIM}}}"
_CONNECTED = f'mysql_global_status_threads_connected{{namespace="{NAMESPACE}", pod="mariadb-server-0"}}'
_ALLOWED = f'mysql_global_variables_max_connections{{namespace="{NAMESPACE}", pod="mariadb-server-0"}}'
_DATABASE_JOB, _NORTHD_JOB = f"{NAMESPACE}/ovn-sb", f"{NAMESPACE}/ovn-northd"
_LEADS, _FOLLOWS = (
    f'ovn_db_cluster_leader{{namespace="{NAMESPACE}", job="{_DATABASE_JOB}", pod="ovn-sb-{number}"}}'
    for number in range(2)
)
_WORKS = f'ovn_northd_active{{namespace="{NAMESPACE}", job="{_NORTHD_JOB}", pod="ovn-northd-1"}}'
_CHASSIS = f'ovn_controller_connected{{namespace="{NAMESPACE}", job="{NAMESPACE}/ovn-exporter", node="node1"}}'
_LIBVIRT = f'libvirt_up{{namespace="{NAMESPACE}", job="{NAMESPACE}/nova-libvirt-exporter", node="node1"}}'
_COPY = f'redis_master_link_up{{namespace="{NAMESPACE}", pod="valkey-server-1", master_host="valkey-server-0"}}'
_EVICTED = f'memcached_items_evicted_total{{namespace="{NAMESPACE}", pod="memcached-server-0"}}'
_LEADER = f"leader_election_master_status{{{_OPERATOR}}}"
_DEPTH = f'workqueue_depth{{{_OPERATOR}, name="services"}}'
_PASSES = f'controller_runtime_reconcile_total{{{_OPERATOR}, controller="Keystone", result="success"}}'
_PANICS = f'controller_runtime_reconcile_panics_total{{{_OPERATOR}, controller="Keystone"}}'
_NO_SAMPLE = f"_x{LENGTH}"

HEALTHY: Mapping[str, str] = {
    **dict.fromkeys((*_READY.values(), *_DESIRED.values()), f"3x{LENGTH}"),
    _MEMORY: f"0x{LENGTH}",
    _DISK: f"0x{LENGTH}",
    _UNREACHABLE: f"0x{LENGTH}",
    _ANSWERED: f"0+91x{LENGTH}",
    _FAILED: f"0+9x{LENGTH}",
    _SECONDS: f"4.9x{LENGTH}",
    _UP: f"1x{LENGTH}",
    _IS_READY: f"1x{LENGTH}",
    # The last step of an upgrade of this one is held.
    f"openstack_operator_resource_ready{{{_HELD_RESOURCE}}}": f"0x{LENGTH}",
    f"openstack_operator_resource_held{{{_HELD_RESOURCE}}}": f"1x{LENGTH}",
    # Times are from the beginning of the series on: a certificate of 110 days, and one of a day.
    _START: f"-{100 * _DAY}x{LENGTH}",
    _EXPIRY: f"{10 * _DAY}x{LENGTH}",
    f"openstack_operator_certificate_start_timestamp_seconds{{{_OF_A_DAY}}}": f"0x{LENGTH}",
    f"openstack_operator_certificate_expiry_timestamp_seconds{{{_OF_A_DAY}}}": f"{_DAY}x{LENGTH}",
    _CONNECTED: f"79x{LENGTH}",
    _ALLOWED: f"100x{LENGTH}",
    _FREE: f"11x{LENGTH}",
    _SIZE: f"100x{LENGTH}",
    _LEADS: f"1x{LENGTH}",
    _FOLLOWS: f"0x{LENGTH}",
    _WORKS: f"1x{LENGTH}",
    _CHASSIS: f"1x{LENGTH}",
    _LIBVIRT: f"1x{LENGTH}",
    _COPY: f"1x{LENGTH}",
    # One in two seconds.
    _EVICTED: f"0+30x{LENGTH}",
    _LEADER: f"1x{LENGTH}",
    _DEPTH: f"2x{LENGTH}",
    _PASSES: f"0+5x{LENGTH}",
    _PANICS: f"1x{LENGTH}",
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
_BLOCKED = "rabbitmq-server-0 has no free memory or disk: publishers wait on all members"
_NO_OPERATOR = (
    "no openstack-operator is active, or Prometheus cannot scrape it: failures may not be repaired, "
    "and certificates and keys not renewed"
)
_SILENT = "no pod of openstack/keystone-api answers Prometheus"
_OF_RESOURCE = {"namespace": NAMESPACE, "kind": "Keystone", "name": "keystone"}


def _of_workload(workload: str) -> dict[str, str]:
    kind = _WORKLOADS[workload][0]
    return {"namespace": NAMESPACE, "kind": kind, "name": kind.lower(), "workload": workload}


FAULTS = (
    Fault("OpenStackBrokerBlocked", {_MEMORY: f"1x{LENGTH}"}, _OF_MEMBER, _BLOCKED),
    Fault("OpenStackBrokerBlocked", {_DISK: f"1x{LENGTH}"}, _OF_MEMBER, _BLOCKED),
    Fault(
        "OpenStackBrokerApart",
        {_UNREACHABLE: f"2x{LENGTH}"},
        _OF_MEMBER,
        "rabbitmq-server-0 does not reach 2 of the other members of its broker",
    ),
    Fault(
        "OpenStackAPIFails",
        {_FAILED: f"0+13x{LENGTH}"},
        _OF_JOB,
        "openstack/keystone-api answers 12.5% of requests with 5xx",
        first_minute=1,  # a rate needs two samples
    ),
    Fault("OpenStackSilent", {_UP: f"0x{LENGTH}"}, _OF_JOB, _SILENT),
    # Samples of minutes 0 to 2, and then no target; Prometheus repeats the last one for five minutes.
    Fault("OpenStackSilent", {_UP: f"1x2 _x{LENGTH - 3}"}, _OF_JOB, _SILENT, first_minute=7),
    Fault(
        "OpenStackAPISlow",
        {_SECONDS: f"6x{LENGTH}"},
        _OF_JOB,
        "openstack/keystone-api takes 6s on average to answer",
        first_minute=1,
    ),
    Fault(
        "OpenStackDatabaseDown",
        {_READY["mariadb-server"]: f"0x{LENGTH}"},
        _of_workload("mariadb-server"),
        "no member of mariadb-server serves clients: no API works",
    ),
    Fault(
        "OpenStackMemberMissing",
        {_READY["mariadb-server"]: f"2x{LENGTH}"},
        _of_workload("mariadb-server"),
        "1 of the members of mariadb-server do not serve: losing another one may stop it",
    ),
    Fault(
        "OpenStackServiceDown",
        {_READY["keystone-api"]: f"0x{LENGTH}"},
        _of_workload("keystone-api"),
        "no pod of keystone-api is ready",
    ),
    Fault(
        "OpenStackComputeNodeDown",
        {_READY["nova-cell1-compute"]: f"2x{LENGTH}"},
        _of_workload("nova-cell1-compute"),
        "nova-cell1-compute is not ready on 1 of its nodes: their servers may be down",
    ),
    Fault(
        "OpenStackChassisDown",
        {_READY["ovn-chassis"]: f"0x{LENGTH}"},
        _of_workload("ovn-chassis"),
        "ovn-chassis is not ready on 3 of its nodes: servers there may have no network",
    ),
    Fault(
        "OpenStackVolumeNearlyFull",
        {_FREE: f"9x{LENGTH}"},
        {"namespace": NAMESPACE, "persistentvolumeclaim": "data-mariadb-server-0"},
        "9% of the volume of data-mariadb-server-0 are free",
    ),
    Fault(
        "OpenStackDatabaseConnections",
        {_CONNECTED: f"90x{LENGTH}"},
        {"namespace": NAMESPACE, "pod": "mariadb-server-0"},
        "mariadb-server-0 uses 90% of its allowed connections",
    ),
    Fault(
        "OpenStackOVNLeaderless",
        {_LEADS: f"0x{LENGTH}"},
        {"namespace": NAMESPACE, "job": _DATABASE_JOB},
        "no member of openstack/ovn-sb leads: networks and ports cannot be changed",
    ),
    Fault(
        "OpenStackNorthdIdle",
        {_WORKS: f"0x{LENGTH}"},
        {"namespace": NAMESPACE, "job": _NORTHD_JOB},
        "no pod of openstack/ovn-northd works: changes of networks do not reach the nodes",
    ),
    Fault(
        "OpenStackChassisDisconnected",
        {_CHASSIS: f"0x{LENGTH}"},
        {"namespace": NAMESPACE, "job": f"{NAMESPACE}/ovn-exporter", "node": "node1"},
        "ovn-controller of node1 has no connection to the southbound database: new ports and changes of networks do"
        " not reach the node",
    ),
    Fault(
        "OpenStackLibvirtDown",
        {_LIBVIRT: f"0x{LENGTH}"},
        {"namespace": NAMESPACE, "job": f"{NAMESPACE}/nova-libvirt-exporter", "node": "node1"},
        "libvirt of node1 does not answer: servers there run on, and cannot be started or changed",
    ),
    Fault(
        "OpenStackValkeyApart",
        {_COPY: f"0x{LENGTH}"},
        {"namespace": NAMESPACE, "pod": "valkey-server-1"},
        "valkey-server-1 does not replicate from its primary, and cannot replace it",
    ),
    Fault(
        "OpenStackMemcachedEvicts",
        {_EVICTED: f"0+180x{LENGTH}"},
        {"namespace": NAMESPACE, "pod": "memcached-server-0"},
        "memcached-server-0 drops 3 items a second for lack of memory: services query Keystone again",
        first_minute=2,  # a rate of five minutes
    ),
    *(
        Fault("OpenStackNotReady", series, _OF_RESOURCE, "Keystone keystone is not Ready, or its change is not done")
        for series in ({_IS_READY: f"0x{LENGTH}"}, {_CHANGING: f"1x{LENGTH}"})
    ),
    Fault(
        "OpenStackStalled",
        {_STALLED: f"1x{LENGTH}"},
        _OF_RESOURCE,
        "Keystone keystone does not become Ready by itself",
    ),
    Fault(
        "OpenStackBackupLate",
        {_LATE: f"1x{LENGTH}"},
        _OF_SCHEDULE,
        "the newest backup of schedule nightly fails, or is older than it should be",
    ),
    Fault(
        "OpenStackArchiveLate",
        {_BEHIND: f"1x{LENGTH}"},
        _OF_SCHEDULE,
        "the archive of schedule nightly is behind: later changes would be lost with the cloud",
    ),
    Fault(
        "OpenStackBackupNotVerified",
        {_UNPROVEN: f"1x{LENGTH}"},
        _OF_SCHEDULE,
        "the newest backup of schedule nightly cannot be restored, or was not verified",
    ),
    Fault(
        "OpenStackCertificateExpires",
        # Its last samples are later, so that what is left of it is the same in each minute.
        {_EXPIRY: f"{_DAY}+60x{LENGTH}"},
        {**_OF_RESOURCE, "secret": "keystone-api-tls", "key": "tls.crt"},
        "tls.crt of Secret keystone-api-tls is valid for 1d 0h 0m 0s more",
    ),
    Fault(
        "OpenStackOperatorStuck",
        {_PASSES: f"5x{LENGTH}"},
        {"namespace": "openstack-operator", "pod": "openstack-operator-0"},
        "openstack-operator-0 has 2 resources queued, and finishes none",
    ),
    Fault(
        "OpenStackOperatorFails",
        {_PANICS: f"0 1x{LENGTH - 1}"},
        {"namespace": "openstack-operator", "controller": "Keystone"},
        "passes over resources of kind Keystone end with a bug of the operator",
        first_minute=1,
    ),
    Fault("OpenStackOperatorGone", {_LEADER: _NO_SAMPLE}, {}, _NO_OPERATOR),
    Fault("OpenStackOperatorGone", {_LEADER: f"0x{LENGTH}"}, {}, _NO_OPERATOR),
)


class AlertsError(Exception):
    """A rule that promtool refuses, or that does not fire as it should, with promtool's words."""


def check_queries(promtool: Path, expressions: Iterable[str], folder: Path) -> None:
    """Raise AlertsError for expressions that Prometheus cannot parse."""
    rules = [{"record": f"query:{number}", "expr": each} for number, each in enumerate(expressions)]
    (folder / _RULES).write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    _run(promtool, folder, "check", "rules", _RULES)


def check(promtool: Path, documents: Iterable[Mapping[str, Any]], folder: Path) -> int:
    """Try each alert of the PrometheusRules among the documents, with files in `folder`; return how many there are.

    Raises AlertsError if promtool refuses a rule, if an alert fires too early, too late or beside another one, and if
    there is an alert without a fault in `FAULTS`.
    """
    groups = [group for each in documents if each["kind"] == "PrometheusRule" for group in each["spec"]["groups"]]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    if untried := sorted(rules.keys() ^ {fault.alert for fault in FAULTS}):
        raise AlertsError(f"tools/checks/alerts.py has no fault for these alerts, or one for what is none: {untried}")
    (folder / _RULES).write_text(json.dumps({"groups": groups}), encoding="utf-8")
    tests = [_healthy(rules), *(_faulty(fault, rules) for fault in FAULTS)]
    content = {"rule_files": [_RULES], "evaluation_interval": "1m", "tests": tests}
    (folder / _TESTS).write_text(json.dumps(content), encoding="utf-8")
    for command in (("check", "rules", "--lint=all", "--lint-fatal", _RULES), ("test", "rules", _TESTS)):
        _run(promtool, folder, *command)
    return len(rules)


def _run(promtool: Path, folder: Path, *command: str) -> None:
    result = subprocess.run([promtool, *command], cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        raise AlertsError(f"promtool {' '.join(command)}:\n{result.stdout}{result.stderr}")


def _healthy(rules: Mapping[str, Any]) -> dict[str, Any]:
    return _test("a cloud that works", HEALTHY, _silent(rules))


def _faulty(fault: Fault, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test: the alert fires in the minute in which the fault has lasted long enough, and still at the end, but
    not a minute before. No other alert fires in any minute.
    """
    (series,) = fault.series
    begin = fault.first_minute + int(rules[fault.alert]["for"].removesuffix("m"))
    labels = {**rules[fault.alert]["labels"], **fault.labels}
    annotations = {**rules[fault.alert]["annotations"], "summary": fault.summary}
    alerts = [{"exp_labels": labels, "exp_annotations": annotations}]
    expected = [_expected(fault.alert, begin - 1), *(_expected(fault.alert, each, alerts) for each in (begin, LENGTH))]
    expected += _silent(rules.keys() - {fault.alert})
    return _test(f"{fault.alert}: {series}", {**HEALTHY, **fault.series}, expected)


def _silent(alerts: Iterable[str]) -> list[dict[str, Any]]:
    return [_expected(alert, minute) for alert in sorted(alerts) for minute in range(LENGTH + 1)]


def _expected(alert: str, minute: int, alerts: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": list(alerts)}


def _test(name: str, series: Mapping[str, str], expected: list[dict[str, Any]]) -> dict[str, Any]:
    inputs = [{"series": each, "values": values} for each, values in series.items()]
    return {"name": name, "interval": "1m", "input_series": inputs, "alert_rule_test": expected}


def parse_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a rendered cloud."""
    return (each for each in yaml.safe_load_all(text) if each)
