"""Fields of services as c5c3's manifests have them: each changes what it says, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from openstack_operator.plan import Object, SpecError, UnsupportedError
from tests.field_effects import Leaves, changes, check, resulting_leaves, row, version, with_field
from tests.fields import description

IMAGE = {"repository": "registry.example.org/own", "tag": "9.1"}
OWN = "registry.example.org/own:9.1"
DATABASE = {"secretRef": {"name": "db"}}
BUS = {"secretRef": {"name": "bus"}, "hosts": ["rabbitmq-0.rabbitmq:5672", "rabbitmq-1.rabbitmq"]}
IDENTITY = {"authUrl": "https://keystone:5000/v3", "appCredentialRef": {"secretName": "app"}}
AWAITED = [{"kind": "MariaDB", "name": "other", "condition": "ServerReady"}]
MANY = {"storage": {"accessMode": "ReadWriteMany"}}
BACKEND = {"backends": [{"name": "a", "type": "ceph"}]}
BASE: Mapping[str, Mapping[str, Any]] = {"Glance": MANY, "Cinder": BACKEND}

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "Keystone": ("Job/keystone-bootstrap", "Deployment/keystone-api"),
    "Glance": ("Job/glance-db-sync", "Job/glance-metadefs", "Deployment/glance-api"),
    "Placement": ("Job/placement-db-sync", "Deployment/placement-api"),
    "Neutron": ("Job/neutron-db-sync", "Deployment/neutron-api", "Deployment/neutron-ovn-maintenance-worker"),
    "Nova": (
        "Job/nova-db-sync",
        "Job/nova-cell1-setup",
        "Deployment/nova-api",
        "Deployment/nova-metadata",
        "Deployment/nova-cell1-novncproxy",
        "StatefulSet/nova-scheduler",
        "StatefulSet/nova-conductor",
        "StatefulSet/nova-cell1-conductor",
    ),
    "Cinder": (
        "Job/cinder-db-sync",
        "Deployment/cinder-api",
        "StatefulSet/cinder-scheduler",
        "StatefulSet/cinder-volume-a",
        "CronJob/cinder-purge",
    ),
}
"""What runs a service's own image; not what is on compute nodes, which the service's pod settings leave alone."""
CONF = {
    "Keystone": "keystone.conf [database]",
    "Glance": "glance-api.conf [database]",
    "Placement": "placement.conf [placement_database]",
    "Neutron": "neutron.conf [database]",
    "Cinder": "cinder.conf [database]",
}
FILE = {kind: text.partition(" ")[0] for kind, text in CONF.items()} | {"Nova": "nova.conf"}
MESSAGING, IN_A_CLOUD = ("Neutron", "Nova", "Cinder"), tuple(kind for kind in PROGRAMS if kind != "Keystone")


def several(kind: str, path: str, workload: str) -> ParameterSet:
    """Three pods: they keep apart from each other, leave nodes that are gone, and end one after the other."""
    parts = ("pod.affinity", "pod.tolerations", "pod.containers[main].lifecycle", "spec.podManagementPolicy")
    also = (*(f"{workload} {part}" for part in parts), f"PodDisruptionBudget/{workload.partition('/')[2]} ")
    return row(kind, path, 3, {f"{workload} spec.replicas": 3}, *also, base=BASE.get(kind))


def test_and_nothing_changes_by_itself() -> None:
    assert changes(resulting_leaves("Nova", {}), resulting_leaves("Nova", {})) == {}


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        several("Keystone", "spec.replicas", "Deployment/keystone-api"),
        several("Glance", "spec.replicas", "Deployment/glance-api"),
        several("Placement", "spec.replicas", "Deployment/placement-api"),
        *(several(kind, "spec.api.replicas", f"Deployment/{kind.lower()}-api") for kind in MESSAGING),
        several("Nova", "spec.scheduler.replicas", "StatefulSet/nova-scheduler"),
        several("Nova", "spec.conductor.replicas", "StatefulSet/nova-conductor"),
        several("Cinder", "spec.scheduler.replicas", "StatefulSet/cinder-scheduler"),
    ],
)
def test_replicas_become_pods(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            kind,
            "spec.image",
            IMAGE,
            {f"{program} pod.containers[main].image": OWN for program in programs}
            | {field: tag for program in programs for field, tag in version(program).items()},
            base=BASE.get(kind),
        )
        for kind, programs in PROGRAMS.items()
    ],
)
def test_pods_run_the_image_of_the_spec(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)


def login(kind: str) -> ParameterSet:
    """A server of others: an account of theirs takes the place of one that is made."""
    low, url = kind.lower(), re.compile(r"//%3Cdb\.username%3E:%3Cdb\.password%3E@mariadb\.openstack")
    expected: Leaves = {f"Secret/{low}-config {CONF[kind]} connection": url, f"MariaDBDatabase/{low}-db ": None}
    also = (f"MariaDBDatabase/{low}-db ", f"Secret/{low}-db ", f"Secret/{low}-credentials ", "published.", "uses ")
    more = {"Secret/cinder-a-config cinder.conf [database] connection": url} if kind == "Cinder" else {}
    return row(kind, "spec.database.secretRef.name", "db", expected | more, *also, base=BASE.get(kind))


def schema(kind: str) -> ParameterSet:
    url = re.compile("//own:drawn@mariadb.*/own[?]")
    expected: Leaves = {f"Secret/{kind.lower()}-config {CONF[kind]} connection": url}
    expected |= {f"MariaDBDatabase/{kind.lower()}-db spec.{field}": "own" for field in ("database", "user")}
    more = {"Secret/cinder-a-config cinder.conf [database] connection": url} if kind == "Cinder" else {}
    return row(kind, "spec.database.database", "own", expected | more, base=BASE.get(kind))


NOVA_TABLES = {
    "Secret/nova-config nova.conf [api_database] connection": "nova_api",
    "Secret/nova-config nova.conf [database] connection": "nova_cell0",
    "Secret/nova-cell1-setup cell.conf [database] connection": "nova",
    "Secret/nova-cell1-config nova.conf [database] connection": "nova",
}
CELL_IS_TOLD = "Job/nova-cell1-setup pod.containers[main].env[CELL_DIGEST]"
CONSOLE_READS = ("MariaDBDatabase/nova-cell1-db--console ", "Secret/nova-cell1--console-config nova.conf [database]")
"""The account of a cell's proxy of consoles, and where it logs in."""
CONSOLE_CALLS = (
    "RabbitMQVhost/nova-cell1--console ",
    "Secret/nova-cell1--console-config nova.conf [DEFAULT] transport_url",
    "Secret/nova-cell1--console-config nova.conf [oslo_messaging_rabbit]",
)


