"""Ceph's gateway for objects, as a server of Swift and of S3 that somebody else runs."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from openstack_operator.api import ALLOWED_HOSTS, host_of
from tools.localcluster.kubernetes import Kubernetes

from .ceph import administrator, command
from .volumes import NAMESPACE

NAME = "objects"
PORT = 7480
ADDRESS = f"http://{NAME}.{NAMESPACE}.svc.cluster.local:{PORT}"
S3_LOGIN = f"{NAME}-s3"
"""Secret with the keys `access` and `secret`."""


def gateway(cluster: Kubernetes, conn: Connection) -> None:
    """A gateway that knows users of Keystone (Swift) and one of its own (S3), and its entry in the catalog."""
    # It makes a dozen pools, which would be more than a few OSDs may have.
    command(cluster, "config", "set", "global", "osd_pool_default_pg_num", "1")
    command(cluster, "config", "set", "global", "osd_pool_default_pg_autoscale_mode", "off")
    command(cluster, "config", "set", "global", "osd_pool_default_size", "1")
    caps = ("mon", "allow rw", "mgr", "allow rw", "osd", "allow rwx")
    keyring = command(cluster, "auth", "get-or-create", "client.rgw", *caps)
    keys = {"access": secrets.token_hex(10), "secret": secrets.token_urlsafe(30)}
    files = {
        "ceph.conf": _conf(cluster, conn),
        "keyring": keyring,
        "password": conn.config.auth["password"],
        # It has to believe Keystone, which it asks about each token.
        "ca.crt": Path(conn.config.config["cacert"]).read_text(),
    }
    cluster.apply(
        _secret(NAME, files),
        _secret(S3_LOGIN, keys),
        _service(),
        _deployment(cluster.get("pod", "ceph-mon-0", "-n", NAMESPACE)),
    )
    cluster.kubectl("rollout", "status", f"deploy/{NAME}", "-n", NAMESPACE, "--timeout=180s")
    new = ("user", "create", "--uid=glance", "--display-name=glance")
    _admin(cluster, *new, f"--access-key={keys['access']}", f"--secret-key={keys['secret']}")
    keystone: Any = conn.identity
    entry = keystone.create_service(name=NAME, type="object-store")
    for interface in ("internal", "public"):
        keystone.create_endpoint(
            service_id=entry.id, interface=interface, url=f"{ADDRESS}/swift/v1", region_id=conn.config.region_name
        )


def objects(cluster: Kubernetes) -> int:
    """Number of objects in all buckets and containers."""
    found = json.loads(_admin(cluster, "bucket", "stats"))
    return sum(each["usage"].get("rgw.main", {}).get("num_objects", 0) for each in found)


def _admin(cluster: Kubernetes, *words: str) -> str:
    login = ("-c", "/etc/objects/ceph.conf", "-n", "client.rgw", "-k", "/etc/objects/keyring")
    return cluster.kubectl("exec", "-n", NAMESPACE, f"deploy/{NAME}", "--", "radosgw-admin", *login, *words)


def _conf(cluster: Kubernetes, conn: Connection) -> str:
    login, keystone = conn.config.auth, conn.session.get_endpoint(service_type="identity", interface="internal")
    options = {
        "rgw frontends": f"beast port={PORT}",
        "rgw keystone url": str(keystone).removesuffix("/v3"),
        "rgw keystone api version": 3,
        "rgw keystone admin user": login["username"],
        "rgw keystone admin password path": "/etc/objects/password",
        "rgw keystone admin domain": "Default",
        "rgw keystone admin project": login["project_name"],
        "rgw keystone accepted roles": "admin, member, service",
    }
    lines = [f"{name} = {value}" for name, value in options.items()]
    return "\n".join([administrator(cluster)["ceph.conf"], "[client.rgw]", *lines, ""])


def _secret(name: str, values: dict[str, str]) -> dict[str, Any]:
    metadata = {**_meta(name), "annotations": {ALLOWED_HOSTS: host_of(ADDRESS)}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def _service() -> dict[str, Any]:
    spec = {"selector": {"app": NAME}, "ports": [{"port": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(NAME), "spec": spec}


def _deployment(monitor: dict[str, Any]) -> dict[str, Any]:
    command = ["radosgw", "-f", "-n", "client.rgw", "-c", "/etc/objects/ceph.conf", "-k", "/etc/objects/keyring"]
    container = {
        "name": NAME,
        "image": monitor["spec"]["containers"][0]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "readinessProbe": {"httpGet": {"path": "/swift/healthcheck", "port": PORT}, "periodSeconds": 2},
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/objects"},
            {"name": "files", "mountPath": "/etc/ssl/certs/ca-certificates.crt", "subPath": "ca.crt"},
            {"name": "run", "mountPath": "/var/lib/ceph"},
        ],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "files", "secret": {"secretName": NAME}}, {"name": "run", "emptyDir": {}}],
    }
    labels = {"app": NAME}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(NAME), "spec": spec}


def _meta(name: str) -> dict[str, str]:
    return {"name": name, "namespace": NAMESPACE}
