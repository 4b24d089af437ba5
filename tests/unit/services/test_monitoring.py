"""What a Prometheus is told: ports, monitors, who may come, and alerts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from prometheus_client import REGISTRY
from pydantic import ValidationError

from openstack_operator import kube, pki
from openstack_operator.api import Resource
from openstack_operator.parts.expose.ignored import ignored_monitoring
from openstack_operator.parts.run.alerts import alerts as alerts_of
from openstack_operator.plan import Key, Object, Release, key
from openstack_operator.registry import RESOURCES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime import metrics
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import Catalog
from openstack_operator.runtime.serve.exposition import ResourceCollector
from openstack_operator.services.controlplane.model import CloudMonitoring
from openstack_operator.services.etcd.model import ETCD
from openstack_operator.services.etcd.service import plan as etcd
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan as mariadb
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.services.rabbitmq.service import plan as rabbitmq
from openstack_operator.testing import NOW, context
from openstack_operator.yaml_text import load
from tests.field_effects import Leaves, changes, resulting_leaves, with_field

TLS: dict[str, Any] = {"tls": {"pkiRef": {"name": "internal"}}}
WATCHED: dict[str, Any] = {"monitoring": {"enabled": True}}
CLOUD: dict[str, Any] = {"tls": {"enabled": False}}
MONITOR = "PodMonitor.monitoring.coreos.com"
PROMETHEUS = ["prometheus", "prometheus-agent"]
"""Names that Prometheus' operator gives the pods it makes."""


def told(kind: str, spec: dict[str, Any], **changed: Any) -> Leaves:
    """What `monitoring.enabled` changes."""
    return changes(resulting_leaves(kind, spec, **changed), resulting_leaves(kind, spec | WATCHED, **changed))


def monitors(found: Leaves) -> set[str]:
    return {field.removeprefix("PodMonitor/").strip() for field in found if re.fullmatch(r"PodMonitor/\S+ ", field)}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Keystone", {"keystone-api"}),
        ("Nova", {"nova-api", "nova-metadata", "nova-cell1-novncproxy"}),  # and libvirt, which is no API
        ("Cortex", {"cortex-api"}),
    ],
)
def test_metrics_of_tls_proxies_are_read_by_tls(kind: str, expected: set[str]) -> None:
    found = told(kind, TLS)
    assert monitors(found) - {"nova-libvirt-exporter"} == expected
    for name in expected:
        endpoint = f"PodMonitor/{name} spec.podMetricsEndpoints[0]"
        assert (found[f"{endpoint}.port"], found[f"{endpoint}.scheme"]) == ("metrics", "https")
        secret, service = f"{name}-tls", "cortex" if kind == "Cortex" else name
        assert found[f"{endpoint}.tlsConfig.ca.secret.name"] == secret
        assert found[f"{endpoint}.tlsConfig.serverName"] == f"{service}.openstack.svc.cluster.local"
        pod = f"Deployment/{name} pod.containers[front]"
        assert found[f"{pod}.ports[metrics].containerPort"] == 8404
        assert ':8404" ssl crt ' in found[f"{pod}.env[CONFIG].value"]


def test_services_without_a_proxy_have_no_monitor() -> None:
    assert told("Keystone", {}) == {}


def test_a_monitor_selects_the_pods_whose_port_it_names() -> None:
    found = resulting_leaves("Keystone", TLS | WATCHED)
    wanted = "PodMonitor/keystone-api spec.selector.matchLabels."
    labels = {field.removeprefix(wanted): value for field, value in found.items() if field.startswith(wanted)}
    pods = "Deployment/keystone-api spec.template.metadata.labels."
    assert labels
    assert all(found[pods + name] == value for name, value in labels.items())


@pytest.mark.parametrize("kind", ["Keystone", "Nova", "Cortex"])
def test_a_prometheus_is_let_in_and_to_that_port_alone(kind: str) -> None:
    found = told(kind, TLS | {"networkPolicies": {"enabled": True}})
    policies = {field.partition(" ")[0] for field in found if field.startswith("NetworkPolicy/")}
    assert policies == {f"NetworkPolicy/{name}-monitoring" for name in monitors(found)}
    for name in policies:
        rule = f"{name} spec.ingress[0]"
        assert found[f"{rule}.ports[0].port"] == (9177 if "libvirt" in name else 8404)
        peer = f"{rule}.from[0]"
        assert found[f"{peer}.podSelector.matchExpressions[0].values"] == PROMETHEUS
        assert found[f"{peer}.namespaceSelector"] == {}