def nova_schema(path: str, name: str, *which: str) -> ParameterSet:
    """A schema by its new name, and the account that is called as it."""
    found = {"api": "[api_database]", "cell0": "-config nova.conf [database]", "cell1": "nova-cell1"}
    expected: Leaves = {}
    for cell in which:
        called = name if len(which) == 1 else f"{name}_{cell}"
        url = re.compile(f"//{called}:drawn@.*/{called}[?]")
        places = [each for each in NOVA_TABLES if found[cell] in each and (cell == "cell1") == ("cell1" in each)]
        expected |= dict.fromkeys(places, url)
        expected |= {f"MariaDBDatabase/nova-{cell}-db spec.{field}": called for field in ("database", "user")}
    also = (CELL_IS_TOLD, *CONSOLE_READS) if "cell1" in which else ("-",)
    return row("Nova", path, name, expected, *also)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *(login(kind) for kind in CONF),
        *(schema(kind) for kind in CONF),
        row(
            "Nova",
            "spec.database.secretRef.name",
            "db",
            {place: re.compile(f"//%3Cdb.username%3E:.*/{schema}[?]") for place, schema in NOVA_TABLES.items()},
            *(
                f"{sort}/nova-{name}-db "
                for sort in ("MariaDBDatabase", "Secret")
                for name in ("api", "cell0", "cell1")
            ),
            "Secret/nova-credentials ",
            CELL_IS_TOLD,
            *CONSOLE_READS,
            "published.databaseRotation",
            "uses MariaDB/mariadb",
        ),
        nova_schema("spec.database.database", "own", "api", "cell0", "cell1"),
        nova_schema("spec.database.apiDatabase", "above", "api"),
        nova_schema("spec.database.cellDatabase", "nowhere", "cell0"),
    ],
)
def test_database_fields_choose_the_database(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)


