"""A cloud of resources that are written one by one, by the names of c5c3: servers of others, made by hand, are told of
in Secrets, Keystone by a URL and application credentials, and OVN is an OVNCluster.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from openstack.connection import Connection
from rich.console import Console

from images import catalog
from openstack_operator.api import ALLOWED_HOSTS, host_of
from tools.cloud import proof, view
from tools.cloud.stopwatch import Stopwatch
from tools.localcluster.kubernetes import KubeError, Kubernetes

from ..conftest import Report
from ..waiting import until
from .asked import raised, ready

NAMESPACE = "kinds"
GROUP = "openstack.c5c3.io"
SCHEMAS = {
    "keystone": ["keystone"],
    "glance": ["glance"],
    "placement": ["placement"],
    "neutron": ["neutron"],
    "nova": ["nova", "nova_api", "nova_cell0"],
}
VHOSTS = {"neutron": ["neutron"], "nova": ["nova", "nova-cell1"]}
CATALOG = {"glance": "image", "placement": "placement", "neutron": "network", "nova": "compute"}

Object = dict[str, Any]


def _database() -> list[Object]:
    def theirs(kind: str, called: str, /, **spec: Any) -> Object:
        said = {} if kind == "MariaDB" else {"mariaDbRef": {"name": "mariadb"}, "cleanupPolicy": "Skip"}
        api = "k8s.mariadb.com/v1alpha1"
        return {"apiVersion": api, "kind": kind, "metadata": {"name": called}, "spec": {**said, **spec}}

    root = {"name": "mariadb-root", "key": "password", "generate": True}
    made = [theirs("MariaDB", "mariadb", rootPasswordSecretKeyRef=root, storage={"size": "2Gi"})]
    for service, schemas in SCHEMAS.items():
        login = {"name": f"{service}-db-credentials", "key": "password"}
        made.append(theirs("User", service, name=service, host="%", passwordSecretKeyRef=login, maxUserConnections=100))
        for schema in schemas:
            name = schema.replace("_", "-")
            collation = {"characterSet": "utf8mb3", "collate": "utf8mb3_general_ci"}
            whom = {"username": service, "host": "%", "database": schema, "table": "*"}
            made += [
                theirs("Database", name, name=schema, **collation),
                theirs("Grant", name, privileges=["ALL PRIVILEGES"], **whom),
            ]
    return made


def _broker() -> list[Object]:
    def theirs(kind: str, called: str, /, **spec: Any) -> Object:
        api, of = "rabbitmq.com/v1beta1", {"rabbitmqClusterReference": {"name": "rabbitmq"}}
        return {"apiVersion": api, "kind": kind, "metadata": {"name": called}, "spec": {**of, **spec}}

    found: list[Object] = [
        {
            "apiVersion": "rabbitmq.com/v1beta1",
            "kind": "RabbitmqCluster",
            # RabbitMQ 4.0 does not know the request that newer ones are asked while they start.
            "metadata": {"name": "rabbitmq", "annotations": {"rabbitmq.com/legacy-startup-probe": "true"}},
            "spec": {
                "replicas": 1,
                "delayStartSeconds": 0,
                "terminationGracePeriodSeconds": 30,
                "persistence": {"storage": "1Gi"},
                "resources": {"requests": {"cpu": "10m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
            },
        }
    ]
    for service, vhosts in VHOSTS.items():
        found.append(theirs("User", service, importCredentialsSecret={"name": f"{service}-rabbitmq-credentials"}))
        for vhost in vhosts:
            may = {"configure": ".*", "write": ".*", "read": ".*"}
            found += [
                theirs("Vhost", vhost, name=vhost),
                theirs("Permission", vhost, vhost=vhost, user=service, permissions=may),
            ]
    return found


def _cache() -> Object:
    return {
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": "memcached"},
        "spec": {
            "replicas": 1,
            "image": catalog.reference("memcached"),
            "memcached": {"maxMemoryMB": 16, "maxConnections": 256, "threads": 1},
            "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "64Mi"}},
        },
    }


def _secrets() -> list[Object]:
    def secret(name: str, **values: str) -> Object:
        labels = {"k8s.mariadb.com/watch": "", "rabbitmq.com/topology-operator": "true"}
        # The brokers of services are named by these, and not by the Secret.
        annotations = {ALLOWED_HOSTS: "rabbitmq"}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "stringData": values,
        }

    login = {service: {"username": service, "password": secrets.token_urlsafe()} for service in SCHEMAS}
    return [
        *(secret(f"{service}-db-credentials", **each) for service, each in login.items()),
        *(secret(f"{service}-rabbitmq-credentials", vhost=service, **login[service]) for service in VHOSTS),
        *(secret(f"{service}-user", password=secrets.token_urlsafe()) for service in CATALOG),
        secret("keystone-admin-credentials", password=secrets.token_urlsafe()),
    ]


def _service(kind: str, host: str, **spec: Any) -> Object:
    name = kind.lower()
    return {
        "apiVersion": f"{name}.{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "database": {"secretRef": {"name": f"{name}-db-credentials"}, "database": name},
            "expose": {"type": "NodePort", "host": host},
            **spec,
        },
    }


def _keystone(host: str) -> Object:
    admin = {"name": "keystone-admin-credentials", "key": "password"}
    return _service(
        "Keystone",
        host,
        cache={"backend": "dogpile.cache.pymemcache", "servers": ["memcached:11211"]},
        fernet={"rotationSchedule": "0 0 * * 0", "maxActiveKeys": 3},
        federation={"enabled": False},
        bootstrap={"adminUser": "admin", "adminPasswordSecretRef": admin, "region": "RegionOne"},
    )


def _network() -> Object:
    return {
        "apiVersion": "ovn.c5c3.io/v1alpha1",
        "kind": "OVNCluster",
        "metadata": {"name": "ovn"},
        "spec": {
            **{name: {"replicas": 1, "storage": {"size": "1Gi"}} for name in ("northbound", "southbound")},
            "externalBridge": {"address": f"{proof.GATEWAY}/24"},
            "neutronIntegration": {
                "nbConnection": {"service": {"name": "ovn-nb", "port": 6641}},
                "sbConnection": {"service": {"name": "ovn-sb", "port": 6642}},
            },
        },
    }


def _services(host: str, url: str) -> list[Object]:
    def logged_in(kind: str, **spec: Any) -> Object:
        name = kind.lower()
        keystone = {"authUrl": url, "appCredentialRef": {"secretName": f"{name}-keystone-credentials"}}
        waits = [{"kind": "Keystone", "name": "keystone", "condition": "Ready"}]
        return _service(kind, host, keystone=keystone, dependsOn=waits, **spec)

    def messaging(service: str) -> Object:
        return {"secretRef": {"name": f"{service}-rabbitmq-credentials"}, "hosts": ["rabbitmq:5672"]}

    called = ("placement", "neutron", "glance")
    nova = logged_in(
        "Nova",
        messaging=messaging("nova"),
        serviceAuth={f"{name}ServiceUserRef": {"name": name} for name in called},
        cells=[{"name": "cell1", "computeRef": {"name": "hypervisor-cell1"}}],
    )
    nova["spec"]["database"] |= {"apiDatabase": "nova_api", "cellDatabase": "nova_cell0"}
    ml2 = {
        "typeDrivers": ["geneve", "vlan", "flat"],
        "tenantNetworkTypes": ["geneve"],
        "mechanismDrivers": ["ovn"],
        "extensionDrivers": ["port_security"],
    }
    return [
        logged_in("Placement"),
        logged_in("Glance"),
        logged_in("Neutron", messaging=messaging("neutron"), ovn={"clusterRef": {"name": "ovn"}}, ml2=ml2),
        nova,
    ]


def _user(service: str) -> Object:
    spec = {"user": service, "passwordSecretRef": {"name": f"{service}-user", "key": "password"}}
    return {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "KeystoneUser",
        "metadata": {"name": service},
        "spec": spec,
    }


def found(cluster: Kubernetes, kind: str, name: str) -> Object:
    return cluster.get(kind, name, "-n", NAMESPACE)


def _kind(obj: Object) -> str:
    group, _, version = obj["apiVersion"].rpartition("/")
    return f"{obj['kind']}.{version}.{group}"


def _applied(cluster: Kubernetes, *wanted: Object) -> None:
    cluster.apply(*({**each, "metadata": {**each["metadata"], "namespace": NAMESPACE}} for each in wanted))


def _others(cluster: Kubernetes, *wanted: Object) -> None:
    """What others keep is there, and Ready; their webhooks may not have seen yet what was applied just before."""

    def taken(obj: Object) -> bool:
        try:
            _applied(cluster, obj)
        except KubeError as error:
            if "denied the request" not in str(error):
                raise
            return False
        return True

    for each in wanted:
        until(f"{_kind(each)} to be taken", partial(taken, each), 60, 1)
    for each in wanted:
        name = each["metadata"]["name"]
        until(f"{_kind(each)}/{name} to be Ready", lambda e=each, n=name: ready(found(cluster, _kind(e), n)), 240, 1)


def _ours(cluster: Kubernetes, *wanted: Object, seconds: float = 240) -> None:
    _applied(cluster, *wanted)
    for each in wanted:
        name = each["metadata"]["name"]
        until(f"{_kind(each)}/{name}", lambda e=each, n=name: view.ready(found(cluster, _kind(e), n)), seconds, 1)


def _credential(cluster: Kubernetes, service: str, url: str) -> Object:
    """A Secret with an application credential, made by the service's own user, for the Keystone at that URL."""
    password = base64.b64decode(found(cluster, "secret", f"{service}-user")["data"]["password"]).decode()
    admin = proof.connect(cluster, NAMESPACE)
    auth = {
        "auth_url": admin.config.auth["auth_url"],
        "username": service,
        "password": password,
        "project_name": "service",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
    }
    own = Connection(auth=auth)
    asked = {"application_credential": {"name": "kubernetes"}}
    told = own.identity.post(f"/users/{own.current_user_id}/application_credentials", json=asked).json()
    made = told["application_credential"]
    values = {"application_credential_id": made["id"], "application_credential_secret": made["secret"]}
    metadata = {"name": f"{service}-keystone-credentials", "annotations": {ALLOWED_HOSTS: host_of(url)}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def _entered(cluster: Kubernetes, wanted: list[Object]) -> None:
    """Endpoints are an administrator's to make, where a Keystone is named by its URL."""
    conn = proof.connect(cluster, NAMESPACE)
    for each in wanted:
        name = each["metadata"]["name"]
        told = conn.identity.post("/services", json={"service": {"name": name, "type": CATALOG[name]}}).json()
        at = {"service_id": told["service"]["id"], "region_id": "RegionOne", "url": _endpoint(cluster, each)}
        for interface in ("public", "internal"):
            answer = conn.identity.post("/endpoints", json={"endpoint": {**at, "interface": interface}})
            assert answer.status_code == 201, answer.text


@pytest.fixture(scope="module")
def cloud(cluster: Kubernetes, report: Report) -> Iterator[Kubernetes]:
    """The cloud, Ready."""
    with raised(cluster, NAMESPACE):
        host = cluster.address()
        _applied(cluster, *_secrets())
        _others(cluster, *_database(), *_broker(), _cache())
        _ours(cluster, _keystone(host), _network())
        url = f"http://keystone-api.{NAMESPACE}.svc.cluster.local:5000/v3"
        _ours(cluster, *(_user(service) for service in CATALOG))
        _applied(cluster, *(_credential(cluster, service, url) for service in CATALOG))
        _applied(cluster, *_services(host, url))
        wanted = _services(host, url)
        until("ports of the nodes", lambda: all(f"//{host}:" in _endpoint(cluster, each) for each in wanted), 120, 1)
        _entered(cluster, wanted)
        _ours(cluster, *wanted, seconds=300)
        yield cluster


def _endpoint(cluster: Kubernetes, wanted: Object) -> str:
    return found(cluster, _kind(wanted), wanted["metadata"]["name"]).get("status", {}).get("endpoint", "")


def test_status_says_what_there_is(cloud: Kubernetes) -> None:
    nova = found(cloud, f"novas.nova.{GROUP}", "nova")["status"]
    assert [(each["name"], each["status"], each["computeNodes"]) for each in nova["cells"]] == [("cell1", "Ready", 1)]
    told = found(cloud, "ovnclusters.ovn.c5c3.io", "ovn")["status"]
    assert (told["chassisCount"], told["activeControllers"]) == (1, 1)
    (chassis,) = cloud.items("ovnchassis.ovn.c5c3.io", "-n", NAMESPACE)
    said = {name: each["status"] for name, each in view.conditions(chassis).items()}
    assert (said["Ready"], said["OVSConnected"]) == ("True", "True")


def test_a_server_answers_on_its_floating_ip(cloud: Kubernetes, report: Report) -> None:
    facts = proof.prove(cloud, NAMESPACE, Stopwatch(Console()))
    report.add(kinds_proof=facts)
    assert facts["reply"]


def test_a_node_has_a_bridge_of_its_own(cloud: Kubernetes) -> None:
    """What an OVNChassis says reaches the switch of its node, without a restart."""
    (chassis,) = cloud.items("ovnchassis.ovn.c5c3.io", "-n", NAMESPACE)
    name = chassis["metadata"]["name"]
    (pod,) = cloud.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=gateway")
    before = pod["metadata"]["uid"]

    def asked(mappings: list[dict[str, str]]) -> None:
        patch = json.dumps({"spec": {"bridgeMappings": mappings or None}})
        cloud.kubectl("patch", "ovnchassis.ovn.c5c3.io", name, "-n", NAMESPACE, "--type=merge", "-p", patch)

    def switch() -> str:
        ask = ("ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings")
        return cloud.kubectl("exec", "-n", NAMESPACE, pod["metadata"]["name"], "-c", "ovs-vswitchd", "--", *ask)

    first = switch()
    assert "br-ex" in first
    asked([{"physicalNetwork": "physnet1", "bridge": "br-ex"}, {"physicalNetwork": "lab", "bridge": "br-lab"}])
    until("the switch to have it", lambda: "lab:br-lab" in switch(), 180, 2)
    asked([])
    until("the switch to be as before", lambda: switch() == first, 180, 2)
    (pod,) = cloud.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=gateway")
    assert pod["metadata"]["uid"] == before
