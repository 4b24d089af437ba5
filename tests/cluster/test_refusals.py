"""Bad input is refused by the API server itself, in words that name the field and the fix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.kube import digest
from openstack_operator.plan import Object
from openstack_operator.registry import RESOURCES
from openstack_operator.yaml_text import load

from .rest import Rest

GROUPS = {name: resource.api_version for resource in reversed(RESOURCES) for name in (resource.kind, resource.handle)}
"""By handle, and by kind: of two groups, ours."""


def manifest(kind: str, spec: dict[str, Any], name: str = "refused") -> Object:
    return {"apiVersion": GROUPS[kind], "kind": kind.partition(".")[0], "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def rest(kubeconfig: Path) -> Iterator[Rest]:
    connection = Rest(kubeconfig, "default")
    yield connection
    connection.close()


CLOUD = "OpenStackControlPlane"
C5C3_GLANCE = "Glance.glance.openstack.c5c3.io"
C5C3_ROTATION = "CredentialRotation.c5c3.io"
SCALED: dict[str, Any] = {"autoscaling": {"maxReplicas": 3}, "resources": {"requests": {"cpu": "500m"}}}
OF_CERT_MANAGER = {"issuerRef": {"name": "company-ca"}}
LIFETIME = "spec.certificateLifetime"
GROUP: dict[str, Any] = {"name": "gpu", "nodeSelector": {"gpu": "true"}}
DIRECTORY = {"url": "ldaps://ldap.example.org", "userTreeDN": "ou=people"}
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (CLOUD, {"storageBackend": "nfs"}, "spec.storageBackend", '"ceph", "lvm"'),
    (CLOUD, {"networkBackend": "calico"}, "spec.networkBackend", '"ovn", "ovs"'),
    (CLOUD, {"neutron": {"mechanism": "linuxbridge"}}, "spec.neutron.mechanism", '"ovn", "ovs"'),
    (CLOUD, {"mariadb": {"replicas": 2}}, "spec.mariadb.replicas", "use 1, 3 or 5"),
    ("Keystone", {"fernet": {"rotationSchedule": "weekly"}}, "fernet.rotationSchedule", "@weekly"),
    ("Glance", {"storage": {"size": "ten"}}, "spec.storage.size", "such as 10Gi"),
    (CLOUD, {"glance": {"storage": {"size": "ten"}}}, "spec.glance.storage.size", "should match"),
    (CLOUD, {"nova": {"cells": [{"name": "a"}, {"name": "a"}]}}, "spec.nova.cells[1]", "Duplicate"),
    (
        CLOUD,
        {"cinder": {"backends": [{"name": "a", "type": "lvm"}, {"name": "a", "type": "ceph"}]}},
        "spec.cinder.backends[1]",
        "Duplicate",
    ),
    ("CredentialRotation", {"target": "database"}, "spec.serviceRef", "set serviceRef"),
    (C5C3_ROTATION, {"target": "serviceAccountPassword"}, "spec.serviceRef", "set serviceRef or keystoneService"),
    (C5C3_ROTATION, {"target": "admin", "keystoneService": "keystone"}, "spec.keystoneService", "serviceRef"),
    (
        C5C3_ROTATION,
        {"target": "fernet", "intervalDays": 7, "preRotationDays": 7},
        "spec.preRotationDays",
        "fewer days than intervalDays",
    ),
    (
        "SecretAggregate",
        {"targetSecretName": "a", "sources": [{"secretRef": {"name": "a"}}]},
        "spec.targetSecretName",
        "is also a source",
    ),
    ("Nova", {"scheduler": {"externalScheduler": {"enabled": True}}}, "externalScheduler.endpoint", "or cortexRef"),
    (
        "Nova",
        {"scheduler": {"externalScheduler": {"endpoint": "http://a", "cortexRef": {"name": "b"}}}},
        "externalScheduler.endpoint",
        "remove one",
    ),
    (
        "Nova",
        {"scheduler": {"externalScheduler": {"endpoint": "cortex:8080"}}},
        "externalScheduler.endpoint",
        "https?://",
    ),
    ("Nova", {"scheduler": {"externalScheduler": {"timeout": "5"}}}, "externalScheduler.timeout", "(s|m)"),
    ("Cortex", {"datasources": {"nova": {"enabled": True}}}, "spec.datasources.nova.endpoint", "set endpoint"),
    ("Cortex", {"dependsOn": [{"kind": "Pod", "name": "a"}]}, "spec.dependsOn[0].kind", '"Nova"'),
    (
        "Placement",
        {"database": {"mariadbRef": {"name": "a"}, "secretRef": {"name": "b"}}},
        "spec.database.secretRef",
        "mariadbRef and secretRef exclude each other",
    ),
    ("Placement", {"database": {"host": "db"}}, "spec.database.host", "set secretRef"),
    (
        "Placement",
        {"database": {"secretRef": {"name": "b"}, "host": "a b"}},
        "spec.database.host",
        "neither a DNS name nor an address",
    ),
    ("Placement", {"database": {"secretRef": {}}}, "spec.database.secretRef.name", "Required value"),
    (
        "Cinder",
        {"messaging": {"rabbitmqRef": {"name": "a"}, "secretRef": {"name": "b"}}},
        "spec.messaging.secretRef",
        "rabbitmqRef and secretRef exclude each other",
    ),
    ("Cinder", {"messaging": {"hosts": ["a"]}}, "spec.messaging.hosts", "set secretRef"),
    (
        "Cinder",
        {"messaging": {"secretRef": {"name": "b"}, "hosts": ["amqp://a"]}},
        "spec.messaging.hosts[0]",
        "write host:port",
    ),
    (
        "Keystone",
        {"cache": {"memcachedRef": {"name": "a"}, "servers": ["a:11211"]}},
        "spec.cache.servers",
        "memcachedRef and servers exclude each other",
    ),
    (
        "Glance",
        {"keystone": {"keystoneRef": {"name": "a"}, "authUrl": "http://a", "appCredentialRef": {"name": "b"}}},
        "spec.keystone.authUrl",
        "keystoneRef and authUrl exclude each other",
    ),
    ("Glance", {"keystone": {"authUrl": "http://a"}}, "spec.keystone.appCredentialRef", "appCredentialRef.secretName"),
    (
        "Glance",
        {"keystone": {"authUrl": "keystone:5000", "appCredentialRef": {"name": "b"}}},
        "spec.keystone.authUrl",
        "such as https://",
    ),
    ("Glance", {"keystone": {"appCredentialRef": {"name": "b"}}}, "spec.keystone.appCredentialRef", "set authUrl"),
    (
        "Glance",
        {"keystone": {"authUrl": "http://a", "appCredentialRef": {"name": "b", "secretName": "b"}}},
        "spec.keystone.appCredentialRef.secretName",
        "set secretName only",
    ),
    ("Nova", {"dependsOn": [{"kind": "Keystones", "name": "a"}]}, "spec.dependsOn[0].kind", '"Keystone"'),
    ("Nova", {"dependsOn": [{"kind": "Keystone"}]}, "spec.dependsOn[0].name", "Required value"),
    (
        "Nova",
        {"dependsOn": [{"kind": "Keystone", "name": "a", "condition": "ready!"}]},
        "spec.dependsOn[0].condition",
        "should match",
    ),
    (
        "Nova",
        {"database": {"apiDatabase": "nova", "cellDatabase": "nova"}},
        "spec.database.cellDatabase",
        "choose another name",
    ),
    (
        "Nova",
        {"cells": [{"name": "a"}, {"name": "b", "computeRef": {"name": "a"}}]},
        "spec.cells",
        "two cells use the same computeRef",
    ),
    (
        "Nova",
        {"placementRef": {"name": "a"}, "serviceAuth": {"placementServiceUserRef": {"name": "b"}}},
        "spec.placementRef",
        "remove one of the two",
    ),
    (
        "Neutron",
        {"ovn": {"nbConnection": "tcp:ovn-nb:6641"}},
        "spec.ovn.sbConnection",
        "set nbConnection and sbConnection",
    ),
    (
        "Neutron",
        {"ovn": {"nbConnection": "ovn-nb:6641", "sbConnection": "tcp:ovn-sb:6642"}},
        "spec.ovn.nbConnection",
        "write tcp:host:port or ssl:host:port",
    ),
    (
        "Neutron",
        {"ovn": {"nbConnection": "tcp:nb:1", "sbConnection": "tcp:sb:2", "ovnNetworkRef": {"name": "ovn"}}},
        "spec.ovn.ovnNetworkRef",
        "ovnNetworkRef excludes clusterRef",
    ),
    (
        "Neutron",
        {"ovn": {"nbConnection": "ssl:nb:6641", "sbConnection": "tcp:sb:6642"}},
        "spec.ovn.tlsSecretRef",
        "set a Secret with tls.crt",
    ),
    ("Neutron", {"ml2": {"mechanismDrivers": ["linuxbridge"]}}, "spec.ml2.mechanismDrivers[0]", '"ovn", "logger"'),
    ("Cinder", {"backends": [{"name": "a"}]}, "spec.backends[0].driver", "either type (ceph, lvm, nfs) or driver"),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "lvm", "driver": "x.Y"}]},
        "spec.backends[0].driver",
        "set either type",
    ),
    ("Cinder", {"backends": [{"name": "a", "type": "nfs"}]}, "spec.backends[0].nfs", "type nfs needs shares"),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "nfs", "nfs": {"shares": ["/srv"]}}]},
        "spec.backends[0].nfs.shares[0]",
        "write server:/path",
    ),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "lvm", "replicas": 2}]},
        "spec.backends[0].replicas",
        "active/active",
    ),
    ("Cinder", {"backends": [{"name": "nova", "type": "ceph"}]}, "spec.backends[0].name", "choose another name"),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "lvm", "lvm": {"device": "/dev/vdb", "loopFile": {}}}]},
        "spec.backends[0].lvm.loopFile",
        "device and loopFile exclude each other",
    ),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "ceph", "rbd": {"cephClientRef": {"name": "x"}}}]},
        "spec.backends[0].rbd.cephClientRef",
        "set cephSecretRef to a copy",
    ),
    ("Cinder", {"backup": {"type": "s3"}}, "spec.backup.s3", "type s3 needs a bucket"),
    ("Cinder", {"backup": {"type": "nfs"}}, "spec.backup.share", "server:/path"),
    ("Cinder", {"purge": {"keep": "30"}}, "spec.purge.keep", "should match"),
    (CLOUD, {"cinder": {"backends": [{"name": "a"}]}}, "spec.cinder.backends[0].driver", "type (ceph, lvm, nfs)"),
    ("CinderQuota", {}, "spec.limits", "Required"),
    # Fields that had other names.
    ("Memcached", {"memoryMB": 64}, "spec.memoryMB", "memoryMB was renamed; write memory, such as 64Mi"),
    (CLOUD, {"memcached": {"memoryMB": 64}}, "spec.memcached.memoryMB", "write memory, such as 64Mi"),
    (CLOUD, {"ceph": {"osds": {"memoryMB": 512}}}, "spec.ceph.osds.memoryMB", "write memory, such as 512Mi"),
    ("Etcd", {"quotaMB": 512}, "spec.quotaMB", "write quota, such as 512Mi"),
    ("MariaDB", {"storageClass": "fast"}, "spec.storageClass", "write storageClassName"),
    ("Glance", {"storage": {"backend": "rbd"}}, "spec.storage.backend", "write storageType beside storage"),
    (CLOUD, {"mariadb": {"storageClass": "fast"}}, "spec.mariadb.storageClass", "write storageClassName"),
    (CLOUD, {"glance": {"storage": {"backend": "rbd"}}}, "spec.glance.storage.backend", "write storageType"),
    (CLOUD, {"cinder": {"backup": {"files": {"storageClass": "fast"}}}}, "files.storageClass", "storageClassName"),
    ("PKI", {"certificateMinutes": 600}, "spec.certificateMinutes", "write certificateLifetime, such as 365d"),
    ("PKI", {"overlap": "a week"}, "spec.overlap", "write one such as 90s, 24h or 7d"),
    *[
        ("PKI", {**OF_CERT_MANAGER, "certificateLifetime": life}, LIFETIME, "choose 1h or more")
        for life in ("30m", "0h30m", "0d0h59m59s", "3599s", "59m")
    ],
    ("Memcached", {"memory": "1Mi"}, "spec.memory", "choose 16Mi to 1Ti"),
    ("Memcached", {"memory": "much"}, "spec.memory", "should match"),
    ("MariaDB", {"replicas": 4}, "spec.replicas", "use 1, 3 or 5"),
    ("RabbitMQ", {"replicas": 2}, "spec.replicas", "use 1, 3 or 5"),
    ("Etcd", {"replicas": 2}, "spec.replicas", "use 1, 3 or 5"),
    ("Valkey", {"replicas": 3}, "spec.sentinel", "sentinel.enabled true"),
    ("Valkey", {"sentinel": {"enabled": True}}, "spec.sentinel", "use replicas 3"),
    (CLOUD, {"valkey": {"enabled": True, "replicas": 3}}, "spec.valkey.sentinel", "sentinel.enabled true"),
    ("Placement", {"api": {"autoscaling": {"maxReplicas": 3}}}, "spec.api.autoscaling", "set resources.requests.cpu"),
    ("Placement", {"api": {**SCALED, "replicas": 2}}, "spec.api.replicas", "remove replicas"),
    (
        "Nova",
        {"api": {**SCALED, "autoscaling": {"minReplicas": 3, "maxReplicas": 2}}},
        "spec.api.autoscaling.minReplicas",
        "raise maxReplicas",
    ),
    ("OVNNetwork", {"replicas": 2}, "spec.replicas", "use 1, 3 or 5"),
    ("OVNNetwork", {"externalBridge": {"address": "172.24.4.1"}}, "spec.externalBridge.address", "172.24.4.1/24"),
    (
        "OVNNetwork",
        {"externalBridge": {"address": "172.24.4.0/24"}},
        "spec.externalBridge.address",
        "address of a host",
    ),
    *(
        ("Octavia", {"amphora": {"managementCIDR": cidr}}, "spec.amphora.managementCIDR", fix)
        for cidr, fix in {
            "10.254.0.0": "not a network of IPv4",
            "10.254.0.0/33": "not a network of IPv4",
            "fd00::/64": "not a network of IPv4",
            "10.254.0.1/20": "first address",
        }.items()
    ),
    ("OVNNetwork", {"datapath": "dpdk"}, "spec.datapath", '"auto", "system", "netdev"'),
    (
        "OVNNetwork",
        {"tunnelInterface": "eth1", "externalBridge": {"interface": "eth1"}},
        "spec",
        "another interface than externalBridge.interface",
    ),
    ("OVNNetwork", {"externalBridge": {"name": "br-phy"}}, "spec", "must not be br-phy"),
    ("Neutron", {"mechanism": "linuxbridge"}, "spec.mechanism", '"ovn", "ovs"'),
    ("Neutron", {"ml2": {"typeDrivers": ["flat"], "tenantNetworkTypes": ["geneve"]}}, "spec.ml2", "in typeDrivers too"),
    ("Nova", {"cells": [{"name": "a"}, {"name": "a"}]}, "spec.cells[1]", "Duplicate"),
    ("Nova", {"cells": [{"name": "cell0"}]}, "spec.cells[0].name", "choose another name"),
    ("Nova", {"compute": {"groups": [GROUP, GROUP]}}, "spec.compute.groups[1]", "Duplicate"),
    ("Nova", {"compute": {"groups": [{**GROUP, "nodeSelector": {}}]}}, "groups[0].nodeSelector", "at least 1"),
    (CLOUD, {"nova": {"compute": {"groups": [{"nodeSelector": {"a": "b"}}]}}}, "groups[0].name", "Required"),
    ("Nova", {"compute": {"virtType": "xen"}}, "spec.compute.virtType", '"auto", "kvm", "qemu"'),
    ("Keystone", {"fernet": {"rotationSchedule": "0 0 * *"}}, "spec.fernet.rotationSchedule", "five cron fields"),
    ("Keystone", {"fernet": {"rotationSchedule": "99 0 * * *"}}, "spec.fernet.rotationSchedule", "five cron fields"),
    ("Keystone", {"fernet": {"rotationSchedule": ""}}, "spec.fernet.rotationSchedule", "five cron fields"),
    ("Keystone", {"region": "A", "bootstrap": {"region": "B"}}, "spec.region", "remove one of the two"),
    ("Keystone", {"region": "it's"}, "spec.region", "use letters, digits"),
    ("Keystone", {"region": "a/b"}, "spec.region", "use letters, digits"),
    (
        "Keystone",
        {"domains": [{"name": "DEFAULT", "ldap": DIRECTORY}]},
        "spec.domains[0].name",
        "choose another name",
    ),
    ("Keystone", {"domains": [{"name": "../a", "ldap": DIRECTORY}]}, "spec.domains[0].name", "should match"),
    (
        CLOUD,
        {"keystone": {"domains": [{"name": "a", "ldap": DIRECTORY}, {"name": "A", "ldap": DIRECTORY}]}},
        "spec.keystone.domains",
        "rename one",
    ),
    (
        "Keystone",
        {"domains": [{"name": "a", "ldap": {**DIRECTORY, "bindDN": "cn=a"}}]},
        "spec.domains[0].ldap.bindPasswordSecretRef",
        "or neither",
    ),
    (
        "Keystone",
        {"domains": [{"name": "a", "ldap": {**DIRECTORY, "url": "ldap.example.org"}}]},
        "spec.domains[0].ldap.url",
        "write one such as ldaps://",
    ),
    ("Keystone", {"image": "registry/name:"}, "spec.image", "write registry/name:tag"),
    ("Keystone", {"image": "https://registry/name"}, "spec.image", "write registry/name:tag"),
    ("Keystone", {"image": "name:tag:tag"}, "spec.image", "write registry/name:tag"),
    ("Keystone", {"api": {"image": "a//b"}}, "spec.api.image", "write registry/name:tag"),
    ("Nova", {"cells": [{"name": "messaging"}]}, "spec.cells[0].name", "choose another name"),
    ("Nova", {"cells": [{"name": "cell1-compute"}]}, "spec.cells[0].name", "choose another name"),
    (CLOUD, {"rabbitmq": {"replicas": 2}}, "spec.rabbitmq.replicas", "use 1, 3 or 5"),
    (CLOUD, {"ovn": {"replicas": 4}}, "spec.ovn.replicas", "use 1, 3 or 5"),
    (CLOUD, {"mariadb": {"storageSize": "1 GB"}}, "spec.mariadb.storageSize", "such as 10Gi"),
    (CLOUD, {"nova": {"image": "No"}}, "spec.nova.image", "write registry/name:tag"),
    (CLOUD, {"ovn": {"externalBridge": {"address": "300.0.0.1/24"}}}, "spec.ovn.externalBridge.address", "1/24"),
    (CLOUD, {"nova": {"resources": {"limits": {"cpu": "two"}}}}, "spec.nova.resources.limits.cpu", "should match"),
    ("Nova", {"resources": {"limits": {"cpu": "two"}}}, "spec.resources.limits.cpu", "500m"),
    ("Keystone", {"fernet": {"maxActiveKeys": 2}}, "spec.fernet.maxActiveKeys", "greater than or equal to 3"),
    ("Keystone", {"image": "Key Stone"}, "spec.image", "write registry/name:tag"),
    ("Keystone", {"resources": {"requests": {"memory": "1 GB"}}}, "spec.resources.requests.memory", "10Gi, 500m"),
    ("Keystone", {"replicas": -1}, "spec.replicas", "greater than or equal to 0"),
    ("Keystone", {"expose": {"type": "Route"}}, "spec.expose.type", '"ClusterIP", "NodePort", "LoadBalancer"'),
    ("Keystone", {"expose": {"type": "Ingress"}}, "spec.expose.host", "set host"),
    ("Keystone", {"expose": {"type": "Ingress", "host": "192.0.2.7"}}, "spec.expose.host", "not a DNS name"),
    ("Keystone", {"expose": {"type": "Ingress", "host": "Id.example.org"}}, "spec.expose.host", "in lower case"),
    ("Keystone", {"expose": {"type": "Gateway", "host": "a.b"}}, "spec.expose.gateway", "set gateway.parentRefs"),
    (
        "Keystone",
        {"expose": {"type": "Gateway", "host": "a.b", "gateway": {"parentRefs": []}}},
        "spec.expose.gateway.parentRefs",
        "at least 1 item",
    ),
    ("Keystone", {"expose": {"type": "NodePort", "port": 443}}, "spec.expose.port", "remove it"),
    (CLOUD, {"expose": {"type": "Ingress"}}, "spec.expose.domain", "set domain"),
    (CLOUD, {"expose": {"type": "Ingress", "domain": "a.b", "host": "c.d"}}, "spec.expose.host", "set domain instead"),
    ("MariaDB", {"networkPolicies": {"nodes": ["192.0.2.1"]}}, "spec.networkPolicies.nodes[0]", "not a CIDR"),
    ("Glance", {"storageType": "nfs"}, "spec.storageType", '"pvc", "ceph", "swift"'),
    ("Glance", {"storage": {"size": "1GB"}}, "spec.storage.size", "such as 10Gi"),
    ("Placement", {"database": {"database": "a-b"}}, "spec.database.database", "should match"),
    ("MariaDBDatabase", {}, "spec.database", "Required"),
    ("KeystoneUser", {"user": "nova"}, "spec.passwordSecretRef", "Required"),
]


@pytest.mark.parametrize(("kind", "spec", "field", "fix"), REFUSED, ids=[f"{kind}-{f}" for kind, _, f, _ in REFUSED])
def test_refused(rest: Rest, kind: str, spec: dict[str, Any], field: str, fix: str) -> None:
    status, answer = rest.create(manifest(kind, spec))
    assert status == 422, answer
    assert field in answer["message"]
    assert fix in answer["message"]


def test_a_field_that_does_not_exist_is_refused(rest: Rest) -> None:
    status, answer = rest.create(manifest("Keystone", {"fernet": {"schedule": "@daily"}}))
    assert status == 400
    assert 'unknown field "spec.fernet.schedule"' in answer["message"]


@pytest.mark.parametrize("name", ["no.dots", "9lives", "a" * 64])
def test_a_name_that_is_no_part_of_a_dns_name_is_refused(rest: Rest, name: str) -> None:
    status, answer = rest.create(manifest("Keystone", {}, name))
    assert status == 422
    assert "metadata.name" in answer["message"]


DATABASE = {"database": "nova", "user": "nova", "passwordSecretRef": {"name": "s"}}
KNOWN = {"authUrl": "https://keystone:5000/v3", "appCredentialRef": {"secretName": "s"}}
THEIRS = {"secretRef": {"name": "b"}}
CHANGED: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    (
        "Octavia",
        {"amphora": {"managementCIDR": "10.254.0.0/20"}},
        {"amphora": {"managementCIDR": "10.253.0.0/20"}},
        "spec.amphora.managementCIDR",
        "delete the subnet",
    ),
    (CLOUD, {"region": "A"}, {"region": "B"}, "spec.region", "create a new resource"),
    (CLOUD, {"mariadb": {"storageSize": "10Gi"}}, {"mariadb": {"storageSize": "9Gi"}}, "mariadb.storageSize", "shrink"),
    ("Keystone", {"region": "A"}, {"region": "B"}, "spec.region", "create a new resource"),
    (
        "Placement",
        {"database": {"database": "a"}},
        {"database": {"database": "b"}},
        "spec.database.database",
        "changed",
    ),
    ("MariaDB", {"storageSize": "2Gi"}, {"storageSize": "1500Mi"}, "spec.storageSize", "choose a larger one"),
    ("RabbitMQ", {"replicas": 3}, {"replicas": 1}, "spec.replicas", "keep the old number"),
    (CLOUD, {"rabbitmq": {"replicas": 5}}, {"rabbitmq": {"replicas": 3}}, "rabbitmq.replicas", "keep the old number"),
    ("Glance", {"storage": {"size": "2Ti"}}, {"storage": {"size": "1Ti"}}, "spec.storage.size", "keep the old size"),
    *[
        (
            "PKI",
            {**OF_CERT_MANAGER, "certificateLifetime": life},
            {"certificateLifetime": "30m"},
            LIFETIME,
            "1h or more",
        )
        for life in ("1h", "60m", "59m60s", "0d0h3600s", "0h999999s", "1d", "1d5m")
    ],
    ("PKI", {"certificateLifetime": "5m"}, OF_CERT_MANAGER, LIFETIME, "1h or more"),
    ("MariaDBDatabase", DATABASE, {"database": "other"}, "spec.database", "cannot be changed once set"),
    ("Placement", {}, {"database": {"database": "b"}}, "spec.database.database", "set or unset later"),
    ("Placement", {}, {"database": {"mariadbRef": {"name": "b"}}}, "spec.database.mariadbRef", "create a new"),
    ("Neutron", {}, {"messaging": THEIRS}, "spec.messaging.secretRef", "create a new"),
    (CLOUD, {}, {"rabbitmq": {"perService": True}}, "spec.rabbitmq.perService", "keep perService"),
    (
        CLOUD,
        {"rabbitmq": {"perService": True}},
        {"rabbitmq": {"perService": False}},
        "rabbitmq.perService",
        "keep perService",
    ),
    (
        "Neutron",
        {"messaging": {"notificationsRef": {"name": "a"}}},
        {"messaging": {"notificationsRef": {"name": "b"}}},
        "spec.messaging.notificationsRef",
        "unset notificationsRef first",
    ),
    ("Glance", {}, {"keystone": {"keystoneRef": {"name": "b"}}}, "spec.keystone.keystoneRef", "create a new"),
    ("Glance", {}, {"keystone": KNOWN}, "spec.keystone.keystoneRef", "create a new"),
    ("Glance", {"keystone": KNOWN}, {"keystone": dict.fromkeys(KNOWN)}, "spec.keystone.keystoneRef", "create a new"),
    ("Placement", {}, {"database": THEIRS}, "spec.database.mariadbRef", "create a new"),
    ("Placement", {"database": THEIRS}, {"database": {"secretRef": None}}, "spec.database.mariadbRef", "create a new"),
    ("Cinder", {"messaging": THEIRS}, {"messaging": {"secretRef": None}}, "spec.messaging.secretRef", "create a new"),
    (
        "Nova",
        {"database": {"apiDatabase": "a"}},
        {"database": {"apiDatabase": "b"}},
        "spec.database.apiDatabase",
        "changed",
    ),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "ceph"}]},
        {"backends": [{"name": "a", "type": "lvm"}]},
        "spec.backends[0].type",
        "set or unset later",
    ),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "lvm", "lvm": {"device": "/dev/vdb"}}]},
        {"backends": [{"name": "a", "type": "lvm", "lvm": {"device": "/dev/vdc"}}]},
        "spec.backends[0].lvm.device",
        "set or unset later",
    ),
    ("Glance", {}, {"storage": {"storageClassName": "fast"}}, "spec.storage.storageClassName", "create a new"),
    (C5C3_GLANCE, {}, {"storage": {"storageClass": "fast"}}, "spec.storage.storageClass", "create a new"),
    ("Glance", {}, {"storage": {"accessMode": "ReadWriteMany"}}, "spec.storage.accessMode", "create a new"),
    ("MariaDB", {}, {"storageClassName": "fast"}, "spec.storageClassName", "create a new"),
    ("Glance", {"storageType": "ceph"}, {"storageType": "pvc"}, "spec.storageType", "list the old and the new store"),
    ("Nova", {}, {"compute": {"instanceStoragePath": "/srv"}}, "spec.compute.instanceStoragePath", "create a new"),
    ("Nova", {}, {"cells": [{"name": "far"}, {"name": "cell1"}]}, "spec.cells", "keep it first"),
    (
        "Nova",
        {"cells": [{"name": "a"}]},
        {"cells": [{"name": "a", "database": {"mariadbRef": {"name": "b"}}}]},
        "spec.cells[0].database",
        "set or unset later",
    ),
    ("Keystone", {}, {"bootstrap": {"region": "B"}}, "spec.bootstrap.region", "set or unset later"),
    (
        C5C3_GLANCE,
        {"storage": {"backend": "rbd"}},
        {"storage": {"backend": "file"}},
        "spec.storage.backend",
        "list the old and the new store",
    ),
    ("Nova", {}, {"database": {"apiDatabase": "other"}}, "spec.database.apiDatabase", "set or unset later"),
    ("Nova", {"cells": [{"name": "a"}, {"name": "b"}]}, {"cells": [{"name": "a"}]}, "spec.cells", "cannot be removed"),
]


@pytest.mark.parametrize(
    ("kind", "spec", "change", "field", "fix"), CHANGED, ids=[f"{kind}-{f}" for kind, _, _, f, _ in CHANGED]
)
def test_an_immutable_field_is_refused_with_its_remedy(
    rest: Rest, kind: str, spec: dict[str, Any], change: dict[str, Any], field: str, fix: str
) -> None:
    live = manifest(kind, spec, f"changed-{digest([spec, change])}")
    status, answer = rest.create(live, dry=False)
    assert status == 201, answer.get("message")
    status, answer = rest.change(live, change)
    assert status == 422, answer
    assert field in answer["message"]
    assert fix in answer["message"]
    assert rest.change(live, spec)[0] == 200


GROWN = [
    ("MariaDB", {"storageSize": "2Gi"}, {"storageSize": "3000Mi"}),
    ("Keystone", {}, {"resources": {"requests": {"cpu": 2, "memory": "1Gi"}}}),
    ("Keystone", {}, {"fernet": {"rotationSchedule": "*/15 1-5,23 L 1,DEC MON-FRI"}}),
    ("Keystone", {}, {"image": "Registry.example:5000/team/key-stone_x:2025.1-A@sha256:" + "a" * 64}),
    ("Keystone", {"region": "North 2.a_b-c"}, {"image": "keystone"}),
    ("Nova", {}, {"cells": [{"name": "cell1"}, {"name": "far"}]}),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "ceph"}]},
        {"backends": [{"name": "a", "type": "ceph", "replicas": 2}]},
    ),
    ("Cinder", {"backends": [{"name": "a", "type": "ceph"}]}, {"backends": [{"name": "b", "type": "lvm"}]}),
    ("Neutron", {}, {"messaging": {"notificationsRef": {"name": "a"}}}),
    ("Neutron", {"messaging": {"notificationsRef": {"name": "a"}}}, {"messaging": {}}),
    ("Placement", {}, {"database": {"mariadbRef": {"name": "mariadb"}}}),
    ("Placement", {"database": {"mariadbRef": {"name": "mariadb"}}}, {"database": {"mariadbRef": None}}),
    (
        "Placement",
        {"database": {"secretRef": {"name": "a"}}, "keystone": KNOWN},
        {
            "database": {"secretRef": {"name": "b"}, "host": "db", "port": 3307},
            "keystone": {"authUrl": "https://other:5000", "appCredentialRef": {"name": "t", "secretName": None}},
        },
    ),
    (
        "Nova",
        {"cells": [{"name": "a", "messaging": {"secretRef": {"name": "s"}, "hosts": ["a:5672"]}}]},
        {"cells": [{"name": "a", "messaging": {"secretRef": {"name": "t"}, "hosts": ["a:5672", "b:5672"]}}]},
    ),
    ("Cinder", {"dependsOn": [{"kind": "Nova", "name": "a"}]}, {"dependsOn": []}),
    (CLOUD, {}, {"nova": {"cells": [{"name": "cell1"}]}, "neutron": {"ml2": {"typeDrivers": ["flat"]}}}),
]


@pytest.mark.parametrize(("kind", "spec", "change"), GROWN)
def test_a_growing_field_may_change(rest: Rest, kind: str, spec: dict[str, Any], change: dict[str, Any]) -> None:
    live = manifest(kind, spec, f"grown-{digest([spec, change])}")
    assert rest.create(live, dry=False)[0] == 201
    assert rest.change(live, change)[0] == 200


ASKED = {"remoteAccess"}
"""Objects that ask for one of their fields by a rule, and name it."""


def bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Every optional object spelled out, with nothing in it."""
    return {
        name: bare(field)
        for name, field in schema.get("properties", {}).items()
        if field.get("type") == "object" and "properties" in field and not field.get("required") and name not in ASKED
    }


WITHOUT_REQUIRED = [each for each in RESOURCES if not any(f.is_required() for f in each.spec.model_fields.values())]


@pytest.mark.parametrize("resource", WITHOUT_REQUIRED, ids=lambda resource: resource.handle)
def test_rules_bear_what_is_unset(rest: Rest, root: Path, resource: Any) -> None:
    definitions = [load(path)[0] for path in (root / "deploy").glob(f"crds*/{resource.plural}.yaml")]
    (definition,) = [each for each in definitions if each["metadata"]["name"] == resource.crd_name]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert not schema.get("required")
    status, answer = rest.create(manifest(resource.handle, bare(schema)))
    assert status == 201, answer.get("message")
