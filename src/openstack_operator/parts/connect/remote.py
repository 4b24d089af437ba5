"""Accounts and schemas of services on servers, made by our actuators or by the operator that runs the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import kube
from ...api import MariaDBRef, RabbitMQRef
from ...plan import Context, Kind, Object, SpecError, fitting
from ..brokers import VHOST, other_brokers, resource_name
from ..secrets.credentials import Credentials
from ..secrets.rotation import PASSWORD, Account

API = "openstack.k8s.io/v1alpha1"

CLEANUP = "openstack.k8s.io/cleanup"
"""Finalizer of resources with a counterpart outside Kubernetes; set at creation, which saves a write for each."""

MARIADB, RABBITMQ = "mariadbResource", "rabbitmqCluster"
"""Keys under which a server publishes the resource of another operator that creates accounts on it."""
_MARIADB, _RABBITMQ = "k8s.mariadb.com/v1alpha1", "rabbitmq.com/v1beta1"
MARIADB_KINDS = tuple(
    Kind(_MARIADB, kind, f"{kind.lower()}s", project="mariadb-operator") for kind in ("Database", "User", "Grant")
)
"""Kinds of mariadb-operator for a schema and its account."""
RABBITMQ_KINDS = tuple(
    Kind(_RABBITMQ, kind, plural, project="rabbitmq-operators")
    for kind, plural in (("Vhost", "vhosts"), ("User", "users"), ("Permission", "permissions"), ("Policy", "policies"))
)
"""Kinds of RabbitMQ's messaging topology operator for a virtual host and its account."""
WATCHED_BY_MARIADB = {"k8s.mariadb.com/watch": ""}
"""Label of Secrets whose changes mariadb-operator has to see before its resync in ten hours."""
_TOPOLOGY_VHOST = "Vhost.rabbitmq.com"
_WATCHED_BY_TOPOLOGY = {"rabbitmq.com/topology-operator": "true"}
_CONNECTIONS = 1024
"""Limit of one account, the same as the server's. mariadb-operator's default is 10, also for 0, no limit."""


