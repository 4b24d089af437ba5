"""A whole cloud whose servers other operators run: the ControlPlane of c5c3 as it is written for them, only smaller."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from keystoneauth1.exceptions import ClientException
from openstack.connection import Connection
from openstack.exceptions import SDKException
from rich.console import Console

from tools.cloud import proof, view
from tools.cloud.stopwatch import Stopwatch
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import Report
from ..on_tls.hops import asking
from ..waiting import until
from .asked import raised, ready

NAMESPACE = "openstack"
PLANE = "controlplanes.c5c3.io"
ROTATION = "credentialrotations.c5c3.io"
CREDENTIALS = "keystoneapplicationcredentials.openstack.k8s.io"
APIS = ("keystone", "glance", "placement", "neutron", "nova")
SERVERS = {
    "mariadbs.k8s.mariadb.com": "mariadb",
    "rabbitmqclusters.rabbitmq.com": "rabbitmq",
    "memcacheds.memcached.c5c3.io": "memcached",
}
"""What runs on the operators of others, by kind."""
ACCOUNTS = (
    *(f"{kind}.k8s.mariadb.com" for kind in ("databases", "users", "grants")),
    *(f"{kind}.rabbitmq.com" for kind in ("vhosts", "users", "permissions")),
)

KORC = {
    "domains": {"default"},
    "projects": {"admin", "service"},
    "users": {f"{name}-user" for name in (*APIS, "nova-compute") if name != "keystone"},
    "services": {f"{name}-catalog" for name in APIS},
}
"""What K-ORC keeps or is shown, by plural."""

_FORGOTTEN = '{"data": {"database": null}}'
"""A password that is not there is drawn anew."""


def plane(host: str) -> dict[str, Any]:
    """No provider is said: the operators are there, and `auto` takes them. Plain, so that the messaging topology
    operator is used, too; each API is exposed where this machine reaches it.
    """
    services: dict[str, Any] = {name: {"expose": {"type": "NodePort", "host": host}} for name in APIS}
    return {
        "apiVersion": "c5c3.io/v1alpha1",
        "kind": "ControlPlane",
        "metadata": {"name": "production", "namespace": NAMESPACE},
        "spec": {
            "infrastructure": {
                "mariadb": {"replicas": 1, "storageSize": "2Gi"},
                "rabbitmq": {"replicas": 1, "storageSize": "1Gi"},
                "memcached": {"replicas": 1, "memory": "64Mi"},
                "ovn": {"externalBridge": {"address": f"{proof.GATEWAY}/24"}},
            },
            "services": services,
            "korc": {"enabled": True, "bootstrapResources": ["domains", "projects"]},
            "global": {"region": "RegionOne", "tls": {"enabled": False}, "monitoring": {"enabled": True}},
        },
    }


@pytest.fixture(scope="module")
def cloud(cluster: Kubernetes, report: Report) -> Iterator[Kubernetes]:
    """The cloud, Ready."""
    with raised(cluster, NAMESPACE):
        cluster.apply(plane(cluster.address()))
        started = time.monotonic()
        until("the cloud to be Ready", lambda: view.ready(found(cluster, PLANE, "production")), 900, 2)
        report.add(providers_apply_to_ready_seconds=round(time.monotonic() - started, 1))
        yield cluster


def found(cluster: Kubernetes, kind: str, name: str) -> dict[str, Any]:
    return cluster.get(kind, name, "-n", NAMESPACE)


def test_servers_of_the_cloud_are_external(cloud: Kubernetes) -> None:
    for kind, name in SERVERS.items():
        assert ready(found(cloud, kind, name))
    own = [each["metadata"]["name"] for each in cloud.items("statefulsets.apps", "-n", NAMESPACE)]
    assert not {"mariadb-server", "memcached-server"} & set(own)


def test_accounts_of_the_cloud_are_made_by_external_operators(cloud: Kubernetes) -> None:
    for kind in ACCOUNTS:
        made = cloud.items(kind, "-n", NAMESPACE)
        assert made
        assert all(ready(each) for each in made)
    for kind in ("mariadbdatabases.openstack.k8s.io", "rabbitmqvhosts.openstack.k8s.io"):
        names = [each["metadata"]["name"] for each in cloud.items(kind, "-n", NAMESPACE)]
        # Those of the console proxy are of our kinds in any case (decision 0061).
        assert all(name.endswith("--console") for name in names), names


def korc(cluster: Kubernetes, plural: str) -> dict[str, dict[str, Any]]:
    """Resources of K-ORC by name."""
    made = cluster.items(f"{plural}.openstack.k-orc.cloud", "-n", NAMESPACE)
    return {each["metadata"]["name"]: each for each in made}


def test_catalog_of_the_cloud_is_kept_by_k_orc(cloud: Kubernetes) -> None:
    assert view.conditions(found(cloud, PLANE, "production"))["KORCReady"]["status"] == "True"
    for plural, names in KORC.items():
        made = korc(cloud, plural)
        assert set(made) == names
        assert all(ready(each) for each in made.values())
    identity: Any = proof.connect(cloud, NAMESPACE).identity
    services = {each.id: each.name for each in identity.services()}
    assert {each["status"]["id"]: each["spec"]["resource"]["name"] for each in korc(cloud, "services").values()} == (
        services
    )
    # What it has nothing for.
    endpoints = [(services[each.service_id], each.interface, each.region_id) for each in identity.endpoints()]
    assert sorted(endpoints) == sorted((name, face, "RegionOne") for name in APIS for face in ("internal", "public"))


def test_the_login_of_k_orc_is_replaced(cloud: Kubernetes) -> None:
    """The next test has K-ORC log in by the new one."""
    order = {
        "apiVersion": "c5c3.io/v1alpha1",
        "kind": "CredentialRotation",
        "metadata": {"name": "k-orc", "namespace": NAMESPACE},
        "spec": {"target": "adminApplicationCredential", "reMint": True},
    }
    cloud.apply(order)

    def done() -> bool:
        status = found(cloud, "credentialrotations.c5c3.io", "k-orc").get("status", {})
        return status.get("phase") == "Idle" and "lastRotation" in status

    until("another application credential to be in use, and no other", done, 180, 2)
    identity: Any = proof.connect(cloud, NAMESPACE).identity
    admin = next(identity.users(name="admin"))
    assert [each.name for each in identity.application_credentials(admin.id)] == ["openstack-operator_B"]


def test_a_resource_of_k_orcs_that_is_deleted_takes_nothing_with_it(cloud: Kubernetes) -> None:
    before = korc(cloud, "services")["placement-catalog"]
    cloud.kubectl("-n", NAMESPACE, "delete", "services.openstack.k-orc.cloud", "placement-catalog", "--timeout=60s")

    def back() -> bool:
        now = korc(cloud, "services").get("placement-catalog")
        return now is not None and now["metadata"]["uid"] != before["metadata"]["uid"] and ready(now)

    until("K-ORC to have it again", back, 120, 1)
    assert korc(cloud, "services")["placement-catalog"]["status"]["id"] == before["status"]["id"]


def test_access_rules_allow_a_credential_no_more(cloud: Kubernetes) -> None:
    """One of the administrator, who may do everything."""
    name, secret = "restricted", secrets.token_hex(16)
    rules = [
        {"service": "identity", "method": "GET", "path": "/v3/projects"},
        {"service": "image", "method": "GET", "path": "/v2/images"},
    ]
    metadata = {"name": name, "namespace": NAMESPACE}
    login = {"name": name, "key": "secret"}
    spec = {"credential": name, "passwordSecretRef": login, "accessRules": rules}
    cloud.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"secret": secret}},
        {
            "apiVersion": "openstack.k8s.io/v1alpha1",
            "kind": "KeystoneApplicationCredential",
            "metadata": metadata,
            "spec": spec,
        },
    )
    until("the credential to be in Keystone", lambda: ready(found(cloud, CREDENTIALS, name)), 120, 1)
    auth = {
        "auth_url": proof.connect(cloud, NAMESPACE).config.auth["auth_url"],
        "application_credential_name": name,
        "application_credential_secret": secret,
        "username": "admin",
        "user_domain_name": "Default",
    }
    session = Connection(auth_type="v3applicationcredential", auth=auth).session

    def status(service: str, path: str) -> int:
        at = {"service_type": service, "interface": "public"}
        return session.get(path, endpoint_filter=at, raise_exc=False).status_code

    # The catalog has the version of the Identity API in its URL, and none of the others'.
    assert (status("identity", "/projects"), status("image", "/v2/images")) == (200, 200)
    refused = [status("identity", "/users"), status("image", "/v2/schemas/image"), status("network", "/v2.0/networks")]
    assert set(refused) <= {401, 403}
    cloud.kubectl("-n", NAMESPACE, "delete", CREDENTIALS, name, "--timeout=60s")


def test_a_catalog_service_disabled_in_keystone_is_enabled_again(cloud: Kubernetes, report: Report) -> None:
    """K-ORC does not look by itself."""
    identity: Any = proof.connect(cloud, NAMESPACE).identity
    service = korc(cloud, "services")["glance-catalog"]["status"]["id"]
    identity.update_service(service, is_enabled=False)
    started = time.monotonic()
    until("Glance to be in the catalog", lambda: bool(identity.get_service(service).is_enabled), 300, 2)
    report.add(providers_drift_in_keystone_seconds=round(time.monotonic() - started, 1))


def test_a_server_answers_on_its_floating_ip(cloud: Kubernetes, report: Report) -> None:
    facts = proof.prove(cloud, NAMESPACE, Stopwatch(Console()))
    report.add(providers_proof=facts)
    assert facts["reply"]


def test_a_provider_is_not_changed_under_data(cloud: Kubernetes) -> None:
    def provided(value: str) -> None:
        patch = f'{{"spec": {{"infrastructure": {{"mariadb": {{"provider": "{value}"}}}}}}}}'
        cloud.kubectl("-n", NAMESPACE, "patch", PLANE, "production", "--type=merge", "-p", patch)

    def told() -> str:
        return view.conditions(found(cloud, PLANE, "production")).get("MariaDBReady", {}).get("message", "")

    before = found(cloud, "mariadbs.k8s.mariadb.com", "mariadb")["metadata"]["uid"]
    provided("builtin")
    until("the refusal", lambda: "is run by mariadb-operator" in told(), 60, 1)
    assert found(cloud, "mariadbs.k8s.mariadb.com", "mariadb")["metadata"]["uid"] == before
    provided("auto")
    until("the cloud to be Ready again", lambda: view.ready(found(cloud, PLANE, "production")), 120, 1)


def test_a_new_password_is_used_by_all(cloud: Kubernetes) -> None:
    """The Secret of a service's passwords is drawn anew: the other operator is told, and its pods are."""
    before = found(cloud, "secret", "placement-db-login")["data"]["password"]
    cloud.kubectl("-n", NAMESPACE, "patch", "secret", "placement-credentials", "--type=merge", "-p", _FORGOTTEN)

    def placed() -> bool:
        changed = found(cloud, "secret", "placement-db-login")["data"]["password"] != before
        return changed and view.ready(found(cloud, "placements.placement.openstack.c5c3.io", "placement"))

    until("Placement to be Ready with it", placed, 180, 2)
    conn = proof.connect(cloud, NAMESPACE)
    until("Placement to answer", lambda: list(conn.placement.resource_providers()), 60, 1)