def broker(kind: str) -> ParameterSet:
    """Each member of a broker of others, by an account of theirs; nothing is made there."""
    low, account = kind.lower(), "%3Cbus.username%3E:%3Cbus.password%3E"
    url = f"rabbit://{account}@rabbitmq-0.rabbitmq:5672,{account}@rabbitmq-1.rabbitmq:5672"
    files = {"Nova": {"nova-cell1-setup": "cell.conf", "nova-cell1-config": "nova.conf"}}.get(kind, {})
    if kind == "Nova":
        files = {**files, "nova-cell1-compute-config": "nova.conf"}
    if kind == "Cinder":
        files = {"cinder-a-config": "cinder.conf"}
    files = {f"{low}-config": FILE[kind], **files}
    expected: Leaves = {
        f"Secret/{secret} {name} [DEFAULT] transport_url": url + ("/nova-cell1" if "cell1" in secret else "/%2F")
        for secret, name in files.items()
    }
    vhosts = ["messaging", *(["cell1"] if kind == "Nova" else [])]
    expected |= {f"RabbitMQVhost/{low}-{name} ": None for name in vhosts}
    also = (
        *(f"RabbitMQVhost/{low}-{name} " for name in vhosts),
        *(f"Secret/{secret} {name} [oslo_messaging_rabbit]" for secret, name in files.items()),
        f"Secret/{low}-credentials ",
        CELL_IS_TOLD,
        *CONSOLE_CALLS,
        "published.messagingRotation",
        "uses RabbitMQ/rabbitmq",
    )
    return row(kind, "spec.messaging", BUS, expected, *also, base=BASE.get(kind))


@pytest.mark.parametrize(("kind", "base", "path", "value", "expected", "also"), [broker(kind) for kind in MESSAGING])
def test_messaging_fields_choose_the_broker(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)


def identity(kind: str) -> ParameterSet:
    """A Keystone of others: logged in to by what the Secret says, and nothing is registered."""
    low = kind.lower()
    place = f"Secret/{low}-config {FILE[kind]} [keystone_authtoken]"
    expected: Leaves = {
        f"{place} auth_url": "https://keystone:5000/v3",
        f"{place} www_authenticate_uri": "https://keystone:5000/v3",
        f"{place} application_credential_id": "<app.application_credential_id>",
        f"{place} application_credential_secret": "<app.application_credential_secret>",
        f"KeystoneUser/{low}-user ": None,
        "EndpointReady": re.compile("has no administrator: create the catalog's entry"),
        "uses Keystone/keystone": None,
    }
    also = ("KeystoneUser/", "KeystoneService/", f"Secret/{low}-", "published.", "uses Memcached/memcached")
    return row(kind, "spec.keystone", IDENTITY, expected, *also, base=BASE.get(kind, {}))


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [identity(kind) for kind in ("Glance", "Placement", "Neutron")],
)
def test_keystone_fields_choose_the_keystone(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=pytest.mark.proves(kind, "spec.keystone.authUrl", "spec.keystone.appCredentialRef.secretName")
        )
        for kind in ("Nova", "Cinder")
    ],
)
def test_each_of_its_programs_logs_in_to_that_keystone(kind: str) -> None:
    """It calls others, too: no option names an account that is made, in any file."""
    found = resulting_leaves(kind, with_field(BASE.get(kind, {}), "spec.keystone", IDENTITY))
    types = {value for field, value in found.items() if field.endswith("] auth_type")}
    assert types == {"v3applicationcredential"}
    urls = {value for field, value in found.items() if field.endswith("] auth_url")}
    assert urls == {"https://keystone:5000/v3"}
    known = {value for field, value in found.items() if field.endswith("] application_credential_id")}
    assert known == {"<app.application_credential_id>"}
    assert not [field for field in found if field.startswith(("KeystoneUser/", "KeystoneService/", "uses Keystone"))]


