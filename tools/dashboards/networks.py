"""The dashboard of OVN: its databases, ovn-northd, and the nodes."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from .clusters import RATE, cluster
from .panels import NAMESPACE, Query, dashboard, graph, number

_MEMBERS = 'namespace="$namespace", pod=~"$cluster-(nb|sb)-.+"'
_NORTHD = 'namespace="$namespace", pod=~"$cluster-northd-.+"'
_NODES = 'namespace="$namespace", pod=~"$cluster-exporter-.+"'


def ovn() -> Dashboard:
    """Return the dashboard of one OVN."""

    def of(name: str) -> str:
        return f"ovn_db_{name}{{{_MEMBERS}}}"

    def on_nodes(name: str, text: str) -> Query:
        # A patch between two bridges would count packets once more.
        interfaces = f'{_NODES}, type!="patch"'
        return Query(f"sum by (node) (rate({name}{{{interfaces}}}[{RATE}]))", text)

    return dashboard(
        "ovn",
        "OVN",
        NAMESPACE,
        cluster("OVNNetwork"),
        State=[
            number(
                "Databases with a leader",
                f"count(max by (database) ({of('cluster_leader')}) == 1) or vector(0)",
                bad="<1",
                text="The northbound and the southbound one: 2.",
            ),
            number("Members that answer", f"sum({of('up')})", bad="<1"),
            number("northd that work", f"sum(ovn_northd_active{{{_NORTHD}}})", bad="<1"),
            number("Nodes connected", f"sum(ovn_controller_connected{{{_NODES}}})", bad="<1"),
            number(
                "Nodes not connected",
                f"count(ovn_controller_connected{{{_NODES}}} == 0) or vector(0)",
                bad=">0",
            ),
            number("Clients of the databases", f'sum(ovn_db_memory{{{_MEMBERS}, component="sessions"}})'),
        ],
        Databases=[
            graph(
                "Elections",
                Query(f"max by (database) ({of('cluster_term')})", "{{database}}"),
                text="Each election raises it by one. A cluster at rest has none.",
            ),
            graph(
                "Entries that are not applied",
                Query(f"max by (pod) ({of('cluster_log_not_applied')})", "{{pod}}"),
                Query(f"max by (pod) ({of('cluster_log_not_committed')})", "{{pod}}, not committed"),
            ),
            graph(
                "Cells of data",
                Query(f'max by (pod) (ovn_db_memory{{{_MEMBERS}, component="cells"}})', "{{pod}}"),
                text="Rows times columns, by which memory and the time of a start grow.",
            ),
            graph(
                "Clients",
                Query(f'max by (pod) (ovn_db_memory{{{_MEMBERS}, component="sessions"}})', "{{pod}}"),
            ),
        ],
        Nodes=[
            graph("Connected", Query(f"max by (node) (ovn_controller_connected{{{_NODES}}})", "{{node}}")),
            graph("Flows of the switch", Query(f"max by (node) (ovs_datapath_flows{{{_NODES}}})", "{{node}}")),
            graph(
                "Traffic",
                on_nodes("ovs_interface_receive_bytes_total", "{{node}}: in"),
                on_nodes("ovs_interface_transmit_bytes_total", "{{node}}: out"),
                unit="Bps",
            ),
            graph(
                "Packets dropped",
                on_nodes("ovs_interface_receive_dropped_total", "{{node}}: in"),
                on_nodes("ovs_interface_transmit_dropped_total", "{{node}}: out"),
                unit="pps",
            ),
        ],
    )