def remote(ctx: Context[Any], kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    """Return a resource with a counterpart outside Kubernetes."""
    obj = kube.obj(ctx, kind, name, API, spec=spec)
    obj["metadata"]["finalizers"] = [CLEANUP]
    return obj


def schema(
    ctx: Context[Any], server: MariaDBRef, called: str, name: str, creds: Credentials, password: str
) -> tuple[Object, ...]:
    """Return `<owner>-<name>`: a schema with an account of the same name, or two while its password is replaced."""
    if resource := ctx.refs[server].published.get(MARIADB):
        # The server's own collation of this character set; see `my_cnf` of mariadb.
        database_fields = {"name": called, "characterSet": "utf8mb3", "collate": "utf8mb3_general_ci", **_SKIP_CLEANUP}
        at = {"mariaDbRef": {"name": resource}}
        base = kube.obj(ctx, "Database", ctx.name(name), _MARIADB, spec={**at, **database_fields})
        accounts = [_by_mariadb_operator(ctx, resource, called, name, creds, each) for each in creds.of(password)]
        return (base, *(obj for objects in accounts for obj in objects))
    return tuple(
        remote(
            ctx,
            "MariaDBDatabase",
            each.resource(ctx.name(name)),
            {
                "mariadbRef": {"name": server.name},
                "database": called,
                "user": each.called(called),
                "passwordSecretRef": creds.ref(each.key),
            },
        )
        for each in creds.of(password)
    )


_SKIP_CLEANUP = {"cleanupPolicy": "Skip"}


def _by_mariadb_operator(
    ctx: Context[Any], resource: str, called: str, name: str, creds: Credentials, account: Account
) -> tuple[Object, ...]:
    at, anywhere, user = {"mariaDbRef": {"name": resource}}, "%", account.called(called)
    login = _login(ctx, account.resource(ctx.name(name)), user, creds[account.key], WATCHED_BY_MARIADB)
    specs = {
        "User": {
            "name": user,
            "host": anywhere,
            "passwordSecretKeyRef": {"name": login["metadata"]["name"], "key": "password"},
            "maxUserConnections": _CONNECTIONS,
            # Grants are deleted with their account, and data stay.
            "cleanupPolicy": "Delete",
        },
        "Grant": {
            "username": user,
            "host": anywhere,
            "database": called,
            "table": "*",
            "privileges": ["ALL PRIVILEGES"],
        },
    }
    objects = [
        kube.obj(ctx, kind, account.resource(ctx.name(name)), _MARIADB, spec={**at, **_SKIP_CLEANUP, **spec})
        for kind, spec in specs.items()
    ]
    return (login, *(made_with(obj, creds, account) for obj in objects))


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
    """Return `<owner>-<name>`: a virtual host with a user of the same name, or two while its password is replaced;
    `limit` is a quantity, the maximum size of each of its queues.
    """
    old_brokers, cluster = other_brokers(ctx, called, broker.name), ctx.refs[broker].published.get(RABBITMQ)
    topology = ctx.children.get((_TOPOLOGY_VHOST, fitting(ctx.name(name))))
    cluster_name = topology["spec"]["rabbitmqClusterReference"]["name"] if topology else broker.name
    if cluster_name != broker.name or (cluster and old_brokers):
        text = f"the messaging topology operator manages accounts on RabbitMQ/{cluster_name}, which cannot move"
        raise SpecError("spec.messaging.rabbitmqRef", text)
    if cluster:
        return _by_topology_operator(ctx, cluster, called, name, creds, creds.of(password), limit)
    resource = resource_name(ctx, ctx.name(name), broker.name, called, called)
    # Messages to programs that have not moved yet wait in copies of their queues.
    queues = {"queuesOf": {"name": old_brokers[0]}} if old_brokers else {}
    return tuple(
        remote(
            ctx,
            VHOST,
            each.resource(resource),
            {
                "rabbitmqRef": {"name": broker.name},
                "vhost": called,
                "user": each.called(called),
                "passwordSecretRef": creds.ref(each.key),
                **({"queueLimit": limit} if limit else {}),
                **(queues if each.used else {}),
                # Of two users of one virtual host, only the one in use deletes it.
                **({} if each.used else {"deletionPolicy": "Retain"}),
            },
        )
        for each in creds.of(password)
    )


def _by_topology_operator(
    ctx: Context[Any],
    cluster: str,
    called: str,
    name: str,
    creds: Credentials,
    accounts: Sequence[Account],
    limit: str | None,
) -> tuple[Object, ...]:
    def topology_object(kind: str, resource: str, spec: Mapping[str, Any]) -> Object:
        return kube.obj(ctx, kind, resource, _RABBITMQ, spec={"rabbitmqClusterReference": {"name": cluster}, **spec})

    base = ctx.name(name)
    objects = [topology_object("Vhost", base, {"name": called, "defaultQueueType": "quorum"})]
    if limit:
        most = {"max-length-bytes": int(kube.amount(limit)), "overflow": "drop-head"}
        policy = {"name": "limit", "vhost": called, "pattern": ".*", "applyTo": "queues", "definition": most}
        objects.append(topology_object("Policy", base, policy))
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    for each in accounts:
        resource, user = each.resource(base), each.called(called)
        login = _login(ctx, resource, user, creds[each.key], _WATCHED_BY_TOPOLOGY)
        imported = {"importCredentialsSecret": {"name": login["metadata"]["name"]}}
        objects += [
            login,
            made_with(topology_object("User", resource, imported), creds, each),
            topology_object("Permission", resource, {"vhost": called, "user": user, "permissions": everything}),
        ]
    return tuple(objects)


def made_with(obj: Object, creds: Credentials, account: Account) -> Object:
    """Annotate an object with the name of its account's password, if its spec does not name it."""
    metadata = obj["metadata"]
    notes = {**metadata.get("annotations", {}), PASSWORD: f"{creds.secret}/{account.key}"}
    return {**obj, "metadata": {**metadata, "annotations": notes}}


def _login(ctx: Context[Any], name: str, user: str, password: str, labels: Mapping[str, str]) -> Object:
    """Return Secret `<name>-login` as other operators read it."""
    return labeled(kube.secret(ctx, f"{name}-login", {"username": user, "password": password}), labels)


def labeled(obj: Object, labels: Mapping[str, str]) -> Object:
    """Return the object with more labels."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}
