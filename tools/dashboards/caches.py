"""Dashboards of stores in memory: Valkey and Memcached."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from .clusters import MEMBERS, RATE, cluster, rate
from .panels import NAMESPACE, Query, dashboard, graph, number


def valkey() -> Dashboard:
    """Return the dashboard of one Valkey."""

    def of(name: str) -> str:
        return f"redis_{name}{{{MEMBERS}}}"

    primaries = f'redis_instance_info{{{MEMBERS}, role="master"}}'
    return dashboard(
        "valkey",
        "Valkey",
        NAMESPACE,
        cluster("Valkey"),
        State=[
            number("Servers that answer", f"sum({of('up')})", bad="<1"),
            number("Primaries", f"count({primaries})", bad=">1", text="More than one for a moment, after a failure."),
            number("Copies that the primary has", f"max({of('connected_slaves')})"),
            number("Clients", f"sum({of('connected_clients')})"),
            number(
                "Memory of the allowed size",
                f"max({of('memory_used_bytes')} / ({of('memory_max_bytes')} > 0))",
                unit="percentunit",
            ),
            number("Keys", f"max(sum by (pod) ({of('db_keys')}))"),
        ],
        Load=[
            graph("Commands", rate(of("commands_processed_total")), unit="ops"),
            graph("Clients", Query(f"sum by (pod) ({of('connected_clients')})", "{{pod}}")),
            graph(
                "Keys that were found and that were not",
                Query(f"sum by (pod) (rate({of('keyspace_hits_total')}[{RATE}]))", "{{pod}}: found"),
                Query(f"sum by (pod) (rate({of('keyspace_misses_total')}[{RATE}]))", "{{pod}}: not found"),
                unit="ops",
            ),
            graph(
                "Keys dropped before their time",
                rate(of("evicted_keys_total")),
                unit="ops",
                text="The memory for data is full. Raise spec.memory if clients need these keys again.",
            ),
        ],
        Replication=[
            graph(
                "What a copy has not received",
                Query(
                    f"max by (namespace) ({of('master_repl_offset')}) - on (namespace) group_right()"
                    f" min by (namespace, pod) ({of('slave_repl_offset')} or {of('master_repl_offset')})",
                    "{{pod}}",
                ),
                unit="bytes",
            ),
            graph(
                "Rejected connections",
                rate(of("rejected_connections_total")),
                unit="ops",
            ),
        ],
        Resources=[
            graph(
                "Memory",
                Query(f"max by (pod) ({of('memory_used_bytes')})", "{{pod}}"),
                Query(f"max({of('memory_max_bytes')})", "allowed for data"),
                unit="bytes",
            ),
            graph(
                "Time of the last copy to the disk",
                Query(f"max by (pod) ({of('aof_last_rewrite_duration_sec')} >= 0)", "{{pod}}"),
                unit="s",
            ),
        ],
    )


def memcached() -> Dashboard:
    """Return the dashboard of one Memcached."""

    def of(name: str) -> str:
        return f"memcached_{name}{{{MEMBERS}}}"

    def commands(name: str, status: str) -> str:
        counter = f'memcached_commands_total{{{MEMBERS}, command="{name}", status="{status}"}}'
        return f"rate({counter}[{RATE}])"

    hits, misses = commands("get", "hit"), commands("get", "miss")
    return dashboard(
        "memcached",
        "Memcached",
        NAMESPACE,
        cluster("Memcached"),
        State=[
            number("Servers that answer", f"sum({of('up')})", bad="<1"),
            number("Clients", f"sum({of('current_connections')})"),
            number(
                "Clients of the allowed number",
                f"max({of('current_connections')} / {of('max_connections')})",
                unit="percentunit",
                bad=">0.8",
            ),
            number(
                "Memory that is used",
                f"max({of('current_bytes')} / {of('limit_bytes')})",
                unit="percentunit",
            ),
            number("Items", f"sum({of('current_items')})"),
            number(
                "Requests that find their item",
                f"sum({hits}) / (sum({hits}) + sum({misses}) > 0)",
                unit="percentunit",
            ),
        ],
        Load=[
            graph(
                "Items that were found and that were not",
                Query(f"sum by (pod) ({hits})", "{{pod}}: found"),
                Query(f"sum by (pod) ({misses})", "{{pod}}: not found"),
                unit="ops",
            ),
            graph("Items stored", Query(f"sum by (pod) ({commands('set', 'hit')})", "{{pod}}"), unit="ops"),
            graph(
                "Items dropped before their time",
                rate(of("items_evicted_total")),
                unit="ops",
                text="The memory is full. If it stays high, raise spec.memory.",
            ),
            graph("Clients that came", rate(of("connections_total")), unit="ops"),
        ],
        Resources=[
            graph(
                "Memory of the items",
                Query(f"max by (pod) ({of('current_bytes')})", "{{pod}}"),
                Query(f"max({of('limit_bytes')})", "allowed"),
                unit="bytes",
            ),
            graph(
                "Bytes to clients",
                rate(of("written_bytes_total")),
                unit="Bps",
            ),
        ],
    )