ROTATED = (("database", "Placement"), ("messaging", "Neutron"), ("serviceAccountPassword", "Nova"))
"""What is replaced, and whose it is."""


def test_credentials_are_replaced_and_nobody_is_refused(cloud: Kubernetes, report: Report) -> None:
    """Each by an account beside the one in use, which is gone in the end; on servers of others where they have it."""

    def accounts() -> dict[str, set[str]]:
        return {
            kind: {each["metadata"]["name"] for each in cloud.items(kind, "-n", NAMESPACE)}
            for kind in ("users.k8s.mariadb.com", "users.rabbitmq.com", "keystoneusers.openstack.k8s.io")
        }

    def rotated(name: str) -> bool:
        status = found(cloud, ROTATION, name).get("status", {})
        return bool(status.get("lastRotation")) and status["phase"] == "Idle"

    before, started = accounts(), time.monotonic()
    with asking(cloud) as told:
        for target, kind in ROTATED:
            spec = {"target": target, "serviceRef": {"kind": kind, "name": kind.lower()}, "reMint": True}
            _rotation(cloud, target.lower(), spec)
        for target, _ in ROTATED:
            until(f"{target} to be another one", lambda t=target: rotated(t.lower()), 600, 2)
    report.add(
        rotation_seconds=round(time.monotonic() - started, 1),
        rotation_answered_requests=told.answered,
        rotation_failed_requests=told.failed,
    )
    # Whoever runs the server takes a moment to remove an account that nobody uses any more.
    until(
        "no account beside those in use",
        lambda: all(len(accounts()[kind]) == len(before[kind]) for kind in before),
        60,
        2,
    )
    after = accounts()
    for kind, names in before.items():
        assert after[kind] != names, f"{kind}: the same accounts as before"
    assert told.failed == []
    # Nova's new account is used at once for what Neutron, Placement and Glance are asked.
    assert proof.prove(cloud, NAMESPACE, Stopwatch(Console()))["reply"]


