"""Alerts of a whole cloud, for a PrometheusRule: those that need a person, now or in the morning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

_WHERE = "namespace, kind, name, workload"
_WEEK = 7 * 24 * 3600
_CLUSTERS = "MariaDB|RabbitMQ|Memcached|Valkey|Etcd|OVN(Network|Cluster)([.].+)?"
"""Kinds with members that need each other. Kinds of c5c3's groups have the group behind the name."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """An alert of a PrometheusRule, with a page in docs/runbooks/."""

    name: str
    expression: str
    minutes: int
    """Time for which the expression has to be true."""
    summary: str
    """With the labels and the value of the expression, in the language of templates of Prometheus."""
    severity: Literal["critical", "warning"] = "critical"
    """`critical` needs a person at once, `warning` during working hours."""

    def rule(self, runbook_url: str) -> dict[str, Any]:
        """Return the rule; `{alert}` in the URL is its name."""
        links = {"runbook_url": runbook_url.replace("{alert}", self.name)}
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": f"{self.minutes}m",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, **links},
        }


def alerts(namespace: str, operator_namespace: str) -> list[Alert]:
    """Return the alerts of the cloud in a namespace."""
    cloud, operator = (f'namespace="{name}"' for name in (namespace, operator_namespace))
    return [
        *_broker(cloud),
        *_database(cloud),
        *_apis(cloud, namespace),
        *_pods(cloud),
        *_networks(cloud),
        *_caches(cloud),
        *_resources(cloud),
        *_operator(operator),
    ]


def _broker(cloud: str) -> Iterator[Alert]:
    yield Alert(
        name="OpenStackBrokerBlocked",
        # `or` drops a sample on its right with the labels of one on its left, so compare first.
        expression=f"max by (namespace, pod) (rabbitmq_alarms_memory_used_watermark{{{cloud}}}) > 0"
        f" or max by (namespace, pod) (rabbitmq_alarms_free_disk_space_watermark{{{cloud}}}) > 0",
        minutes=2,
        summary="{{ $labels.pod }} has no free memory or disk: publishers wait on all members",
    )
    yield Alert(
        name="OpenStackBrokerApart",
        expression=f"max by (namespace, pod) (rabbitmq_unreachable_cluster_peers_count{{{cloud}}}) > 0",
        minutes=5,
        summary="{{ $labels.pod }} does not reach {{ $value }} of the other members of its broker",
    )


def _database(cloud: str) -> Iterator[Alert]:
    pods = f'{cloud}, kind="MariaDB", workload_kind="StatefulSet"'
    yield Alert(
        name="OpenStackDatabaseDown",
        expression=f"max by ({_WHERE}) (openstack_operator_workload_pods_ready{{{pods}}}) == 0"
        f" and max by ({_WHERE}) (openstack_operator_workload_pods_desired{{{pods}}}) > 0",
        minutes=3,
        summary="no member of {{ $labels.workload }} serves clients: no API works",
    )
    clients, allowed = (
        f"max by (namespace, pod) (mysql_global_{name}{{{cloud}}})"
        for name in ("status_threads_connected", "variables_max_connections")
    )
    yield Alert(
        name="OpenStackDatabaseConnections",
        expression=f"{clients} / {allowed} > 0.8",
        minutes=10,
        summary="{{ $labels.pod }} uses {{ $value | humanizePercentage }} of its allowed connections",
        severity="warning",
    )
    yield Alert(
        name="OpenStackVolumeNearlyFull",
        expression=f"min by (namespace, persistentvolumeclaim) (kubelet_volume_stats_available_bytes{{{cloud}}}"
        f" / kubelet_volume_stats_capacity_bytes{{{cloud}}}) < 0.1",
        minutes=10,
        summary="{{ $value | humanizePercentage }} of the volume of {{ $labels.persistentvolumeclaim }} are free",
    )


