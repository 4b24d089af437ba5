"""No login goes to servers of others as plain text, unless the operator's administrator allows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from openstack_operator.cli.main import main
from openstack_operator.plan import Permissions, State
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.cache.entries import Cached, Meta
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import SECRET, Catalog
from openstack_operator.runtime.plain_text import plain_text
from openstack_operator.runtime.reconcile.gather import Gatherer
from tests.unit.runtime.test_permits import secret

pytestmark = pytest.mark.security

KINDS = {resource.handle.partition(".")[0]: resource for resource in reversed(RESOURCES)}
LOGIN = {"username": "a", "password": "b"}


def faults(kind: str, spec: dict[str, Any], *allowed: str, **data: str) -> list[str]:
    model = KINDS[kind].spec.model_validate(spec)
    permissions = Permissions(plain_text_to=allowed)
    found = plain_text(model, {"s": {**LOGIN, **data}}, "openstack", "cluster.local", permissions)
    return [f"{path}: {text}" for path, text in found]


def keystone(url: str) -> dict[str, Any]:
    return {"keystone": {"authUrl": url, "appCredentialRef": {"secretName": "s"}}}


KEY = {"name": "s", "key": "k"}
S3 = {"accessKeyRef": KEY, "secretKeyRef": KEY}
HTTP: list[tuple[str, dict[str, Any], str]] = [
    ("Placement", keystone("http://a.org/v3"), "spec.keystone.appCredentialRef.secretName"),
    ("Tempest", {"keystone": {"authUrl": "http://a.org", "appCredentialRef": {"name": "s"}}}, "spec.keystone."),
    ("Cortex", {"keystone": {"authUrl": "http://a.org", "appCredentialRef": {"name": "s"}}}, "spec.keystone."),
    (
        "Glance",
        {"storage": {"backend": "s3", "s3": {"url": "http://a.org", "bucket": "images", **S3}}},
        "spec.storage.s3.accessKeyRef",
    ),
    (
        "Glance",
        {"storage": {"backend": "swift", "swift": {"authUrl": "http://a.org", "user": "u", "passwordRef": KEY}}},
        "spec.storage.swift.passwordRef",
    ),
    (
        "Cinder",
        {"backup": {"type": "s3", "s3": {"endpoint": "http://a.org", "bucket": "backups", **S3}}},
        "spec.backup.s3.accessKeyRef",
    ),
    ("Cinder", {"backup": {"type": "swift", "swift": {"url": "http://a.org/AUTH_"}}}, "spec.backup.swift.url"),
    (
        "Cinder",
        {
            "backends": [
                {"name": "b", "driver": "x.Y", "options": {"api_url": "http://a.org"}, "secretOptions": {"k": KEY}}
            ]
        },
        "spec.backends[0].secretOptions.k",
    ),
    (
        "RabbitMQ",
        {
            "provider": "external",
            "external": {"host": "mq", "managementURL": "http://a.org:15672", "secretRef": {"name": "s"}},
        },
        "spec.external.secretRef",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "path"), HTTP)
def test_no_login_goes_by_http_to_a_server_of_others(kind: str, spec: dict[str, Any], path: str) -> None:
    found = faults(kind, spec, **{"ca.crt": "PEM"})
    assert found
    assert found[0].startswith(path)
    assert found[0].endswith(
        "the login would go to a.org unencrypted; use https, or the operator's administrator may "
        "allow it with --allow-plain-text-to 'openstack=a.org'"
    )
    assert not faults(kind, spec, "openstack=a.org", **{"ca.crt": "PEM"})


@pytest.mark.parametrize(
    ("url", "is_free"),
    [
        ("https://a.org", True),
        ("http://keystone:5000/v3", True),
        ("http://keystone.openstack.svc:5000/v3", True),
        ("http://keystone.openstack.svc.cluster.local:5000/v3", True),
        ("http://127.0.0.1:5000/v3", True),
        ("HTTP://a.org", False),
        ("http://keystone.other.svc:5000/v3", False),
        ("http://keystone.other.svc.cluster.local:5000/v3", False),
        ("http://openstack.svc.example.org", False),
        ("http://keystone.openstack", False),
        ("http://10.0.0.1", False),
        ("http://134744072", False),
        ("http://0x08080808", False),
        ("http://[2001:db8::1]:5000/v3", False),
        ("http://keystone@a.org", False),
    ],
)
def test_http_is_for_services_of_the_namespace(url: str, is_free: bool) -> None:
    spec = {"backends": [{"name": "b", "driver": "x.Y", "options": {"api_url": url}, "secretOptions": {"k": KEY}}]}
    assert is_free == (not faults("Cinder", spec))


def external(host: str) -> dict[str, Any]:
    return {"provider": "external", "external": {"host": host, "secretRef": {"name": "s"}}}


BARE: list[tuple[str, dict[str, Any], str]] = [
    ("MariaDB", external("a.example.org"), "spec.external.secretRef"),
    ("Valkey", external("a.example.org"), "spec.external.secretRef"),
    ("Placement", {"database": {"host": "a.example.org", "secretRef": {"name": "s"}}}, "spec.database.secretRef"),
    (
        "Neutron",
        {"messaging": {"hosts": ["a.example.org:5672"], "secretRef": {"name": "s"}}},
        "spec.messaging.secretRef",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "path"), BARE)
def test_servers_outside_of_the_cluster_are_called_by_tls(kind: str, spec: dict[str, Any], path: str) -> None:
    (text,) = faults(kind, spec)
    assert text == (
        f"{path}: the login would go to a.example.org without TLS; add ca.crt to Secret 's', "
        "or the operator's administrator may allow it with --allow-plain-text-to 'openstack=a.example.org'"
    )
    assert not faults(kind, spec, **{"ca.crt": "PEM"})
    assert not faults(kind, spec, "*.example.org")
    assert faults(kind, spec, "other=*")


def test_a_server_that_the_secret_names_is_no_other() -> None:
    spec = {"database": {"secretRef": {"name": "s"}}}
    assert faults("Placement", spec, host="a.example.org")
    assert not faults("Placement", spec, host="a.example.org", **{"ca.crt": "PEM"})
    assert not faults("Placement", spec), "the Service mariadb"


@pytest.mark.parametrize(
    ("host", "is_free"),
    [
        ("mariadb", True),
        ("rabbitmq-0.rabbitmq", True),
        ("mariadb.other.svc", True),
        ("mariadb.other.svc.cluster.local", True),
        ("10.1.2.3", True),
        ("192.168.7.7", True),
        ("db.example.org", False),
        ("192.0.2.1", False),
        ("172.32.0.1", False),
        ("8.526344", False),
    ],
)
def test_networks_of_a_cluster_are_private(host: str, is_free: bool) -> None:
    assert is_free == (not faults("Placement", {"database": {"host": host, "secretRef": {"name": "s"}}}))


@pytest.mark.parametrize(
    ("entry", "is_allowed"),
    [
        ("192.0.2.0/24", True),
        ("openstack=192.0.2.1", True),
        ("*", True),
        ("192.0.3.0/24", False),
        ("other=192.0.2.0/24", False),
        ("2001:db8::/32", False),
    ],
)
def test_networks_are_allowed(entry: str, is_allowed: bool) -> None:
    assert is_allowed == (not faults("MariaDB", external("192.0.2.1"), entry))


async def test_nothing_is_planned_with_a_login_in_plain_text() -> None:
    spec = KINDS["MariaDB"].spec.model_validate(external("a.example.org"))
    meta = Meta("mariadb", namespace="openstack", uid="mariadb-1", resource_version="1")
    held = Cached(meta, b'{"metadata": {"name": "mariadb"}}')
    for permissions, is_refused in ((Permissions(), True), (Permissions(plain_text_to=("a.example.org",)), False)):
        world = World(cast("Client", None), Catalog([KINDS["MariaDB"]]), [], lambda change: None)
        world.stores[SECRET].put(secret("s", LOGIN, "*"))
        found = (await Gatherer(world, permissions=permissions).gather(KINDS["MariaDB"], held, spec)).missing
        assert is_refused == (found is not None)
        if found:
            assert (found.state, found.reason) == (State.FAILED, "InvalidSpec")
            assert "--allow-plain-text-to 'openstack=a.example.org'" in found.message


def test_validate_warns_of_plain_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "apiVersion: openstack.k8s.io/v1alpha1\nkind: Placement\nmetadata: {name: placement}\n"
        'spec: {keystone: {authUrl: "http://a.org/v3", appCredentialRef: {secretName: s}}}\n',
        encoding="utf-8",
    )
    assert main(["validate", "-f", str(file)]) == 0
    assert "--allow-plain-text-to 'openstack=a.org'" in capsys.readouterr().err
    assert main(["validate", "-f", str(file), "--allow-plain-text-to", "a.org"]) == 0
    assert "--allow-plain-text-to" not in capsys.readouterr().err