def test_the_administrator_has_another_password(cloud: Kubernetes) -> None:
    before = found(cloud, "secret", "keystone-admin")["data"]["password"]
    _rotation(cloud, "admin", {"target": "admin", "reMint": True})
    until(
        "the Secret to have it", lambda: found(cloud, "secret", "keystone-admin")["data"]["password"] != before, 180, 1
    )
    # keystone-clouds, by which one logs in here, has it a moment later.
    until("it to be taken", lambda: _networks(cloud), 60, 1)


def _networks(cloud: Kubernetes) -> list[Any]:
    with suppress(ClientException, SDKException):
        return list(proof.connect(cloud, NAMESPACE).network.networks())
    return []


def _rotation(cluster: Kubernetes, name: str, spec: dict[str, Any]) -> None:
    metadata = {"name": name, "namespace": NAMESPACE}
    cluster.apply({"apiVersion": "c5c3.io/v1alpha1", "kind": "CredentialRotation", "metadata": metadata, "spec": spec})


def test_all_of_it_goes(cloud: Kubernetes) -> None:
    # Guests of a deleted cloud run on, and the next one would not start a nova-compute beside them.
    conn = proof.connect(cloud, NAMESPACE)
    for server in conn.compute.servers():
        conn.compute.delete_server(server)
        conn.compute.wait_for_delete(server, interval=0.5)
    cloud.kubectl("-n", NAMESPACE, "delete", PLANE, "production", "--timeout=300s", timeout=310)
    for kind in (*SERVERS, *ACCOUNTS, *(f"{plural}.openstack.k-orc.cloud" for plural in KORC)):
        until(f"{kind} to be gone", lambda k=kind: not cloud.items(k, "-n", NAMESPACE), 120, 1)
    # One that went too early would have been made anew by its operator.
    time.sleep(10)
    assert not cloud.items("rabbitmqclusters.rabbitmq.com", "-n", NAMESPACE)
