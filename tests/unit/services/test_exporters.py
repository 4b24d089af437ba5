"""Exporters of servers that have no metrics of their own: what they may do, and that no server depends on them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube, pki
from openstack_operator.api import Resource
from openstack_operator.plan import Key, Object, Plan, Release, key
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan as mariadb
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan as memcached
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan as ovn
from openstack_operator.services.valkey.model import VALKEY
from openstack_operator.services.valkey.service import plan as valkey
from openstack_operator.testing import NOW, context
from tests.field_effects import changes, resulting_leaves

WATCHED: dict[str, Any] = {"monitoring": {"enabled": True}}
TLS: dict[str, Any] = {"tls": {"pkiRef": {"name": "internal"}}}
MONITOR = "PodMonitor.monitoring.coreos.com"
BY = pki.authority("drawn", "openstack/internal", NOW)
CERTIFIED: dict[str, Any] = {
    "published": {"PKI": {"authoritySecret": "by", "bundleSecret": "bundle", "certificateMinutes": "60"}},
    "secrets": {"by": {"tls.crt": BY.cert, "tls.key": BY.key}, "bundle": {"ca.crt": BY.cert}},
}
SENTINELS: dict[str, Any] = {"replicas": 3, "sentinel": {"enabled": True}}
PLANS: dict[str, tuple[Resource[Any], Any]] = {
    "MariaDB": (MARIADB, mariadb),
    "Memcached": (MEMCACHED, memcached),
    "Valkey": (VALKEY, valkey),
    "OVNNetwork": (OVN_NETWORK, ovn),
}
BESIDE = {
    "MariaDB": {("StatefulSet", "mariadb-server"): 9104},
    "Memcached": {("StatefulSet", "memcached-server"): 9150},
    "Valkey": {("StatefulSet", "valkey-server"): 9121},
    "OVNNetwork": {
        ("StatefulSet", "ovnnetwork-nb"): 9476,
        ("StatefulSet", "ovnnetwork-sb"): 9476,
        ("Deployment", "ovnnetwork-northd"): 9476,
    },
}
"""Workloads whose pods have an exporter, and its port."""


def planned(kind: str, release: Release, spec: dict[str, Any]) -> dict[Key, Object]:
    resource, plan = PLANS[kind]
    more: dict[str, Any] = {"served": frozenset({MONITOR}), **(CERTIFIED if "tls" in spec else {})}
    made: Plan = plan(context(resource, spec, release=release, **more))
    return {key(obj): obj for obj in made.objects}


def containers(obj: Object) -> dict[str, Any]:
    return {each["name"]: each for each in obj["spec"]["template"]["spec"]["containers"]}


def env(container: Object) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container["env"]}


@pytest.mark.parametrize("tls", [{}, TLS], ids=["plain", "tls"])
@pytest.mark.parametrize("kind", BESIDE)
def test_an_exporter_has_a_monitor_and_admits_prometheus_alone(
    release: Release, kind: str, tls: dict[str, Any]
) -> None:
    objects = planned(kind, release, WATCHED | tls)
    for (workload, name), port in BESIDE[kind].items():
        exporter = containers(objects[workload, name])["exporter"]
        assert exporter["ports"] == [{"name": "metrics", "containerPort": port}]
        assert ("TLS_FOLDER" in env(exporter)) == bool(tls)
        (endpoint,) = objects[MONITOR, name]["spec"]["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint.get("scheme")) == ("metrics", "https" if tls else None)
        (rule,) = objects["NetworkPolicy", f"{name}-monitoring"]["spec"]["ingress"]
        assert rule["ports"] == [{"port": port, "protocol": "TCP"}]
        (peer,) = rule["from"]
        assert peer["podSelector"]["matchExpressions"][0]["values"] == ["prometheus", "prometheus-agent"]
    without = planned(kind, release, tls)
    assert not [each for each in without if each[0] == MONITOR]
    assert all("exporter" not in containers(without[each]) for each in BESIDE[kind])


@pytest.mark.parametrize("kind", BESIDE)
def test_no_server_waits_for_its_exporter_or_ends_with_it(release: Release, kind: str) -> None:
    """A container that is not ready, or that a probe restarts, makes its pod not ready: so none of it is probed."""
    objects = planned(kind, release, WATCHED)
    for each in BESIDE[kind]:
        exporter = containers(objects[each])["exporter"]
        assert not [field for field in exporter if field.endswith("Probe")]
        assert exporter["resources"]["requests"]["memory"]
        security = exporter["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"]
        assert security["runAsNonRoot"]


@pytest.mark.parametrize("kind", ["MariaDB", "Valkey"])
def test_an_exporter_of_others_listens_where_its_pod_alone_reaches_it(release: Release, kind: str) -> None:
    """It connects to each address that a client of `/probe` or `/scrape` names."""
    ((workload, port),) = BESIDE[kind].items()
    exporter = containers(planned(kind, release, WATCHED)[workload])["exporter"]
    assert f"--web.listen-address=127.0.0.1:{port + 1}" in exporter["command"]
    assert env(exporter)["UPSTREAM_PORT"] == str(port + 1)


@pytest.mark.parametrize("kind", ["MariaDB", "Memcached", "Valkey"])
def test_image_and_resources_of_a_server_are_not_those_of_its_exporter(release: Release, kind: str) -> None:
    large = {"requests": {"memory": "10Gi"}, "limits": {"memory": "10Gi"}}
    spec = WATCHED | {"image": "registry.example.org/server:1", "resources": large}
    ((workload, _),) = BESIDE[kind].items()
    exporter = containers(planned(kind, release, spec)[workload])["exporter"]
    assert exporter["image"] == release[f"{kind.lower()}-exporter"].image
    assert exporter["resources"]["requests"]["memory"] in {"24Mi", "48Mi"}


@pytest.mark.security
@pytest.mark.parametrize("sentinels", [{}, SENTINELS], ids=["one", "three"])
@pytest.mark.parametrize("tls", [{}, TLS], ids=["plain", "tls"])
def test_valkeys_exporter_has_an_account_that_reads_no_data(
    release: Release, tls: dict[str, Any], sentinels: dict[str, Any]
) -> None:
    objects = planned("Valkey", release, WATCHED | tls | sentinels)
    passwords = kube.secret_data(objects["Secret", "valkey-credentials"])
    assert passwords.keys() == {"password", "metrics"}
    conf = kube.secret_data(objects["Secret", "valkey-config"])["valkey.conf"]
    (account,) = [line for line in conf.splitlines() if line.startswith("user ")]
    _, name, *words = account.split()
    assert name == "metrics"
    assert f"#{hashlib.sha256(passwords['metrics'].encode()).hexdigest()}" in words
    assert {"resetkeys", "resetchannels", "-@all"} <= set(words)
    assert {word for word in words if word.startswith("+")} == {
        *("+ping", "+info", "+latency|latest", "+latency|histogram", "+slowlog|len", "+client|setname")
    }
    pod = objects["StatefulSet", "valkey-server"]["spec"]["template"]["spec"]
    exporter = containers(objects["StatefulSet", "valkey-server"])["exporter"]
    assert passwords["metrics"] not in str(exporter)
    (volume,) = [each["secret"] for each in pod["volumes"] if each["name"] == "metrics-account"]
    assert volume["items"] == [{"key": "metrics", "path": "password"}], "the server's own password is not there"
    mounts = {each["name"] for each in exporter["volumeMounts"]}
    assert mounts == {"metrics-account", *(["tls"] if tls else [])}
    assert "user " not in kube.secret_data(planned("Valkey", release, tls)["Secret", "valkey-config"])["valkey.conf"]


def test_the_exporter_of_valkey_speaks_tls_once_the_server_takes_nothing_else(release: Release) -> None:
    plain = planned("Valkey", release, WATCHED)["StatefulSet", "valkey-server"]
    assert env(containers(plain)["exporter"])["REDIS_ADDR"] == "redis://localhost:6379"
    required = {"tls": {"pkiRef": {"name": "internal"}, "required": True}}
    closed = planned("Valkey", release, WATCHED | required)["StatefulSet", "valkey-server"]
    assert env(containers(closed)["exporter"])["REDIS_ADDR"] == "rediss://localhost:6380"


def test_images_without_an_exporter_have_no_metrics(root: Path) -> None:
    for kind in ("Memcached", "OVNNetwork"):
        spec = {"imageProfile": "kolla", **WATCHED}
        resource, _ = PLANS[kind]
        release = ReleaseFiles(root / "releases")(resource.spec.model_validate(spec))
        assert not [each for each in planned(kind, release, spec) if each[0] == MONITOR]


OF_NODES = (
    ("kind", "daemons", "tls"),
    [
        ("OVNCluster", "ovn-exporter", {"tls": {"enabled": True, "pkiRef": {"name": "internal"}}}),
        ("Nova", "nova-libvirt-exporter", TLS),
    ],
)
FOLDERS = {"ovn-exporter": {"/run/openvswitch", "/run/ovn"}, "nova-libvirt-exporter": {"/run/libvirt"}}
USERS = {"ovn-exporter": 0, "nova-libvirt-exporter": 64060}


@pytest.mark.parametrize(*OF_NODES)
def test_metrics_of_a_node_come_from_a_pod_of_their_own(kind: str, daemons: str, tls: dict[str, Any]) -> None:
    """It restarts no program of the node, is not on its network, and reads sockets without being privileged."""
    found = changes(resulting_leaves(kind, {}), resulting_leaves(kind, WATCHED))
    assert {field.partition(" ")[0] for field in found if field.startswith("DaemonSet/")} == {f"DaemonSet/{daemons}"}
    pod = f"DaemonSet/{daemons} pod"
    assert f"{pod}.hostNetwork" not in found
    container = f"{pod}.containers[main]"
    assert found[f"{container}.securityContext.runAsUser"] == USERS[daemons]
    assert f"{container}.securityContext.privileged" not in found
    assert found[f"{container}.securityContext.capabilities.drop"] == ["ALL"]
    for path in FOLDERS[daemons]:
        assert found[f"{container}.volumeMounts[{path}].readOnly"]
    label = f"PodMonitor/{daemons} spec.podMetricsEndpoints[0].relabelings[0]"
    assert found[f"{label}.sourceLabels"] == ["__meta_kubernetes_pod_node_name"]
    assert found[f"{label}.targetLabel"] == "node"


@pytest.mark.parametrize(*OF_NODES)
def test_nodes_get_no_certificate_of_the_clouds_authority_for_metrics(
    kind: str, daemons: str, tls: dict[str, Any]
) -> None:
    """Clients of OVN's databases know these by their authority alone, and a node must not pose as a database."""
    found = resulting_leaves(kind, tls | WATCHED)
    endpoint = f"PodMonitor/{daemons} spec.podMetricsEndpoints[0]"
    assert found[f"{endpoint}.scheme"] == "https"
    assert found[f"{endpoint}.tlsConfig.ca.secret.name"] == f"{daemons}-tls"
    assert found[f"{endpoint}.tlsConfig.serverName"] == f"{daemons}.openstack.svc.cluster.local"
    owner = daemons.partition("-")[0]
    assert found[f"Secret/{daemons}-tls ca.crt"] == found[f"Secret/{owner}-metrics-ca tls.crt"]


@pytest.mark.parametrize(*OF_NODES)
def test_a_resource_is_ready_without_the_exporters_of_its_nodes(kind: str, daemons: str, tls: dict[str, Any]) -> None:
    assert resulting_leaves(kind, WATCHED)[f"DaemonSet/{daemons} annotations.openstack.k8s.io/beside"] == "true"


@pytest.mark.proves("OVNCluster", "spec.monitoring.enabled", "spec.monitoring.labels")
def test_an_ovn_of_c5c3_has_metrics_with_the_labels_of_its_spec() -> None:
    found = changes(
        resulting_leaves("OVNCluster", {}),
        resulting_leaves("OVNCluster", {"monitoring": {"enabled": True, "labels": {"a": "b"}}}),
    )
    monitors = {field.removesuffix(" labels.a") for field in found if field.endswith(" labels.a")}
    assert monitors == {f"PodMonitor/ovn-{name}" for name in ("nb", "sb", "northd", "exporter")}
