"""What manifests for c5c3 need beside them, as docs/how-to/seeds.md has it in commands: objects to apply, and programs
to run in pods of servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from openstack_operator import pki

Object = dict[str, Any]

NAMESPACE, OVN_NAMESPACE = "openstack", "ovn-system"
API = "openstack.k8s.io/v1alpha1"
DOMAIN = "cluster.local"
KEYSTONE_URL = f"https://keystone.{NAMESPACE}.svc.{DOMAIN}:5000/v3"
ALLOWED_HOSTS = "openstack.k8s.io/allowed-hosts"
MEMBERS = 3
"""Number of members that the manifests name of a broker and a cache."""

OUR_IMAGES = {"ovs": "ovn"}
"""Our image (`python -m images list`) by the last part of a name in the manifests, where it has another one."""
CONTROL_PLANE = {"openstack-control-plane": "enabled"}
HYPERVISOR = {"node-role.kubernetes.io/hypervisor": ""}
COMPUTE = {"openstack-compute-node": "enabled", "openstack-cell": "hypervisor-cell1"}
"""Labels of nodes: for the services, for the switch of the OVNCluster, for servers of Nova's cell."""


class Command(NamedTuple):
    """A program to run in a pod, with what it reads: passwords are on no command line."""

    pod: str
    words: Sequence[str]
    stdin: str = ""


class Service(NamedTuple):
    """A service of the manifests: what it has in the servers."""

    name: str
    catalog: Mapping[str, tuple[str, str]] = {}
    """Internal and public URL of its entries in the catalog, by type."""
    uses_broker: bool = False


def _url(service: str, port: int, path: str = "") -> str:
    return f"https://{service}.{NAMESPACE}.svc.{DOMAIN}:{port}{path}"


def _entry(*types: str, service: str, port: int, path: str = "", internal: str = "") -> dict[str, tuple[str, str]]:
    urls = _url(internal or service, port, path), _url(service, port, path)
    return dict.fromkeys(types, urls)


SERVICES = (
    Service("keystone"),
    # Services clone images through an API of their own, which shows where in Ceph an image is.
    Service("glance", _entry("image", service="glance", port=9292, internal="glance-internal-api")),
    Service("placement", _entry("placement", service="placement", port=8778)),
    Service("neutron", _entry("network", service="neutron", port=9696), uses_broker=True),
    Service("nova", _entry("compute", service="nova", port=8774, path="/v2.1"), uses_broker=True),
    Service(
        "cinder",
        _entry("volumev3", "block-storage", service="cinder", port=8776, path="/v3/%(project_id)s"),
        uses_broker=True,
    ),
)
NOVA_SCHEMAS = ("nova_api", "nova_cell0", "nova")
NOVA_CELL = "nova-cell1"
"""Nova has one account for several schemas and two virtual hosts. No resource of ours makes an account of several
schemas, nor the second virtual host of an account.
"""


def namespaces() -> list[Object]:
    """Return the namespaces of the manifests, and those by which members of servers have short names."""
    names = (NAMESPACE, OVN_NAMESPACE, "rabbitmq", "memcached")
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


def servers(*, brokers: int = 1, caches: int = MEMBERS) -> list[Object]:
    """Return the PKI of the cloud, an SQL server, a broker and a cache, and the names of members in the manifests. With
    fewer members than these name, some names are of the same member.
    """
    return [
        _ours("PKI", "internal", {}),
        _ours("MariaDB", "mariadb", {}),
        _ours("RabbitMQ", "rabbitmq", {"replicas": brokers}),
        _ours("Memcached", "memcached", {"replicas": caches}),
        *_member_names("rabbitmq", "rabbitmq-members", brokers),
        *_member_names("memcached", "memcached", caches),
    ]


def _member_names(server: str, headless: str, members: int) -> list[Object]:
    """Return Service `<server>-<n>` in the namespace `<server>` for each member: `rabbitmq-0.rabbitmq` is what pods of
    every namespace call it.
    """
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{server}-{number}", "namespace": server},
            "spec": {
                "type": "ExternalName",
                "externalName": f"{server}-server-{number % members}.{headless}.{NAMESPACE}.svc.{DOMAIN}",
            },
        }
        for number in range(MEMBERS)
    ]


def logins(service: Service, password: str) -> list[Object]:
    """Return the Secrets with logins that the manifest of a service names; one password serves all of them."""
    name = service.name
    account = {"username": name, "password": password}
    secrets = [_secret(f"{name}-db-credentials", account)]
    if service.uses_broker:
        hosts = ",".join(f"rabbitmq-{number}.rabbitmq" for number in range(MEMBERS))
        secrets.append(_secret(f"{name}-rabbitmq-credentials", {**account, "vhost": name}, allowed_hosts=hosts))
    if name == "keystone":
        secrets.append(_secret("keystone-admin-credentials", {"password": password}))
    else:
        secrets.append(_secret(f"{name}-keystone-credentials", {**account, "auth_url": KEYSTONE_URL}))
    return secrets


