"""The dashboard of the operator: its queue, its passes, and its requests."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from .panels import Query, dashboard, graph, number, variable

_RATE = "$__rate_interval"
_PODS = 'namespace="$operator"'


def operator() -> Dashboard:
    """Return the dashboard of the operator."""
    passes = f"controller_runtime_reconcile_total{{{_PODS}}}"

    def seconds(quantile: float) -> Query:
        buckets = f"sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{{{_PODS}}}[{_RATE}]))"
        return Query(f"histogram_quantile({quantile}, {buckets})", f"{quantile:.0%}")

    return dashboard(
        "operator",
        "Operator",
        variable("operator", "Namespace of the operator", "label_values(leader_election_master_status, namespace)"),
        State=[
            number("Leaders", f"sum(leader_election_master_status{{{_PODS}}})", bad="<1"),
            number("Resources that wait", f"sum(workqueue_depth{{{_PODS}}})"),
            number("Passes in progress", f"sum(controller_runtime_active_workers{{{_PODS}}})"),
            number(
                "Faults in a day",
                f"sum(increase(controller_runtime_reconcile_panics_total{{{_PODS}}}[1d])) or vector(0)",
                bad=">0",
                text="Passes that ended with an exception that the operator does not know.",
            ),
            number("Objects in its memory", f"max(sum by (pod) (openstack_operator_cached_objects{{{_PODS}}}))"),
            number(
                "Objects refused in a day",
                f"sum(increase(openstack_operator_refused_objects_total{{{_PODS}}}[1d])) or vector(0)",
                bad=">0",
                text="A namespace holds more than the operator keeps.",
            ),
        ],
        Queue_and_passes=[
            graph("Resources that wait", Query(f"sum by (pod, name) (workqueue_depth{{{_PODS}}})", "{{pod}} {{name}}")),
            graph(
                "Added to the queue",
                Query(f"sum by (name) (rate(workqueue_adds_total{{{_PODS}}}[{_RATE}]))", "{{name}}"),
                Query(f"sum by (name) (rate(workqueue_retries_total{{{_PODS}}}[{_RATE}]))", "{{name}}, again"),
                unit="ops",
            ),
            graph("Passes by result", Query(f"sum by (result) (rate({passes}[{_RATE}]))", "{{result}}"), unit="ops"),
            graph(
                "Passes by kind", Query(f"sum by (controller) (rate({passes}[{_RATE}]))", "{{controller}}"), unit="ops"
            ),
            graph("Time of a pass", seconds(0.5), seconds(0.99), unit="s"),
            graph(
                "Time of all passes by kind",
                Query(
                    f"sum by (controller) (rate(controller_runtime_reconcile_time_seconds_sum{{{_PODS}}}[{_RATE}]))",
                    "{{controller}}",
                ),
                text="Seconds a second: 1 is one worker that is always busy.",
            ),
            graph(
                "Time in the queue",
                Query(
                    "histogram_quantile(0.99, sum by (name, le)"
                    f" (rate(workqueue_queue_duration_seconds_bucket{{{_PODS}}}[{_RATE}])))",
                    "{{name}}",
                ),
                unit="s",
                text="99 of a hundred resources wait for less.",
            ),
            graph(
                "Time of a step",
                Query(
                    "histogram_quantile(0.99, sum by (controller, le)"
                    f" (rate(openstack_operator_step_seconds_bucket{{{_PODS}}}[{_RATE}])))",
                    "{{controller}}",
                ),
                unit="s",
                text="99 of a hundred steps are applied in less.",
            ),
        ],
        Requests=[
            graph(
                "Requests to the API server",
                Query(
                    f"sum by (method, code) (rate(rest_client_requests_total{{{_PODS}}}[{_RATE}]))",
                    "{{method}} {{code}}",
                ),
                unit="reqps",
            ),
            graph(
                "Time of a request",
                Query(
                    "histogram_quantile(0.99, sum by (verb, le)"
                    f" (rate(rest_client_request_duration_seconds_bucket{{{_PODS}}}[{_RATE}])))",
                    "{{verb}}",
                ),
                unit="s",
                text="99 of a hundred requests take less.",
            ),
            graph(
                "Changes that watches report",
                Query(f"sum by (kind) (rate(openstack_operator_watch_events_total{{{_PODS}}}[{_RATE}]))", "{{kind}}"),
                unit="ops",
            ),
            graph(
                "Changes outside Kubernetes",
                Query(f"sum by (kind) (rate(openstack_operator_remote_changes_total{{{_PODS}}}[{_RATE}]))", "{{kind}}"),
                unit="ops",
                text="Databases, accounts, endpoints. In a cloud at rest there are none.",
            ),
        ],
        Process=[
            graph("CPU", Query(f"sum by (pod) (rate(process_cpu_seconds_total{{{_PODS}}}[{_RATE}]))", "{{pod}}")),
            graph("Memory", Query(f"sum by (pod) (process_resident_memory_bytes{{{_PODS}}})", "{{pod}}"), unit="bytes"),
            graph(
                "Lag of the event loop",
                Query(f"max by (pod) (openstack_operator_loop_lag_seconds{{{_PODS}}})", "{{pod}}"),
                unit="s",
            ),
            graph(
                "Kinds listed again",
                Query(f"sum by (kind) (rate(openstack_operator_relists_total{{{_PODS}}}[{_RATE}]))", "{{kind}}"),
            ),
        ],
    )