BY = pki.authority("drawn", "openstack/internal", NOW)
CERTIFIED: dict[str, Any] = {
    "published": {"PKI": {"authoritySecret": "by", "bundleSecret": "bundle", "certificateMinutes": "60"}},
    "secrets": {"by": {"tls.crt": BY.cert, "tls.key": BY.key}, "bundle": {"ca.crt": BY.cert}},
}
SERVED = frozenset({"PodMonitor.monitoring.coreos.com"})


def broker(release: Release, spec: dict[str, Any], **changes: Any) -> dict[Key, Object]:
    more: dict[str, Any] = {"served": SERVED, **changes}
    made = rabbitmq(context(RABBITMQ, spec, release=release, **more))
    return {key(obj): obj for obj in made.objects}


@pytest.mark.parametrize(("spec", "port"), [({}, 15692), (TLS, 15691)], ids=["plain", "tls"])
def test_a_broker_tells_of_itself_at_one_port(release: Release, spec: dict[str, Any], port: int) -> None:
    changes = CERTIFIED if spec else {}
    found = broker(release, spec | WATCHED, **changes)
    files = kube.secret_data(found["Secret", "rabbitmq-config"])
    assert files["enabled_plugins"] == "[rabbitmq_management,rabbitmq_prometheus].\n"
    ports = re.findall(r"^prometheus\.(\w+)\.port = (\d+)$", files["rabbitmq.conf"], re.MULTILINE)
    assert ports == [("ssl" if spec else "tcp", str(port))]
    # Unset, the plain one is open beside it.
    assert ("prometheus.tcp.listener = none\n" in files["rabbitmq.conf"]) == bool(spec)
    (container,) = found["StatefulSet", "rabbitmq-server"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "metrics", "containerPort": port} in container["ports"]
    (endpoint,) = found[MONITOR, "rabbitmq-server"]["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == "metrics"
    assert ("tlsConfig" in endpoint) == bool(spec)
    without = broker(release, spec, **changes)
    assert (MONITOR, "rabbitmq-server") not in without
    assert "prometheus" not in str(kube.secret_data(without["Secret", "rabbitmq-config"]))


def test_metrics_port_of_a_broker_is_limited_by_network_policies(release: Release) -> None:
    found = broker(release, WATCHED | {"networkPolicies": {"enabled": True}})
    (rule,) = found["NetworkPolicy", "rabbitmq-server-monitoring"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": 15692, "protocol": "TCP"}]
    (peer,) = rule["from"]
    assert peer["podSelector"]["matchExpressions"][0]["values"] == PROMETHEUS


def server(resource: Resource[Any], release: Release, spec: dict[str, Any]) -> dict[Key, Object]:
    """Objects of a server of a cloud with metrics."""
    plan = mariadb if resource is MARIADB else etcd
    more: dict[str, Any] = {"served": SERVED, **(CERTIFIED if "tls" in spec else {})}
    made = plan(context(resource, spec | WATCHED, release=release, **more))
    return {key(obj): obj for obj in made.objects}


def containers(objects: dict[Key, Object], name: str) -> dict[str, Any]:
    pod = objects["StatefulSet", name]["spec"]["template"]["spec"]
    return {each["name"]: each for each in pod["containers"]}


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("spec", [{}, TLS], ids=["plain", "tls"])
def test_an_exporter_beside_mariadb_reads_it_by_its_socket(
    release: Release, spec: dict[str, Any], replicas: int
) -> None:
    found = server(MARIADB, release, {**spec, "replicas": replicas})
    pods = containers(found, "mariadb-server")
    exporter = pods["exporter"]
    assert exporter["ports"] == [{"name": "metrics", "containerPort": 9104}]
    assert {"name": "METRICS_USER", "value": "metrics"} in pods["main"]["env"]
    paths = {mount["mountPath"] for mount in exporter["volumeMounts"]}
    assert paths == {"/run/mysqld", "/run/exporter", *(["/etc/mysql/tls"] if spec else [])}, "it has no password"
    (endpoint,) = found[MONITOR, "mariadb-server"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint.get("scheme")) == ("metrics", "https" if spec else None)
    # The servers are closed to all but their clients; the port of the metrics is for Prometheus.
    (rule,) = found["NetworkPolicy", "mariadb-server-monitoring"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": 9104, "protocol": "TCP"}]
    assert rule["from"][0]["podSelector"]["matchExpressions"][0]["values"] == PROMETHEUS


def test_images_without_an_exporter_have_no_metrics_and_a_condition_says_so(root: Path) -> None:
    kolla = {"imageProfile": "kolla", **WATCHED}
    images = ReleaseFiles(root / "releases")(MARIADB.spec.model_validate(kolla))
    ctx = context(MARIADB, kolla, release=images, served=SERVED)
    made = mariadb(ctx)
    assert not [obj for obj in made.objects if obj["kind"] == "PodMonitor"]
    assert ignored_monitoring(ctx, made) == {
        "monitoring": "no pod of this resource serves metrics; images of another imageProfile have an exporter"
    }


@pytest.mark.parametrize("spec", [{}, TLS], ids=["plain", "tls"])
def test_etcd_serves_metrics_at_a_port_of_their_own(release: Release, spec: dict[str, Any]) -> None:
    found = server(ETCD, release, spec)
    member = containers(found, "etcd-server")["main"]
    address = f"{'https' if spec else 'http'}://0.0.0.0:2381"
    assert {"name": "ETCD_LISTEN_METRICS_URLS", "value": address} in member["env"]
    assert {"name": "metrics", "containerPort": 2381} in member["ports"]
    assert found[MONITOR, "etcd-server"]["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"
    (rule,) = found["NetworkPolicy", "etcd-server-monitoring"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": 2381, "protocol": "TCP"}]


def test_a_broker_of_another_operators_tells_of_itself_anyway(release: Release) -> None:
    theirs = SERVED | {"RabbitmqCluster.rabbitmq.com"}
    found = broker(release, WATCHED | {"provider": "rabbitmq-cluster-operator"}, served=theirs)
    monitor = found[MONITOR, "rabbitmq-server"]["spec"]
    assert monitor["selector"]["matchLabels"] == {"app.kubernetes.io/name": "rabbitmq"}
    assert monitor["podMetricsEndpoints"] == [{"port": "prometheus"}]


def test_metrics_ports_open_without_a_prometheus_operator_and_without_monitors() -> None:
    found = told("Keystone", TLS, served=())
    assert not monitors(found)
    assert found["Deployment/keystone-api pod.containers[front].ports[metrics].containerPort"] == 8404


def test_monitors_of_the_documentation_exist(root: Any) -> None:
    """The operator itself, which every cloud of a cluster has in common, is no cloud's to monitor."""
    assert not [name for name in told("OpenStackControlPlane", CLOUD) if name.startswith("PodMonitor/")]
    page = (root / "docs" / "how-to" / "read-logs-and-metrics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (text,) = (block for block in blocks if "kind: ServiceMonitor" in block)
    found = {obj["kind"]: obj for obj in yaml.load_all(text, yaml.CSafeLoader)}
    deployed = {obj["kind"]: obj for obj in load(root / "deploy" / "operator.yaml")}
    deployment = deployed["Deployment"]["spec"]["template"]
    (port,) = found["Service"]["spec"]["ports"]
    ports = {each["name"]: each["containerPort"] for each in deployment["spec"]["containers"][0]["ports"]}
    assert (port["port"], ports[port["targetPort"]]) == (8443, 8443)
    assert found["Service"]["spec"]["selector"].items() <= deployment["metadata"]["labels"].items()
    labels = found["Service"]["metadata"]["labels"]
    assert found["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = found["ServiceMonitor"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == (port["name"], "https")
    assert endpoint["honorLabels"], "an alert is about a resource's namespace"
    assert {found[kind]["metadata"]["namespace"] for kind in ("Service", "ServiceMonitor")} == {"openstack-operator"}
    roles = [obj["metadata"]["name"] for obj in load(root / "deploy" / "roles.yaml")]
    assert found["ClusterRoleBinding"]["roleRef"]["name"] in roles


ALERTS = alerts_of("openstack", "openstack-operator")


def alerts() -> dict[str, str]:
    found = told("OpenStackControlPlane", {})
    named = {field: value for field, value in found.items() if field.startswith("PrometheusRule/")}
    return {
        value: found[field.removesuffix("alert") + "expr"] for field, value in named.items() if field.endswith(".alert")
    }


OF_OTHERS = {
    "haproxy_backend_http_responses_total",  # what haproxy 3.0 tells of a backend
    "haproxy_backend_response_time_average_seconds",
    "kubelet_volume_stats_available_bytes",
    "kubelet_volume_stats_capacity_bytes",
    "libvirt_up",
    "memcached_items_evicted_total",
    "mysql_global_status_threads_connected",
    "mysql_global_variables_max_connections",
    "ovn_controller_connected",
    "ovn_db_cluster_leader",
    "ovn_northd_active",
    "rabbitmq_alarms_memory_used_watermark",
    "rabbitmq_alarms_free_disk_space_watermark",
    "rabbitmq_unreachable_cluster_peers_count",
    "redis_master_link_up",
    "up",
}


def test_alerts_are_about_metrics_there_are_in_this_cloud_alone() -> None:
    world = World(cast("Client", None), Catalog(RESOURCES), [], lambda change: None)
    of_resources = ResourceCollector(world, lambda: False).collect()
    own = {name for metric in (*REGISTRY.collect(), *of_resources) for name in (metric.name, f"{metric.name}_total")}
    assert metrics.LEADER
    for name, expression in alerts().items():
        asked = set(re.findall(r"([a-z_]+)\{", expression))
        assert asked
        assert asked <= own | OF_OTHERS, name
        for selector in re.findall(r"\{([^}]*)\}", expression):
            assert re.search(r'namespace="openstack(-operator)?"', selector), name


def test_each_alert_has_a_page_that_its_annotation_names(root: Path) -> None:
    """Four sections: what it means, what it costs, where to look, what to do; and a line in the table of all."""
    pages, url = root / "docs" / "runbooks", "https://docs.example.org/{alert}/"
    assert {page.stem for page in pages.glob("*.md")} == {"README", *(each.name for each in ALERTS)}
    table = (pages / "README.md").read_text(encoding="utf-8")
    for alert in ALERTS:
        text = (pages / f"{alert.name}.md").read_text(encoding="utf-8")
        assert re.findall(r"^#+ .*", text, re.MULTILINE) == [f"# {alert.name}", "## Impact", "## Look", "## Fix"]
        assert f"| [`{alert.name}`]({alert.name}.md) | {alert.severity} | {alert.minutes} min | " in table
        assert alert.rule(url)["annotations"]["runbook_url"] == f"https://docs.example.org/{alert.name}/"
        default = alert.rule(CloudMonitoring().runbook_url)["annotations"]["runbook_url"]
        assert (root / default).is_file()


def test_a_cloud_says_where_the_pages_are() -> None:
    there = {"monitoring": {"enabled": True, "runbookUrl": "https://docs.example.org/{alert}"}}
    found = resulting_leaves("OpenStackControlPlane", there)
    annotation = ".annotations.runbook_url"
    links = {value for field, value in found.items() if field.endswith(annotation)}
    assert links == {f"https://docs.example.org/{alert.name}" for alert in ALERTS}


def test_alerts_name_the_haproxy_backend_of_the_configuration() -> None:
    config = resulting_leaves("Keystone", TLS | WATCHED)[
        "Deployment/keystone-api pod.containers[front].env[CONFIG].value"
    ]
    (proxy,) = set(re.findall(r'proxy="(\w+)"', alerts()["OpenStackAPIFails"]))
    assert f"\nbackend {proxy}\n" in config


@pytest.mark.parametrize(
    ("served", "missing"),
    [
        ((), "podmonitors.monitoring.coreos.com and prometheusrules.monitoring.coreos.com"),
        (("PodMonitor.monitoring.coreos.com",), "prometheusrules.monitoring.coreos.com"),
        (("PrometheusRule.monitoring.coreos.com",), "podmonitors.monitoring.coreos.com"),
    ],
)
@pytest.mark.parametrize(("kind", "path"), [("ControlPlane", "spec.global"), ("OpenStackControlPlane", "spec")])
def test_a_missing_monitoring_kind_is_reported_and_the_rest_is_made(
    kind: str, path: str, served: tuple[str, ...], missing: str
) -> None:
    found = resulting_leaves(kind, with_field({}, f"{path}.monitoring.enabled", True), served=served)
    assert found["MonitoringReady"] == f"the cluster lacks {missing}; install Prometheus' operator"
    made = {f"{name.partition('/')[0]}.monitoring.coreos.com" for name in found if name.startswith(("PodM", "Prom"))}
    # PodMonitors are the services' own.
    assert made == set(served) - {MONITOR}


def test_a_cloud_that_is_not_encrypted_says_that_apis_tell_nothing() -> None:
    assert "without the TLS proxy" in told("OpenStackControlPlane", CLOUD)["MonitoringReady"]
    assert told("OpenStackControlPlane", {})["MonitoringReady"] == ""


@pytest.mark.security
@pytest.mark.parametrize(
    "url",
    [
        "https://docs.example.org/{alert}?{{range(query)}}{{.Labels.namespace}}{{end}}",
        "javascript:{alert}",
        "https://docs.example.org/",
        "https://docs.example.org/{alert}/`x`",
    ],
)
def test_a_link_to_runbooks_is_no_template(url: str) -> None:
    """Prometheus would expand it with what it knows of other namespaces."""
    with pytest.raises(ValidationError):
        CloudMonitoring.model_validate({"runbookUrl": url})
