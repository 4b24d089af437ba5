"""Dashboards of a cloud: all of it, one service, and one node."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from .panels import NAMESPACE, Query, dashboard, graph, number, rows, variable

_CLOUD = 'namespace="$namespace"'
_API = f'{_CLOUD}, proxy="api"'
_RATE = "$__rate_interval"
_RESPONSES = "haproxy_backend_http_responses_total"
_SECONDS = "haproxy_backend_response_time_average_seconds"
_DESIRED, _READY = "openstack_operator_workload_pods_desired", "openstack_operator_workload_pods_ready"
_WORKLOAD = "namespace, kind, name, workload_kind, workload"
_DAEMONS = f'{_CLOUD}, workload_kind="DaemonSet"'
_NO_PROXY = "haproxy counts requests. Without TLS no haproxy stands before an API, and there is nothing to show."


def overview() -> Dashboard:
    """Return the dashboard of a whole cloud."""
    expiry = f"openstack_operator_certificate_expiry_timestamp_seconds{{{_CLOUD}}}"
    return dashboard(
        "overview",
        "Overview",
        NAMESPACE,
        Cloud=[
            number(
                "Resources that are not Ready",
                f"count(openstack_operator_resource_ready{{{_CLOUD}}} == 0) or vector(0)",
                bad=">0",
            ),
            number(
                "Stalled",
                f'sum(openstack_operator_resource_condition{{{_CLOUD}, type="Stalled", status="True"}}) or vector(0)',
                bad=">0",
                text="Resources that do not become Ready by themselves.",
            ),
            number("Pods missing", f"sum({_missing(_CLOUD)}) or vector(0)", bad=">0"),
            number(
                "Nodes with a missing agent",
                f"max({_missing(_DAEMONS)}) or vector(0)",
                bad=">0",
                text="Nodes on which a program is not ready: nova-compute, ovn-controller or another one.",
            ),
            number("Alerts", f'count(ALERTS{{{_CLOUD}, alertstate="firing"}}) or vector(0)', bad=">0"),
            number("Next end of a certificate", f"min({expiry}) - time()", unit="s", bad="<604800"),
            rows(
                "Not Ready",
                f"openstack_operator_resource_ready{{{_CLOUD}}} == 0",
                ["kind", "name"],
                text="`openstack-operator why` says why.",
            ),
            rows("Workloads without all their pods", f"{_missing(_CLOUD)} > 0", ["kind", "name", "workload"]),
        ],
        APIs=[
            graph(
                "Requests",
                Query(f"sum by (job) (rate({_RESPONSES}{{{_API}}}[{_RATE}]))", "{{job}}"),
                unit="reqps",
                text=_NO_PROXY,
            ),
            graph(
                "Requests answered with 5xx",
                Query(
                    f'sum by (job) (rate({_RESPONSES}{{{_API}, code="5xx"}}[{_RATE}]))'
                    f" / sum by (job) (rate({_RESPONSES}{{{_API}}}[{_RATE}]))",
                    "{{job}}",
                ),
                unit="percentunit",
            ),
            graph(
                "Time until the answer",
                Query(f"avg by (job) ({_SECONDS}{{{_API}}})", "{{job}}"),
                unit="s",
                text="The average of the last 1024 requests of each pod.",
            ),
            graph(
                "Requests in progress",
                Query(f"sum by (job) (haproxy_backend_current_sessions{{{_API}}})", "{{job}}"),
            ),
        ],
        Broker_and_database=[
            graph(
                "Messages that wait",
                Query(f"sum by (pod) (rabbitmq_queue_messages_ready{{{_CLOUD}}})", "{{pod}}"),
                columns=3,
            ),
            graph(
                "Clients of the broker",
                Query(f"sum by (pod) (rabbitmq_connections{{{_CLOUD}}})", "{{pod}}"),
                columns=3,
            ),
            graph(
                "Memory of the broker",
                Query(f"sum by (pod) (rabbitmq_process_resident_memory_bytes{{{_CLOUD}}})", "{{pod}}"),
                unit="bytes",
                columns=3,
            ),
            graph(
                "Queries of the database",
                Query(f"sum by (pod) (rate(mysql_global_status_queries{{{_CLOUD}}}[{_RATE}]))", "{{pod}}"),
                unit="ops",
                columns=3,
            ),
            graph(
                "Clients of the database",
                Query(f"sum by (pod) (mysql_global_status_threads_connected{{{_CLOUD}}})", "{{pod}}"),
                columns=3,
            ),
            graph(
                "Space on volumes that is used",
                Query(
                    f"1 - min by (persistentvolumeclaim) (kubelet_volume_stats_available_bytes{{{_CLOUD}}}"
                    f" / kubelet_volume_stats_capacity_bytes{{{_CLOUD}}})",
                    "{{persistentvolumeclaim}}",
                ),
                unit="percentunit",
                columns=3,
            ),
        ],
        Nodes=[
            graph(
                "Nodes that are to run it",
                Query(f"max by (workload) ({_DESIRED}{{{_DAEMONS}}})", "{{workload}}"),
            ),
            graph(
                "Nodes on which it is not ready",
                Query(f"max by (workload) ({_missing(_DAEMONS)})", "{{workload}}"),
            ),
        ],
    )


def service() -> Dashboard:
    """Return the dashboard of one service."""
    service_labels = f'{_CLOUD}, name="$service"'
    api = f'{_API}, job=~"$namespace/$service-.+"'
    code = f"sum by (code) (rate({_RESPONSES}{{{api}}}[{_RATE}]))"
    pods = f'{_CLOUD}, pod=~"$service-.+", container!="", container!="POD"'
    return dashboard(
        "service",
        "Service",
        NAMESPACE,
        variable("service", "Service", 'label_values(openstack_operator_resource_ready{namespace="$namespace"}, name)'),
        State=[
            number("Ready", f"min(openstack_operator_resource_ready{{{service_labels}}})", bad="<1"),
            number("Pods", f"sum(max by ({_WORKLOAD}) ({_READY}{{{service_labels}}}))"),
            number("Pods missing", f"sum({_missing(service_labels)})", bad=">0"),
            number("Requests a second", f"sum(rate({_RESPONSES}{{{api}}}[{_RATE}]))", unit="reqps", text=_NO_PROXY),
            number(
                "Answered with 5xx",
                f'(sum(rate({_RESPONSES}{{{api}, code="5xx"}}[{_RATE}])) or vector(0))'
                f" / sum(rate({_RESPONSES}{{{api}}}[{_RATE}]))",
                unit="percentunit",
                bad=">0.1",
            ),
            number(
                "Next end of a certificate",
                f"min(openstack_operator_certificate_expiry_timestamp_seconds{{{service_labels}}}) - time()",
                unit="s",
                bad="<604800",
            ),
            rows(
                "Conditions that are not True",
                f'openstack_operator_resource_condition{{{service_labels}, status!="True"}} == 1',
                ["kind", "type", "status"],
            ),
            graph("Pods that are ready", Query(f"max by (workload) ({_READY}{{{service_labels}}})", "{{workload}}")),
        ],
        API=[
            graph(
                "Requests by pod",
                Query(f"sum by (pod) (rate({_RESPONSES}{{{api}}}[{_RATE}]))", "{{pod}}"),
                unit="reqps",
            ),
            graph("Requests by code", Query(code, "{{code}}"), unit="reqps"),
            graph(
                "Time until the answer",
                Query(f"max by (pod) ({_SECONDS}{{{api}}})", "{{pod}}"),
                unit="s",
                text="The average of the last 1024 requests.",
            ),
            graph(
                "Longest time until the answer",
                Query(f"max by (pod) (haproxy_backend_max_response_time_seconds{{{api}}})", "{{pod}}"),
                unit="s",
                text="Since the pod started.",
            ),
            graph(
                "Requests in progress",
                Query(f"sum by (pod) (haproxy_backend_current_sessions{{{api}}})", "{{pod}}"),
            ),
            graph(
                "Failures of the connection to the program",
                Query(
                    f"sum by (pod) (rate(haproxy_backend_connection_errors_total{{{api}}}[{_RATE}]))",
                    "{{pod}}: not accepted",
                ),
                Query(
                    f"sum by (pod) (rate(haproxy_backend_response_errors_total{{{api}}}[{_RATE}]))", "{{pod}}: ended"
                ),
            ),
        ],
        Pods=[
            graph(
                "CPU",
                Query(f"sum by (pod) (rate(container_cpu_usage_seconds_total{{{pods}}}[{_RATE}]))", "{{pod}}"),
                text="In cores, from the kubelets.",
            ),
            graph(
                "Memory",
                Query(f"sum by (pod) (container_memory_working_set_bytes{{{pods}}})", "{{pod}}"),
                unit="bytes",
            ),
        ],
    )


_INTERFACES = 'namespace="$namespace", node="$node", type!="patch"'
"""Those of a node by which packets come and go."""
_ON_NODE, _DOMAIN = 'namespace="$namespace", node="$node"', "libvirt_domain"


def node() -> Dashboard:
    """Return the dashboard of one node. Its metrics are those of the kubelets, which most installations scrape."""
    whole = 'node="$node", id="/"'
    pods = 'node="$node", container!="", container!="POD"'
    return dashboard(
        "node",
        "Node",
        NAMESPACE,
        variable("node", "Node", "label_values(kubelet_node_name, node)"),
        Node=[
            graph(
                "CPU",
                Query(f"sum(rate(container_cpu_usage_seconds_total{{{whole}}}[{_RATE}]))", "in use"),
                Query('max(machine_cpu_cores{node="$node"})', "all"),
                text="In cores.",
            ),
            graph(
                "Memory",
                Query(f"sum(container_memory_working_set_bytes{{{whole}}})", "in use"),
                Query('max(machine_memory_bytes{node="$node"})', "all"),
                unit="bytes",
            ),
            graph(
                "Pods",
                Query('sum(kubelet_running_pods{node="$node"})', "pods"),
                Query('sum(kubelet_running_containers{node="$node", container_state="running"})', "containers"),
            ),
            graph(
                "Space on volumes that is used",
                Query(
                    'max by (persistentvolumeclaim) (kubelet_volume_stats_used_bytes{node="$node"})',
                    "{{persistentvolumeclaim}}",
                ),
                unit="bytes",
            ),
        ],
        Pods_of_the_cloud=[
            graph(
                "CPU",
                Query(
                    f"sum by (pod) (rate(container_cpu_usage_seconds_total{{{_CLOUD}, {pods}}}[{_RATE}]))", "{{pod}}"
                ),
            ),
            graph(
                "Memory",
                Query(f"sum by (pod) (container_memory_working_set_bytes{{{_CLOUD}, {pods}}})", "{{pod}}"),
                unit="bytes",
                text="nova-libvirt includes the servers of the node.",
            ),
        ],
        Servers_of_the_node=[
            graph(
                "Servers",
                Query(f"sum by (state) (libvirt_domains{{{_ON_NODE}}} > 0)", "{{state}}"),
                text="As libvirt knows them.",
            ),
            graph(
                "CPU of servers",
                Query(f"sum by (domain) (rate({_DOMAIN}_cpu_seconds_total{{{_ON_NODE}}}[{_RATE}]))", "{{domain}}"),
            ),
            graph(
                "Memory of servers",
                Query(f"max by (domain) ({_DOMAIN}_memory_resident_bytes{{{_ON_NODE}}})", "{{domain}}"),
                unit="bytes",
            ),
            graph(
                "Disks of servers",
                Query(
                    f"sum by (domain) (rate({_DOMAIN}_block_read_bytes_total{{{_ON_NODE}}}[{_RATE}]))",
                    "{{domain}}: read",
                ),
                Query(
                    f"sum by (domain) (rate({_DOMAIN}_block_write_bytes_total{{{_ON_NODE}}}[{_RATE}]))",
                    "{{domain}}: written",
                ),
                unit="Bps",
            ),
        ],
        Switch_of_the_node=[
            graph(
                "Traffic of interfaces",
                Query(
                    f"sum by (interface) (rate(ovs_interface_receive_bytes_total{{{_INTERFACES}}}[{_RATE}]))",
                    "{{interface}}: in",
                ),
                Query(
                    f"sum by (interface) (rate(ovs_interface_transmit_bytes_total{{{_INTERFACES}}}[{_RATE}]))",
                    "{{interface}}: out",
                ),
                unit="Bps",
            ),
            graph(
                "Packets dropped",
                Query(
                    f"sum by (interface) (rate(ovs_interface_receive_dropped_total{{{_INTERFACES}}}[{_RATE}]))",
                    "{{interface}}: in",
                ),
                Query(
                    f"sum by (interface) (rate(ovs_interface_transmit_dropped_total{{{_INTERFACES}}}[{_RATE}]))",
                    "{{interface}}: out",
                ),
                unit="pps",
            ),
            graph("Flows", Query(f"max by (job) (ovs_datapath_flows{{{_ON_NODE}}})", "{{job}}")),
            graph(
                "Connected to the southbound database",
                Query(f"max by (job) (ovn_controller_connected{{{_ON_NODE}}})", "{{job}}"),
            ),
        ],
        Agents_of_all_nodes=[
            graph(
                "Nodes on which it is ready",
                Query(f"max by (workload) ({_READY}{{{_DAEMONS}}})", "{{workload}}"),
            ),
            graph(
                "Nodes on which it is not ready",
                Query(f"max by (workload) ({_missing(_DAEMONS)})", "{{workload}}"),
            ),
        ],
    )


def _missing(pods: str) -> str:
    """Return the expression of the number of pods that each workload lacks; two replicas of the operator may tell."""
    return f"(max by ({_WORKLOAD}) ({_DESIRED}{{{pods}}}) - max by ({_WORKLOAD}) ({_READY}{{{pods}}}))"