WAITING = {
    "Glance": ("Deployment/glance-api",),
    "Placement": ("Deployment/placement-api",),
    "Neutron": (
        "Deployment/neutron-api",
        "Deployment/neutron-ovn-maintenance-worker",
        "DaemonSet/neutron-metadata-agent",
    ),
    "Nova": (*(name for name in PROGRAMS["Nova"] if not name.startswith("Job/")), "DaemonSet/nova-cell1-compute"),
    "Cinder": ("Deployment/cinder-api", "StatefulSet/cinder-scheduler", "StatefulSet/cinder-volume-a"),
}


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            kind,
            "spec.dependsOn",
            AWAITED,
            {
                "DependenciesReady": re.compile("^waiting for MariaDB/other to be ServerReady; there is none"),
                **{f"{name} waits for": ["Dependencies"] for name in programs},
            },
            base=BASE.get(kind),
        )
        for kind, programs in WAITING.items()
    ],
)
def test_dependency_fields_delay_pods(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)


ADMIN, BOOT = "Secret/keystone-admin", "Job/keystone-bootstrap pod.containers[main]"


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            "Keystone",
            "spec.cache.backend",
            "dogpile.cache.pymemcache",
            {"Secret/keystone-config keystone.conf [cache] backend": "dogpile.cache.pymemcache"},
        ),
        row(
            "Keystone",
            "spec.cache.servers",
            ["memcached-0.memcached:11211", "memcached-1.memcached"],
            {
                "Secret/keystone-config keystone.conf [cache] memcache_servers": (
                    "memcached-0.memcached:11211,memcached-1.memcached:11211"
                ),
                "uses Memcached/memcached": None,
            },
        ),
        row(
            "Keystone",
            "spec.fernet.maxActiveKeys",
            5,
            {"Secret/keystone-config keystone.conf [fernet_tokens] max_active_keys": "5"},
        ),
        row(
            "Keystone",
            "spec.bootstrap.adminUser",
            "root",
            {f"{ADMIN} username": "root", f"{BOOT}.env[OS_BOOTSTRAP_USERNAME].value": "root"},
            f"{BOOT}.env[ADMIN_DIGEST]",
            "Secret/keystone-clouds clouds.yaml",
        ),
        row(
            "Keystone",
            "spec.bootstrap.adminPasswordSecretRef",
            {"name": "chosen", "key": "word"},
            {f"{ADMIN} password": "<chosen.word>"},
            f"{BOOT}.env[ADMIN_DIGEST]",
            "Secret/keystone-clouds clouds.yaml",
            "published.adminRotation",
        ),
        row(
            "Keystone",
            "spec.bootstrap.region",
            "North",
            {
                f"{BOOT}.env[OS_BOOTSTRAP_REGION_ID].value": "North",
                "KeystoneService/keystone-catalog spec.region": "North",
                "published.region": "North",
                "Secret/keystone-clouds clouds.yaml": re.compile("region_name: North"),
            },
        ),
    ],
)
def test_keystone(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)


KEYRING = "[client.glance]\nkey = AQBvaWJlAAAAABAAaGVsbG9oZWxsb2hlbGxvIQ==\n"
COORDINATES = {"mon_host": "192.0.2.1", "fsid": "99999999-2222-3333-4444-555555555555"}


