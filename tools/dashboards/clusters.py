"""Dashboards of clusters that keep state: MariaDB, RabbitMQ and etcd."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, QueryVariable

from .panels import NAMESPACE, Panel, Query, dashboard, graph, number, variable

RATE = "$__rate_interval"
MEMBERS = 'namespace="$namespace", pod=~"$cluster-server-.+"'
"""Pods of a cluster."""


def mariadb() -> Dashboard:
    """Return the dashboard of one MariaDB."""

    def status(name: str) -> str:
        return f"mysql_global_status_{name}{{{MEMBERS}}}"

    return dashboard(
        "mariadb",
        "MariaDB",
        NAMESPACE,
        cluster("MariaDB"),
        State=[
            number("Members that answer", f"sum(mysql_up{{{MEMBERS}}})", bad="<1"),
            number(
                "Members that are Primary",
                f"sum({status('wsrep_cluster_status')})",
                text="Members of a Galera cluster that belong to the primary component. A single server has none.",
            ),
            number("Size of the cluster", f"max({status('wsrep_cluster_size')})"),
            number("Clients", f"sum({status('threads_connected')})"),
            number(
                "Clients of the allowed number",
                f"max({status('threads_connected')} / mysql_global_variables_max_connections{{{MEMBERS}}})",
                unit="percentunit",
                bad=">0.8",
            ),
            number("Slow queries in an hour", f"sum(increase({status('slow_queries')}[1h]))"),
        ],
        Load=[
            graph("Queries", rate(status("queries")), unit="ops"),
            graph("Clients", Query(f"sum by (pod) ({status('threads_connected')})", "{{pod}}")),
            graph(
                "Statements",
                Query(
                    f"sum by (command) (rate(mysql_global_status_commands_total{{{MEMBERS},"
                    f' command=~"select|insert|update|delete|commit|rollback|set_option"}}[{RATE}]))',
                    "{{command}}",
                ),
                unit="ops",
            ),
            graph(
                "Connections that were not good",
                Query(f"sum by (pod) (rate({status('aborted_connects')}[{RATE}]))", "{{pod}}: login"),
                Query(f"sum by (pod) (rate({status('aborted_clients')}[{RATE}]))", "{{pod}}: client left"),
            ),
            graph("Waits for a row's lock", rate(status("innodb_row_lock_waits")), unit="ops"),
            graph(
                "Reads from the disk",
                rate(status("innodb_buffer_pool_reads")),
                unit="ops",
                text="Pages that were not in the buffer pool. If it stays high, raise innodb_buffer_pool_size.",
            ),
        ],
        Replication=[
            graph("Members that each one sees", Query(f"max by (pod) ({status('wsrep_cluster_size')})", "{{pod}}")),
            graph(
                "Writes wait for a slow member",
                Query(f"max by (pod) ({status('wsrep_flow_control_paused')})", "{{pod}}"),
                unit="percentunit",
                text="Share of the time since the server started.",
            ),
            graph(
                "Changes that wait to be applied",
                Query(f"max by (pod) ({status('wsrep_local_recv_queue')})", "{{pod}}"),
            ),
            graph(
                "Conflicts",
                rate(status("wsrep_local_cert_failures")),
                unit="ops",
                text="Transactions that failed since another member had changed the same rows.",
            ),
        ],
        Space=[*_volumes()],
    )


def rabbitmq() -> Dashboard:
    """Return the dashboard of one RabbitMQ."""

    def of(name: str) -> str:
        return f"rabbitmq_{name}{{{MEMBERS}}}"

    return dashboard(
        "rabbitmq",
        "RabbitMQ",
        NAMESPACE,
        cluster("RabbitMQ"),
        State=[
            number("Members that answer", f'sum(up{{{MEMBERS}, job=~".+/.+-server"}})', bad="<1"),
            number(
                "Alarms",
                f"sum({of('alarms_memory_used_watermark')}) + sum({of('alarms_free_disk_space_watermark')})",
                bad=">0",
                text="With an alarm, all clients that publish wait.",
            ),
            number("Members not reached", f"sum({of('unreachable_cluster_peers_count')})", bad=">0"),
            number("Messages that wait", f"sum({of('queue_messages_ready')})"),
            number("Queues", f"sum({of('queues')})"),
            number("Clients", f"sum({of('connections')})"),
        ],
        Messages=[
            graph("Messages that wait", Query(f"sum by (pod) ({of('queue_messages_ready')})", "{{pod}}")),
            graph("Messages that clients work on", Query(f"sum by (pod) ({of('queue_messages_unacked')})", "{{pod}}")),
            graph(
                "Messages published",
                Query(f"sum by (pod) (rate({of('global_messages_received_total')}[{RATE}]))", "{{pod}}"),
                unit="ops",
            ),
            graph(
                "Messages delivered",
                Query(f"sum by (pod) (rate({of('global_messages_delivered_total')}[{RATE}]))", "{{pod}}"),
                unit="ops",
            ),
            graph("Clients", Query(f"sum by (pod) ({of('connections')})", "{{pod}}")),
            graph("Clients that came", rate(of("connections_opened_total")), unit="ops"),
        ],
        Resources=[
            graph(
                "Memory",
                Query(f"sum by (pod) ({of('process_resident_memory_bytes')})", "{{pod}}"),
                Query(f"max({of('resident_memory_limit_bytes')})", "alarm"),
                unit="bytes",
            ),
            graph(
                "Free space on the volume",
                Query(f"min by (pod) ({of('disk_space_available_bytes')})", "{{pod}}"),
                Query(f"max({of('disk_space_available_limit_bytes')})", "alarm"),
                unit="bytes",
            ),
            graph(
                "Open files",
                Query(f"sum by (pod) ({of('process_open_fds')})", "{{pod}}"),
            ),
            graph("Channels", Query(f"sum by (pod) ({of('channels')})", "{{pod}}")),
        ],
    )


def etcd() -> Dashboard:
    """Return the dashboard of one etcd."""

    def of(name: str) -> str:
        return f"etcd_{name}{{{MEMBERS}}}"

    def seconds(name: str) -> Query:
        buckets = f"sum by (pod, le) (rate({of(f'{name}_bucket')}[{RATE}]))"
        return Query(f"histogram_quantile(0.99, {buckets})", "{{pod}}")

    return dashboard(
        "etcd",
        "etcd",
        NAMESPACE,
        cluster("Etcd"),
        State=[
            number("Members that have a leader", f"sum({of('server_has_leader')})", bad="<1"),
            number("Changes of the leader in a day", f"max(increase({of('server_leader_changes_seen_total')}[1d]))"),
            number("Failed proposals in an hour", f"sum(increase({of('server_proposals_failed_total')}[1h]))"),
            number(
                "Data of the allowed size",
                f"max({of('mvcc_db_total_size_in_bytes')} / {of('server_quota_backend_bytes')})",
                unit="percentunit",
                bad=">0.8",
            ),
        ],
        Load=[
            graph("Proposals", rate(of("server_proposals_committed_total")), unit="ops"),
            graph(
                "Size of the data",
                Query(f"max by (pod) ({of('mvcc_db_total_size_in_bytes')})", "{{pod}}"),
                unit="bytes",
            ),
            graph("Time to write to the disk", seconds("disk_wal_fsync_duration_seconds"), unit="s"),
            graph("Time to commit", seconds("disk_backend_commit_duration_seconds"), unit="s"),
        ],
    )


def cluster(kind: str) -> QueryVariable:
    """Return the variable of a resource of a kind."""
    query = f'label_values(openstack_operator_resource_ready{{namespace="$namespace", kind="{kind}"}}, name)'
    return variable("cluster", kind, query)


def rate(series: str) -> Query:
    """Return the query of a counter's growth, by pod."""
    return Query(f"sum by (pod) (rate({series}[{RATE}]))", "{{pod}}")


def _volumes() -> list[Panel]:
    claims = 'namespace="$namespace", persistentvolumeclaim=~"data-$cluster-server-.+"'
    free, size = (f"kubelet_volume_stats_{name}_bytes{{{claims}}}" for name in ("available", "capacity"))
    return [
        graph(
            "Free space on the volume",
            Query(f"min by (persistentvolumeclaim) ({free})", "{{persistentvolumeclaim}}"),
            unit="bytes",
        ),
        graph(
            "Space on the volume that is used",
            Query(f"1 - min by (persistentvolumeclaim) ({free} / {size})", "{{persistentvolumeclaim}}"),
            unit="percentunit",
        ),
    ]