def accounts(service: Service) -> list[Object]:
    """Return the resources that make these accounts in the servers; `nova_accounts` makes the rest of Nova's."""
    name = service.name
    made: list[Object] = []
    if name != "nova":
        login = {"passwordSecretRef": {"name": f"{name}-db-credentials"}}
        made.append(_ours("MariaDBDatabase", name, {"database": name, "user": name, **login}))
    if service.uses_broker:
        login = {"passwordSecretRef": {"name": f"{name}-rabbitmq-credentials"}}
        made.append(_ours("RabbitMQVhost", name, {"vhost": name, "user": name, **login}))
    if service.catalog:
        login = {"passwordSecretRef": {"name": f"{name}-keystone-credentials"}}
        made.append(_ours("KeystoneUser", name, {"user": name, **login}))
    for type_, (internal, public) in service.catalog.items():
        endpoints = {"internal": internal, "public": public}
        # The name of a service of one type, as its own operator would register it.
        made.append(_ours("KeystoneService", type_, {"type": type_, "name": name, "endpoints": endpoints}))
    return made


def nova_accounts(password: str) -> list[Command]:
    """Return the programs that make Nova's account in the SQL server, and its second virtual host in the broker, whose
    account exists; they may run again.
    """
    statements = [f"CREATE USER IF NOT EXISTS 'nova'@'%' IDENTIFIED BY '{password}';"]
    for schema in NOVA_SCHEMAS:
        statements.append(f"CREATE DATABASE IF NOT EXISTS {schema} CHARACTER SET utf8mb3;")
        statements.append(f"GRANT ALL PRIVILEGES ON {schema}.* TO 'nova'@'%';")
    client = 'MYSQL_PWD="$(cat "$MARIADB_ROOT_PASSWORD_FILE")" exec mariadb -uroot'
    ctl = ("rabbitmqctl", "--quiet")
    return [
        Command("mariadb-server-0", ("sh", "-c", client), "\n".join(statements)),
        Command("rabbitmq-server-0", (*ctl, "add_vhost", NOVA_CELL, "--default-queue-type", "quorum")),
        Command("rabbitmq-server-0", (*ctl, "set_permissions", "-p", NOVA_CELL, "nova", ".*", ".*", ".*")),
    ]


def ceph() -> list[Object]:
    """Return a small Ceph, whose clients `glance` and `cinder` are those of the CephClients in the manifests."""
    return [_ours("CephStorage", "ceph", {})]


CEPH_CLIENTS = {"glance": "imagesSecret", "cinder": "volumesSecret"}
"""Key under which the CephStorage publishes the Secret of a service's client, whose `key` is the client's."""


def ceph_login(service: str, key: str) -> Object:
    """Return the Secret with the key of the client of that name, as Rook writes it for a CephClient."""
    return _secret(f"{service}-ceph-credentials", {"userID": service, "userKey": key})


def administrator(service: str, secret: str) -> list[Object]:
    """Return an application credential of Keystone's administrator, and the Secret in which a manifest finds it:
    `tempest` or `cortex`. The authorities are to be added with `trusted`.
    """
    name = f"{service}-app-credential-secret"
    entries = {
        "application_credential_name": service,
        "application_credential_secret": secret,
        "username": "admin",
        "auth_url": KEYSTONE_URL,
    }
    login = {"passwordSecretRef": {"name": name, "key": "application_credential_secret"}}
    return [
        _secret(name, entries),
        _ours("KeystoneApplicationCredential", service, {"credential": service, **login}),
        _secret(f"{service}-db-credentials", {"username": service, "password": secret}),
    ]


def trusted(secret: Object, authorities: str) -> Object:
    """Return a Secret with the authorities by which clients verify the cloud, those of the Secret `internal-bundle`. A
    Tempest takes them from there alone.
    """
    return {**secret, "stringData": {**secret["stringData"], "ca.crt": authorities}}


def ovn(now: datetime) -> list[Object]:
    """Return the certificate of the OVNCluster `ovn`."""
    authority = pki.authority("a seed of a test", "authority of ovn", now)
    host = f"{OVN_NAMESPACE}.svc.{DOMAIN}"
    names = frozenset({f"ovn-relay.{host}", f"*.ovn-nb.{host}", f"*.ovn-sb.{host}"})
    request = pki.Request(common="ovn", names=names, life=timedelta(days=365), calls=True)
    pair = pki.issue(authority, request, "another seed", now)
    files = {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": authority.cert}
    return [_secret("ovn-tls-certs", files, namespace=OVN_NAMESPACE)]


def images(manifests: Iterable[Object]) -> dict[str, str]:
    """Return the images that manifests name, each with the one of ours that is to have that name on the nodes."""
    found: dict[str, str] = {}
    for manifest in manifests:
        spec: Mapping[str, Any] = manifest.get("spec") or {}
        for field in ("image", "ovnImage", "ovsImage"):
            if isinstance(image := spec.get(field), dict):
                program = str(image["repository"]).rpartition("/")[2]
                found[f"{image['repository']}:{image['tag']}"] = OUR_IMAGES.get(program, program)
    return found


def _ours(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": dict(spec)}


def _secret(name: str, data: Mapping[str, str], *, namespace: str = NAMESPACE, allowed_hosts: str = "") -> Object:
    notes = {"annotations": {ALLOWED_HOSTS: allowed_hosts}} if allowed_hosts else {}
    metadata = {"name": name, "namespace": namespace, **notes}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(data)}