def secret(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


MINE = secret("mine", keyring=KEYRING, **COORDINATES)
OF_ROOK = secret("rook", images="aW1hZ2VzLWtleQ==", other="b3RoZXIta2V5LWE=", **COORDINATES)
IN_CEPH: dict[str, Any] = {"storage": {"backend": "rbd"}}
BY_SECRET: dict[str, Any] = {"storage": {"backend": "rbd", "rbd": {"cephSecretRef": {"name": "mine"}}}}
BY_CLIENT: dict[str, Any] = {
    "storage": {"backend": "rbd", "rbd": {"cephSecretRef": {"name": "rook"}, "cephClientRef": {"name": "images"}}}
}
STORE = "Secret/glance-config glance-api.conf [rbd]"


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            "Glance",
            "spec.storage.backend",
            "rbd",
            {
                "Secret/glance-config glance-api.conf [DEFAULT] enabled_backends": "rbd:rbd",
                "Secret/glance-config glance-api.conf [glance_store] default_backend": "rbd",
                f"{STORE} rbd_store_pool": "images",
                "PersistentVolumeClaim/glance-images ": None,
                "uses CephStorage/ceph": True,
                "CephConnected": "",
                "KeystoneService/glance-catalog spec.endpoints.internal": re.compile("^http://glance-internal-api[.]"),
                "published.internalURL": re.compile("^http://glance-internal-api[.]"),
            },
            "Secret/glance-config glance-api.conf",
            "PersistentVolumeClaim/glance-images ",
            "StorageReady",
            "Deployment/glance-api ",
            *(f"{kind}/glance-internal-api " for kind in ("Deployment", "Service", "PodDisruptionBudget")),
            "InternalAPI",
        ),
        row("Glance", "spec.storage.rbd.pool", "own", {f"{STORE} rbd_store_pool": "own"}, base=BY_SECRET),
        row(
            "Glance",
            "spec.storage.rbd.cephSecretRef.name",
            "mine",
            {
                "Secret/glance-ceph-rbd keyring": re.compile(r"\[client\.glance\]"),
                "Secret/glance-ceph-rbd ceph.conf [global] mon host": "192.0.2.1",
                "Deployment/glance-api pod.volumes[glance-ceph-rbd].secret.secretName": "glance-ceph-rbd",
                "uses CephStorage/ceph": None,
            },
            "Secret/glance-ceph-rbd ",
            "Deployment/glance-api pod.volumes",
            "Deployment/glance-api pod.containers[main].volumeMounts[/etc/ceph/",
            "Deployment/glance-internal-api pod.",
            base=IN_CEPH,
        ),
        row(
            "Glance",
            "spec.storage.rbd.cephClientRef.name",
            "other",
            {f"{STORE} rbd_store_user": "other", "Secret/glance-ceph-rbd keyring": re.compile(r"\[client\.other\]")},
            "Secret/glance-ceph-rbd key",
            "Deployment/glance-api pod.containers[main].volumeMounts[/etc/ceph/",
            "Deployment/glance-internal-api pod.",
            base=BY_CLIENT,
        ),
    ],
)
def test_glance(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also, MINE, OF_ROOK)


@pytest.mark.proves("Glance", "spec.storage.rbd.pool")
@pytest.mark.proves("Cinder", "spec.backends[].rbd.pool")
@pytest.mark.parametrize(
    ("kind", "base", "path"),
    [("Glance", IN_CEPH, "spec.storage.rbd.pool"), ("Cinder", BACKEND, "spec.backends[].rbd.pool")],
)
def test_a_cephstorage_says_itself_which_pool_it_has(kind: str, base: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError, match=r"rbd\.pool: CephStorage 'ceph' keeps .*; set that pool, or remove the field"):
        resulting_leaves(kind, with_field(base, path, "another"))


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row("Glance", "spec.storage.rbd.cephClientRef.namespace", "far", {}, base=BY_CLIENT, says="does nothing"),
        row(
            "Cinder",
            "spec.backends[].rbd.cephClientRef.namespace",
            "far",
            {},
            base={"backends": [{"name": "a", "type": "ceph", "rbd": BY_CLIENT["storage"]["rbd"]}]},
            says="does nothing",
        ),
    ],
)
def test_namespace_of_a_cephclient_has_no_effect(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    """What it made is copied here by its owner; `kubectl explain` says that the operator reads nothing there."""
    check(kind, base, path, value, expected, also, OF_ROOK)
    assert "The operator reads nothing there." in description(kind, path)


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"),
    [
        pytest.param(kind, path, value, message, marks=pytest.mark.proves(kind, path, says="not supported"), id=path)
        for kind, path, value, message in (("Neutron", "spec.ovn.enabled", False, "only OVN is supported; use true"),)
    ],
)
def test_an_unsupported_field_of_a_service_is_refused(kind: str, path: str, value: Any, message: str) -> None:
    """Which makes its Ready condition False, reason Unsupported, with this message."""
    with pytest.raises(UnsupportedError, match=f"^{re.escape(path)}: {message}"):
        resulting_leaves(kind, with_field({}, path, value))
    assert "a condition reports" in description(kind, path).lower()


FAR = {"name": "hypervisors", "namespace": "infrastructure"}
AT = {"nbConnection": "tcp:ovn-nb.example.org:6641", "sbConnection": "tcp:ovn-sb.example.org:6642"}
OVN, AGENT = "Secret/neutron-config neutron.conf [ovn]", "Secret/neutron-metadata-agent-config neutron.conf [ovn]"