def _apis(cloud: str, namespace: str) -> Iterator[Alert]:
    api, targets = f'{cloud}, proxy="api"', f'{cloud}, job=~"{namespace}/.+"'
    failed, all_ = (
        f"sum by (namespace, job) (rate(haproxy_backend_http_responses_total{{{which}}}[5m]))"
        for which in (f'{api}, code="5xx"', api)
    )
    yield Alert(
        name="OpenStackAPIFails",
        expression=f"{failed} / {all_} > 0.1",
        minutes=10,
        summary="{{ $labels.job }} answers {{ $value | humanizePercentage }} of requests with 5xx",
    )
    # The time until Glance answers is that of the upload of an image. Without requests, the average stays as it is.
    average = f'haproxy_backend_response_time_average_seconds{{{api}, job!~".+/glance.*"}}'
    yield Alert(
        name="OpenStackAPISlow",
        expression=f"max by (namespace, job) ({average}) > 5 and {all_} > 0",
        minutes=15,
        summary="{{ $labels.job }} takes {{ $value | humanizeDuration }} on average to answer",
        severity="warning",
    )
    yield Alert(
        name="OpenStackSilent",
        # Without any pod there is no target, and so no `up`; for an hour Prometheus knows that there was one.
        expression=f"(sum by (namespace, job) (up{{{targets}}})"
        f" or 0 * sum by (namespace, job) (max_over_time(up{{{targets}}}[1h]))) == 0",
        minutes=5,
        summary="no pod of {{ $labels.job }} answers Prometheus",
    )


def _pods(cloud: str) -> Iterator[Alert]:
    """Yield alerts about the pods of workloads, as the operator sees them: no other program has to report them."""
    for name, kinds, effect in (
        ("OpenStackComputeNodeDown", "Nova([.].+)?", "their servers may be down"),
        ("OpenStackChassisDown", "OVN(Network|Chassis)([.].+)?", "servers there may have no network"),
    ):
        yield Alert(
            name=name,
            expression=_missing(f'{cloud}, kind=~"{kinds}", workload_kind="DaemonSet"'),
            minutes=10,
            summary=f"{{{{ $labels.workload }}}} is not ready on {{{{ $value }}}} of its nodes: {effect}",
        )
    # MariaDB has an alert of its own.
    pods = f'{cloud}, kind!="MariaDB", workload_kind!="DaemonSet"'
    yield Alert(
        name="OpenStackServiceDown",
        expression=f"max by ({_WHERE}) (openstack_operator_workload_pods_ready{{{pods}}}) == 0"
        f" and max by ({_WHERE}) (openstack_operator_workload_pods_desired{{{pods}}}) > 0",
        minutes=10,
        summary="no pod of {{ $labels.workload }} is ready",
    )
    members = f'{cloud}, kind=~"{_CLUSTERS}", workload_kind="StatefulSet"'
    yield Alert(
        name="OpenStackMemberMissing",
        expression=f"({_missing(members)})"
        f" and max by ({_WHERE}) (openstack_operator_workload_pods_ready{{{members}}}) > 0",
        minutes=15,
        summary="{{ $value }} of the members of {{ $labels.workload }} do not serve: losing another one may stop it",
        severity="warning",
    )


def _networks(cloud: str) -> Iterator[Alert]:
    """Yield alerts about programs that run and are ready, but do not do their work."""
    yield Alert(
        name="OpenStackOVNLeaderless",
        expression=f"max by (namespace, job) (ovn_db_cluster_leader{{{cloud}}}) == 0",
        minutes=3,
        summary="no member of {{ $labels.job }} leads: networks and ports cannot be changed",
    )
    yield Alert(
        name="OpenStackNorthdIdle",
        expression=f"max by (namespace, job) (ovn_northd_active{{{cloud}}}) == 0",
        minutes=5,
        summary="no pod of {{ $labels.job }} works: changes of networks do not reach the nodes",
    )
    yield Alert(
        name="OpenStackChassisDisconnected",
        expression=f"max by (namespace, job, node) (ovn_controller_connected{{{cloud}}}) == 0",
        minutes=5,
        summary="ovn-controller of {{ $labels.node }} has no connection to the southbound database: new ports and"
        " changes of networks do not reach the node",
    )
    yield Alert(
        name="OpenStackLibvirtDown",
        expression=f"max by (namespace, job, node) (libvirt_up{{{cloud}}}) == 0",
        minutes=5,
        summary="libvirt of {{ $labels.node }} does not answer: servers there run on, and cannot be started or changed",
    )


def _caches(cloud: str) -> Iterator[Alert]:
    yield Alert(
        name="OpenStackValkeyApart",
        expression=f"max by (namespace, pod) (redis_master_link_up{{{cloud}}}) == 0",
        minutes=5,
        summary="{{ $labels.pod }} does not replicate from its primary, and cannot replace it",
        severity="warning",
    )
    yield Alert(
        name="OpenStackMemcachedEvicts",
        expression=f"sum by (namespace, pod) (rate(memcached_items_evicted_total{{{cloud}}}[5m])) > 1",
        minutes=15,
        summary="{{ $labels.pod }} drops {{ $value | humanize }} items a second for lack of memory: services"
        " query Keystone again",
        severity="warning",
    )


