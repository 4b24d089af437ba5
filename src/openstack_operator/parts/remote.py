"""What services have on servers, made by our actuators or by the operator that runs the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import kube
from ..api import MariaDBRef, RabbitMQRef
from ..plan import Context, Object
from .credentials import Credentials

API = "openstack.k8s.io/v1alpha1"

CLEANUP = "openstack.k8s.io/cleanup"
"""Finalizer of resources with a counterpart outside Kubernetes; set at creation, which saves a write each."""

MARIADB, RABBITMQ = "mariadbResource", "rabbitmqCluster"
"""Under which name a server publishes the resource of another operator that has accounts on it made."""
_MARIADB, _RABBITMQ = "k8s.mariadb.com/v1alpha1", "rabbitmq.com/v1beta1"
WATCHED_BY_MARIADB = {"k8s.mariadb.com/watch": ""}
"""Label of Secrets whose changes mariadb-operator is to see within ten hours."""
_WATCHED_BY_TOPOLOGY = {"rabbitmq.com/topology-operator": "true"}
_CONNECTIONS = 1024
"""Of one account: those of the server. mariadb-operator's own limit is 10; none at all, its 0, turns into that."""


def remote(ctx: Context[Any], kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    """A resource with a counterpart outside Kubernetes."""
    wanted = kube.obj(ctx, kind, name, API, spec=spec)
    wanted["metadata"]["finalizers"] = [CLEANUP]
    return wanted


def schema(
    ctx: Context[Any], server: MariaDBRef, called: str, name: str, creds: Credentials, password: str
) -> tuple[Object, ...]:
    """`<owner>-<name>`: a schema with an account of the same name."""
    if resource := ctx.refs[server].published.get(MARIADB):
        return _by_mariadb_operator(ctx, resource, called, ctx.name(name), creds[password])
    spec = {
        "mariadbRef": {"name": server.name},
        "database": called,
        "user": called,
        "passwordSecretRef": creds.ref(password),
    }
    return (remote(ctx, "MariaDBDatabase", ctx.name(name), spec),)


def _by_mariadb_operator(ctx: Context[Any], resource: str, called: str, name: str, password: str) -> tuple[Object, ...]:
    at, anywhere = {"mariaDbRef": {"name": resource}}, "%"
    login = _login(ctx, name, called, password, WATCHED_BY_MARIADB)
    made = {
        # The server's own collation of this character set; see `my_cnf` of mariadb.
        "Database": {"name": called, "characterSet": "utf8mb3", "collate": "utf8mb3_general_ci"},
        "User": {
            "name": called,
            "host": anywhere,
            "passwordSecretKeyRef": {"name": login["metadata"]["name"], "key": "password"},
            "maxUserConnections": _CONNECTIONS,
        },
        "Grant": {
            "username": called,
            "host": anywhere,
            "database": called,
            "table": "*",
            "privileges": ["ALL PRIVILEGES"],
        },
    }
    # Grants go with their account, and data stay.
    policies = {"User": "Delete"}
    objects = [
        kube.obj(ctx, kind, name, _MARIADB, spec={**at, **spec, "cleanupPolicy": policies.get(kind, "Skip")})
        for kind, spec in made.items()
    ]
    return (login, *objects)


def vhost(
    ctx: Context[Any],
    broker: RabbitMQRef,
    called: str,
    name: str,
    creds: Credentials,
    password: str,
    *,
    limit: str | None = None,
) -> tuple[Object, ...]:
    """`<owner>-<name>`: a virtual host with a user of the same name; `limit` is a quantity, what each of its queues
    holds at most.
    """
    if cluster := ctx.refs[broker].published.get(RABBITMQ):
        return _by_topology_operator(ctx, cluster, called, ctx.name(name), creds[password], limit)
    spec = {
        "rabbitmqRef": {"name": broker.name},
        "vhost": called,
        "user": called,
        "passwordSecretRef": creds.ref(password),
        **({"queueLimit": limit} if limit else {}),
    }
    return (remote(ctx, "RabbitMQVhost", ctx.name(name), spec),)


def _by_topology_operator(
    ctx: Context[Any], cluster: str, called: str, name: str, password: str, limit: str | None
) -> tuple[Object, ...]:
    at = {"rabbitmqClusterReference": {"name": cluster}}
    login = _login(ctx, name, called, password, _WATCHED_BY_TOPOLOGY)
    made: dict[str, Any] = {
        "Vhost": {"name": called, "defaultQueueType": "quorum"},
        "User": {"importCredentialsSecret": {"name": login["metadata"]["name"]}},
        "Permission": {
            "vhost": called,
            "user": called,
            "permissions": {"configure": ".*", "write": ".*", "read": ".*"},
        },
    }
    if limit:
        most = {"max-length-bytes": int(kube.amount(limit)), "overflow": "drop-head"}
        made["Policy"] = {"name": "limit", "vhost": called, "pattern": ".*", "applyTo": "queues", "definition": most}
    return (login, *(kube.obj(ctx, kind, name, _RABBITMQ, spec={**at, **spec}) for kind, spec in made.items()))


def _login(ctx: Context[Any], name: str, user: str, password: str, labels: Mapping[str, str]) -> Object:
    """Secret `<name>-login` as other operators read it."""
    return labeled(kube.secret(ctx, f"{name}-login", {"username": user, "password": password}), labels)


def labeled(wanted: Object, labels: Mapping[str, str]) -> Object:
    """The same object with more labels."""
    metadata = wanted["metadata"]
    return {**wanted, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}