def ml2(field: str, value: list[str]) -> ParameterSet:
    option = re.sub("([A-Z])", r"_\1", field).lower()
    expected = {f"Secret/neutron-config neutron.conf [ml2] {option}": ",".join(value)}
    return row("Neutron", f"spec.ml2.{field}", value, expected)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            "Neutron",
            "spec.ovn.clusterRef.name",
            "other",
            {
                f"{OVN} ovn_nb_connection": re.compile("^tcp:other-nb-0"),
                f"{OVN} ovn_sb_connection": re.compile("^tcp:other-sb-0"),
                f"{AGENT} ovn_sb_connection": re.compile("^tcp:other-sb-0"),
                "uses OVNNetwork/other": True,
                "uses OVNNetwork/ovn": None,
            },
        ),
        row(
            "Neutron",
            "spec.ovn.clusterRef",
            FAR,
            {
                f"{OVN} ovn_nb_connection": re.compile(r"hypervisors-nb-0\..*\.infrastructure\.svc"),
                f"{OVN} ovn_sb_connection": re.compile(r"hypervisors-sb-0\..*\.infrastructure\.svc"),
                f"{AGENT} ovn_sb_connection": re.compile(r"hypervisors-sb-0\..*\.infrastructure\.svc"),
                "uses OVNNetwork/hypervisors": True,
                "uses OVNNetwork/ovn": None,
            },
        ),
        row(
            "Neutron",
            "spec.ovn",
            {"clusterRef": FAR, **AT},
            {
                f"{OVN} ovn_nb_connection": AT["nbConnection"],
                f"{OVN} ovn_sb_connection": AT["sbConnection"],
                f"{AGENT} ovn_sb_connection": AT["sbConnection"],
                "uses OVNNetwork/ovn": None,
                "OVNConnected": re.compile(r"no connection to OVN yet; see spec\.ovn\.nbConnection"),
            },
        ),
        ml2("typeDrivers", ["geneve", "vlan"]),
        ml2("tenantNetworkTypes", ["vlan"]),
        ml2("mechanismDrivers", ["ovn", "logger"]),
        ml2("extensionDrivers", ["port_security", "qos"]),
    ],
)
def test_neutron(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)


@pytest.mark.proves("Neutron", "spec.ml2.mechanismDrivers[]", says="not supported")
def test_drivers_that_need_agents_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"spec\.ml2\.mechanismDrivers: sriovnicswitch is not supported"):
        resulting_leaves("Neutron", {"ml2": {"mechanismDrivers": ["ovn", "sriovnicswitch"]}})


ASKED = {"enabled": True, "endpoint": "https://cortex.example.org:8080"}


def called(service: str) -> ParameterSet:
    """A service Nova calls is found in the catalog; what the field changes is for whom Nova waits."""
    kind = service.capitalize()
    expected: Leaves = {f"uses {kind}/other": True}
    expected |= {} if service == "cinder" else {f"uses {kind}/{service}": None}
    also = [f"Secret/nova-{file} nova.conf [cinder]" for file in ("config", "cell1-config", "cell1-compute-config")]
    path = f"spec.serviceAuth.{service}ServiceUserRef.name"
    return row("Nova", path, "other", expected, *(also if service == "cinder" else []))


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            "Nova",
            "spec.scheduler.externalScheduler",
            ASKED,
            {
                "StatefulSet/nova-scheduler pod.volumes[config].secret.secretName": "nova-scheduler-config",
                "Secret/nova-scheduler-config nova.conf [external_scheduler] url": (
                    "https://cortex.example.org:8080/scheduler/nova/external"
                ),
                "Secret/nova-scheduler-config nova.conf [filter_scheduler] enabled_filters": re.compile(
                    ",ExternalSchedulerFilter$"
                ),
            },
            "Secret/nova-scheduler-config ",
        ),
        *(called(service) for service in ("placement", "neutron", "glance", "cinder")),
        row(
            "Nova",
            "spec.cells[].computeRef.name",
            "hypervisors",
            {
                "DaemonSet/nova-cell1-compute pod.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
                ".nodeSelectorTerms[0].matchExpressions[0].values": ["cell1", "hypervisors"]
            },
            base={"cells": [{"name": "cell1"}]},
        ),
        row(
            "Nova",
            "spec.cells[].name",
            "far",
            {
                "DaemonSet/nova-far-compute ": True,
                "DaemonSet/nova-cell1-compute ": None,
                "StatefulSet/nova-far-conductor ": True,
                "MariaDBDatabase/nova-far-db spec.database": "nova_far",
                "RabbitMQVhost/nova-far spec.vhost": "nova-far",
                "status.cells[far].name": "far",
            },
            *(
                f"{sort}/nova-{cell}-"
                for cell in ("far", "cell1")
                for sort in ("DaemonSet", "StatefulSet", "Deployment", "Service", "Secret", "Job", "MariaDBDatabase")
            ),
            "RabbitMQVhost/nova-",
            "Secret/nova-credentials ",
            "status.cells[",
            base={"cells": [{"name": "cell1"}]},
        ),
    ],
)
def test_nova(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)