def _missing(pods: str) -> str:
    """Return the expression of the number of pods that are not ready."""
    return (
        f"max by ({_WHERE}) (openstack_operator_workload_pods_desired{{{pods}}})"
        f" - max by ({_WHERE}) (openstack_operator_workload_pods_ready{{{pods}}}) > 0"
    )


def _resources(cloud: str) -> Iterator[Alert]:
    resource = "namespace, kind, name"
    changing = f'openstack_operator_resource_condition{{{cloud}, type="Progressing", status="True"}}'
    yield Alert(
        name="OpenStackNotReady",
        # A user may hold the last step of an upgrade, or pause a roll-out, for days.
        expression=f"(max by ({resource}) (openstack_operator_resource_ready{{{cloud}}}) == 0"
        f" or max by ({resource}) ({changing}) > 0)"
        f" unless max by ({resource}) (openstack_operator_resource_held{{{cloud}}}) == 1",
        minutes=30,
        summary="{{ $labels.kind }} {{ $labels.name }} is not Ready, or its change is not done",
        severity="warning",
    )
    stalled = f'openstack_operator_resource_condition{{{cloud}, type="Stalled", status="True"}}'
    yield Alert(
        name="OpenStackStalled",
        expression=f"max by ({resource}) ({stalled}) > 0",
        minutes=10,
        summary="{{ $labels.kind }} {{ $labels.name }} does not become Ready by itself",
        severity="warning",
    )
    late = f'openstack_operator_resource_condition{{{cloud}, type="BackupsReady", status="False"}}'
    yield Alert(
        name="OpenStackBackupLate",
        expression=f"max by ({resource}) ({late}) > 0",
        minutes=10,
        summary="the newest backup of schedule {{ $labels.name }} fails, or is older than it should be",
        severity="warning",
    )
    of_schedule = f'{cloud}, kind="OpenStackBackupSchedule"'
    behind = f'openstack_operator_resource_condition{{{of_schedule}, type="ArchiveReady", status="False"}}'
    yield Alert(
        name="OpenStackArchiveLate",
        expression=f"max by ({resource}) ({behind}) > 0",
        minutes=10,
        summary="the archive of schedule {{ $labels.name }} is behind: later changes would be lost with the cloud",
        severity="warning",
    )
    unproven = f'openstack_operator_resource_condition{{{of_schedule}, type="RestoreVerified", status="False"}}'
    yield Alert(
        name="OpenStackBackupNotVerified",
        expression=f"max by ({resource}) ({unproven}) > 0",
        minutes=30,
        summary="the newest backup of schedule {{ $labels.name }} cannot be restored, or was not verified",
        severity="warning",
    )
    key = "namespace, kind, name, secret, key"
    end, start = (
        f"max by ({key}) (openstack_operator_certificate_{which}_timestamp_seconds{{{cloud}}})"
        for which in ("expiry", "start")
    )
    yield Alert(
        name="OpenStackCertificateExpires",
        # Certificates are renewed when two thirds of their life are over, so this is late for one of a day, too.
        expression=f"({end} - time() < {_WEEK}) and ({end} - time() < ({end} - {start}) / 10)",
        minutes=10,
        summary="{{ $labels.key }} of Secret {{ $labels.secret }} is valid for {{ $value | humanizeDuration }} more",
    )


def _operator(operator: str) -> Iterator[Alert]:
    yield Alert(
        name="OpenStackOperatorGone",
        expression=f"(sum(leader_election_master_status{{{operator}}}) or vector(0)) == 0",
        minutes=10,
        summary="no openstack-operator is active, or Prometheus cannot scrape it: failures may not be "
        "repaired, and certificates and keys not renewed",
    )
    pod = "namespace, pod"
    yield Alert(
        name="OpenStackOperatorStuck",
        # A replica that does not lead works on nothing.
        expression=f"sum by ({pod}) (workqueue_depth{{{operator}}}) > 0"
        f" and sum by ({pod}) (leader_election_master_status{{{operator}}}) == 1"
        f" unless sum by ({pod}) (increase(controller_runtime_reconcile_total{{{operator}}}[5m])) > 0",
        minutes=10,
        summary="{{ $labels.pod }} has {{ $value }} resources queued, and finishes none",
    )
    panics = f"controller_runtime_reconcile_panics_total{{{operator}}}"
    yield Alert(
        name="OpenStackOperatorFails",
        expression=f"sum by (namespace, controller) (increase({panics}[1h])) > 0",
        minutes=5,
        summary="passes over resources of kind {{ $labels.controller }} end with a bug of the operator",
        severity="warning",
    )