VOLUME = "Secret/cinder-a-config cinder.conf [a]"
WITH_SECRET = {"backends": [{"name": "a", "type": "ceph", "rbd": {"cephSecretRef": {"name": "mine"}}}]}
WITH_CLIENT = {"backends": [{"name": "a", "type": "ceph", "rbd": BY_CLIENT["storage"]["rbd"]}]}
TOLD = ("published.cephKeys", "published.aSecret", f"{VOLUME} rbd_secret_uuid")
IN_POD = ("StatefulSet/cinder-volume-a pod.volumes", "StatefulSet/cinder-volume-a pod.containers[main].volumeMounts[")


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            "Cinder",
            "spec.backends[].name",
            "b",
            {
                "StatefulSet/cinder-volume-b ": True,
                "StatefulSet/cinder-volume-a ": None,
                "Secret/cinder-b-config cinder.conf [b] volume_backend_name": "b",
                "CinderVolumeType/cinder-b spec.name": "b",
                "Secret/cinder-config cinder.conf [DEFAULT] default_volume_type": "b",
                "status.backends[b].name": "b",
            },
            *(
                f"{sort}/cinder-{name}"
                for name in ("a", "b", "volume-a", "volume-b")
                for sort in ("StatefulSet", "Secret", "CinderBackend", "CinderVolumeType")
            ),
            "published.",
            "status.backends[a]",
            base=BACKEND,
        ),
        row(
            "Cinder",
            "spec.backends[].driver",
            "cinder.volume.drivers.rbd.RBDDriver",
            {
                f"{VOLUME} volume_driver": "cinder.volume.drivers.rbd.RBDDriver",
                f"{VOLUME} rbd_pool": "volumes",
                "CephConnected": "",
                "uses CephStorage/ceph": True,
            },
            f"{VOLUME} rbd_",
            "Secret/cinder-a-config cinder.conf [DEFAULT] cluster",
            "CinderBackend/cinder-a spec.cluster",
            *IN_POD,
            "published.",
            base={"backends": [{"name": "a", "driver": "example.Driver"}]},
        ),
        row("Cinder", "spec.backends[].rbd.pool", "own", {f"{VOLUME} rbd_pool": "own"}, base=WITH_SECRET),
        row(
            "Cinder",
            "spec.backends[].rbd.cephSecretRef.name",
            "mine",
            {
                "Secret/cinder-ceph-a keyring": re.compile(r"\[client\.glance\]"),
                "Secret/cinder-ceph-a ceph.conf [global] mon host": "192.0.2.1",
                "StatefulSet/cinder-volume-a pod.volumes[cinder-ceph-a].secret.secretName": "cinder-ceph-a",
                f"{VOLUME} rbd_user": "glance",
                "uses CephStorage/ceph": None,
            },
            "Secret/cinder-ceph-a ",
            *TOLD,
            *IN_POD,
            base=BACKEND,
        ),
        row(
            "Cinder",
            "spec.backends[].rbd.cephClientRef.name",
            "other",
            {f"{VOLUME} rbd_user": "other", "Secret/cinder-ceph-a keyring": re.compile(r"\[client\.other\]")},
            "Secret/cinder-ceph-a key",
            *TOLD,
            *IN_POD,
            base=WITH_CLIENT,
        ),
        row(
            "Cinder",
            "spec.defaultVolumeType",
            "fast",
            {"Secret/cinder-config cinder.conf [DEFAULT] default_volume_type": "fast"},
            base=BACKEND,
        ),
    ],
)
def test_cinder(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also, MINE, OF_ROOK)
