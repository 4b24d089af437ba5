"""No Secret goes to a server that a resource names, unless the Secret allows that server."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, cast, get_args

import pytest

from openstack_operator.actuators import VHOST
from openstack_operator.api import (
    ALLOWED_HOSTS,
    RABBITMQ,
    Destination,
    Model,
    Ref,
    SecretKeyRef,
    SecretRef,
    Template,
    allowed_hosts,
    destinations,
    host_of,
    is_allowed,
)
from openstack_operator.api.wiring import AppCredentialRef
from openstack_operator.parts.delegate import EXTERNAL
from openstack_operator.plan import ResolvedRef, State, Verdict
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.cache.entries import Cached, Meta, OwnerReference, Request, entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.permits import account_refusals, refusals
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import SECRET, Catalog, Kind
from openstack_operator.runtime.reconcile.gather import Gatherer
from openstack_operator.services.glance.model import GLANCE

pytestmark = pytest.mark.security

SERVICE, ACCOUNT = Kind.of(GLANCE), Kind.of(VHOST)

KINDS = {resource.handle.partition(".")[0]: resource for resource in reversed(RESOURCES)}


def secret(name: str, data: Mapping[str, str], allowed: str | None = None) -> Cached:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    meta = {"name": name, "namespace": "openstack", "uid": name, "resourceVersion": "2" if allowed else "1"}
    annotations = {} if allowed is None else {"annotations": {ALLOWED_HOSTS: allowed}}
    live = {"apiVersion": "v1", "kind": "Secret", "metadata": meta | annotations, "data": encoded}
    return entry(live, SECRET)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("db.example.org", "db.example.org"),
        ("DB.Example.org.:3306", "db.example.org"),
        ("https://keystone.example.org:5000/v3", "keystone.example.org"),
        ("https://[2001:db8::1]:5000/v3", "[2001:db8::1]"),
        ("192.0.2.1:11211", "192.0.2.1"),
        ("https://keystone.example.org?x=@evil.org", "keystone.example.org"),
        ("https://keystone.example.org#@evil.org", "keystone.example.org"),
        # What one reader takes for the host, another one does not.
        ("https://keystone.example.org@evil.org/", ""),
        ("https://evil.org\\@keystone.example.org/", ""),
        ("https://keystone.example.org\\.evil.org/", ""),
        ("https:///keystone.example.org", ""),
        ("//keystone.example.org", ""),
        ("keystone.example.org:x", ""),
        ("", ""),
    ],
)
def test_a_host_is_told_from_what_is_written_around_it(address: str, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize(
    ("host", "entries", "is_one"),
    [
        ("db.example.org", "other.org, DB.example.org.", True),
        ("db.example.org", "*.example.org", True),
        ("a.db.example.org", "*.example.org", True),
        ("db.example.org", "*", True),
        ("", "*", True),
        ("db.example.org", "", False),
        ("", "", False),
        ("", "db.example.org", False),
        ("", "*.", False),
        ("example.org", "*.example.org", False),
        ("evil-example.org", "*.example.org", False),
        ("db.example.org.evil.org", "db.example.org", False),
        ("db.example.org", "db.*", False),
    ],
)
def test_an_entry_stands_for_no_more_than_it_says(host: str, entries: str, is_one: bool) -> None:
    assert is_allowed(host, allowed_hosts({ALLOWED_HOSTS: entries})) is is_one


LOGIN = {"secretRef": {"name": "s"}}
SENT: list[tuple[str, dict[str, Any], list[Destination]]] = [
    (
        "OpenStackBackupSchedule",
        {
            "schedule": "0 1 * * *",
            "repository": {
                "s3": {
                    "endpoint": "https://s3.org",
                    "bucket": "own",
                    "accessKeyRef": {"name": "a"},
                    "secretKeyRef": {"name": "s"},
                },
                "passwordRef": {"name": "p"},
            },
            "retention": {"daily": 7, "accessKeyRef": {"name": "ra"}, "secretKeyRef": {"name": "rs"}},
        },
        [
            Destination("spec.retention.accessKeyRef", "ra", ("https://s3.org",)),
            Destination("spec.retention.secretKeyRef", "rs", ("https://s3.org",)),
            Destination("spec.repository.s3.accessKeyRef", "a", ("https://s3.org",)),
            Destination("spec.repository.s3.secretKeyRef", "s", ("https://s3.org",)),
        ],
    ),
    (
        "OpenStackBackup",
        {
            "repository": {
                "s3": {
                    "endpoint": "https://s3.org",
                    "bucket": "own",
                    "accessKeyRef": {"name": "a"},
                    "secretKeyRef": {"name": "s"},
                },
                "passwordRef": {"name": "p"},
            }
        },
        [
            Destination("spec.repository.s3.accessKeyRef", "a", ("https://s3.org",)),
            Destination("spec.repository.s3.secretKeyRef", "s", ("https://s3.org",)),
        ],
    ),
    *(
        (
            kind,
            {"provider": "external", "external": {"host": "a.org", "secretRef": {"name": "s"}}},
            [Destination("spec.external.secretRef", "s", ("a.org",))],
        )
        for kind in ("MariaDB", "Valkey")
    ),
    (
        "RabbitMQ",
        {"provider": "external", "external": {"host": "a.org", "managementURL": "https://b.org", **LOGIN}},
        [Destination("spec.external.secretRef", "s", ("a.org", "https://b.org"))],
    ),
    (
        "Placement",
        {
            "database": {"host": "a.org", **LOGIN},
            "keystone": {"authUrl": "https://b.org/v3", "appCredentialRef": {"secretName": "t"}},
        },
        [
            Destination("spec.database.secretRef", "s", ("a.org",)),
            Destination("spec.keystone.appCredentialRef.secretName", "t", ("https://b.org/v3",)),
        ],
    ),
    ("Placement", {"database": LOGIN}, []),
    (
        "Nova",
        {"cells": [{"name": "a", "database": {"host": "a.org", **LOGIN}, "messaging": {"hosts": ["b:1"], **LOGIN}}]},
        [
            Destination("spec.cells[0].database.secretRef", "s", ("a.org",)),
            Destination("spec.cells[0].messaging.secretRef", "s", ("b:1",)),
        ],
    ),
    (
        "Glance",
        {
            "storage": {
                "backends": [
                    {
                        "name": "a",
                        "type": "s3",
                        "s3": {
                            "url": "https://a.org",
                            "accessKeyRef": {"name": "s"},
                            "secretKeyRef": {"name": "t"},
                        },
                    },
                    {
                        "name": "b",
                        "type": "swift",
                        "swift": {"authUrl": "https://b.org/v3", "user": "u", "passwordRef": {"name": "p"}},
                    },
                ]
            }
        },
        [
            Destination("spec.storage.backends[0].s3.accessKeyRef", "s", ("https://a.org",)),
            Destination("spec.storage.backends[0].s3.secretKeyRef", "t", ("https://a.org",)),
            Destination("spec.storage.backends[1].swift.passwordRef", "p", ("https://b.org/v3",)),
        ],
    ),
    (
        "Glance",
        {
            "keystone": {"authUrl": "https://a.org/v3", "appCredentialRef": {"secretName": "s"}},
            "storage": {"swift": {"user": "u", "passwordRef": {"name": "p"}}},
        },
        [
            Destination("spec.keystone.appCredentialRef.secretName", "s", ("https://a.org/v3",)),
            Destination("spec.storage.swift.passwordRef", "p", ("https://a.org/v3",)),
        ],
    ),
    (
        "Barbican",
        {
            "vault": {
                "url": "https://a.org:8200",
                "roleIdRef": {"name": "r", "key": "role"},
                "secretIdRef": {"name": "s", "key": "secret"},
            }
        },
        [
            Destination("spec.vault.roleIdRef", "r", ("https://a.org:8200",)),
            Destination("spec.vault.secretIdRef", "s", ("https://a.org:8200",)),
        ],
    ),
    (
        "Cinder",
        {
            "backends": [
                {
                    "name": "a",
                    "driver": "x.Y",
                    "options": {"san_ip": "192.0.2.1,192.0.2.2", "volume_backend": "z", "api_url": "https://b.org"},
                    "secretOptions": {"san_password": {"name": "s"}},
                },
                {"name": "b", "driver": "x.Y", "secretOptions": {"san_password": {"name": "t"}}},
            ],
            "backup": {
                "type": "s3",
                "s3": {
                    "endpoint": "https://c.org",
                    "accessKeyRef": {"name": "u"},
                    "secretKeyRef": {"name": "u", "key": "secret"},
                },
            },
        },
        [
            Destination(
                "spec.backends[0].secretOptions.san_password", "s", ("192.0.2.1", "192.0.2.2", "https://b.org")
            ),
            Destination("spec.backends[1].secretOptions.san_password", "t", ("",)),
            Destination("spec.backup.s3.accessKeyRef", "u", ("https://c.org",)),
            Destination("spec.backup.s3.secretKeyRef", "u", ("https://c.org",)),
        ],
    ),
    (
        "Keystone",
        {
            "federation": {
                "enabled": True,
                "identityProviders": [
                    {
                        "name": "sso",
                        "protocol": "openid",
                        "mapping": [{"local": [], "remote": []}],
                        "openid": {
                            "issuer": "https://a.org",
                            "metadataURL": "https://b.org/m",
                            "clientID": "c",
                            "clientSecretRef": {"name": "s"},
                            "bearerTokens": {"introspectionURL": "https://c.org/i"},
                        },
                    }
                ],
            }
        },
        [
            Destination(
                "spec.federation.identityProviders[0].openid.clientSecretRef",
                "s",
                ("https://b.org/m", "https://c.org/i"),
            )
        ],
    ),
    (
        "Tempest",
        {"keystone": {"authUrl": "https://a.org", "appCredentialRef": {"name": "s"}}},
        [Destination("spec.keystone.appCredentialRef", "s", ("https://a.org",))],
    ),
    (
        "Cortex",
        {"keystone": {"authUrl": "https://a.org", "appCredentialRef": {"name": "s"}}},
        [Destination("spec.keystone.appCredentialRef", "s", ("https://a.org",))],
    ),
]


@pytest.mark.parametrize(("kind", "spec", "sent"), SENT)
def test_a_spec_says_where_its_secrets_go(kind: str, spec: dict[str, Any], sent: list[Destination]) -> None:
    assert sorted(destinations(KINDS[kind].spec.model_validate(spec))) == sorted(sent)


STAY = {
    "Bootstrap": "of a Keystone that the operator runs",
    "CephSource": "the Secret names the monitors",
    "CertificateSource": "private keys are sent to nobody",
    "ClusterTLS": "private keys are sent to nobody",
    "CredentialOwner": "of a Keystone that the operator runs",
    "CortexDatabase": "the Secret names the server",
    "ExternalScheduler": "authorities are no secret",
    "External": "the Secret names the monitors",
    "ExternalDatabases": "the Secret names the servers",
    "HypervisorClusterSpec": "the Secret names the servers",
    "IdentityProvider": "authorities are no secret",
    "KeystoneApplicationCredentialSpec": "of a Keystone that the operator runs",
    "KeystoneDomainSpec": "of a Keystone that the operator runs",
    "KeystoneUserSpec": "of a Keystone that the operator runs",
    "MariaDBDatabaseSpec": "permits.account_refusals",
    "OVN": "private keys are sent to nobody",
    "ExternalPdns4": "External says it",
    "HmacKey": "External says it",
    "OtherKeystone": "authorities are no secret",
    "PKISpec": "authorities are no secret",
    "RabbitMQVhostSpec": "permits.account_refusals",
    "Repository": "it encrypts, and is sent to nobody",
    "Retention": "OpenStackBackupScheduleSpec says it",
    "SAML2": "metadata and certificates are no secrets",
    "ServiceProvider": "private keys are sent to nobody",
    "Source": "to another Secret, without its annotations",
}
"""Models with a Secret that goes to no server of the spec's, and why."""


def models(model: type[Model], found: set[type[Model]]) -> set[type[Model]]:
    if model not in found and not issubclass(model, Template):
        found.add(model)
        for info in model.model_fields.values():
            for each in named(info.annotation):
                models(each, found)
    return found


def named(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [model for each in get_args(annotation) for model in named(each)]


def test_every_field_for_a_secret_is_one_or_the_other() -> None:
    """Whoever adds a field that names a Secret has to say whether it is sent to a server that users name."""
    secrets = SecretRef | SecretKeyRef | AppCredentialRef
    refs, silent = tuple(get_args(secrets)), Model.destinations
    holding = {
        model
        for resource in RESOURCES
        for model in models(resource.spec, set())
        for info in model.model_fields.values()
        # A reference may say itself where its Secret goes.
        if any(issubclass(each, refs) and each.destinations is silent for each in named(info.annotation))
    }
    assert {model.__name__ for model in holding if model.destinations is silent} == STAY.keys()


def mariadb(host: str) -> Model:
    external = {"host": host, "secretRef": {"name": "login"}}
    return KINDS["MariaDB"].spec.model_validate({"provider": "external", "external": external})


def test_a_secret_that_does_not_allow_a_server_is_not_sent_there() -> None:
    held = {"login": secret("login", {"username": "a", "password": "b"}, "db.example.org")}
    assert not list(refusals(mariadb("db.example.org"), held))
    (text,) = refusals(mariadb("evil.org"), held)
    assert text == (
        "spec.external.secretRef: Secret 'login' may not be sent to evil.org. An administrator "
        "who trusts the author of this resource and that server can add evil.org to the Secret's annotation "
        "openstack.k8s.io/allowed-hosts"
    )


def test_a_secret_without_the_annotation_goes_nowhere() -> None:
    held = {"login": secret("login", {"username": "a", "password": "b"})}
    (text,) = refusals(mariadb("evil.org"), held)
    assert text.endswith("add evil.org to the Secret's annotation openstack.k8s.io/allowed-hosts")


CLOUDS = json.dumps({"clouds": {"openstack": {"auth": {"auth_url": "https://keystone.example.org/v3"}}}})


@pytest.mark.parametrize(
    ("data", "host", "is_sent"),
    [
        ({"host": "db.example.org"}, "db.example.org", True),
        ({"host": "db.example.org"}, "evil.org", False),
        ({"clouds.yaml": CLOUDS}, "keystone.example.org", True),
        ({"clouds.yaml": CLOUDS}, "evil.org", False),
        ({"clouds.yaml": "clouds: [*a"}, "evil.org", False),
        ({"host": "https://x@evil.org"}, "evil.org", False),
    ],
)
def test_a_secret_that_names_its_server_allows_that(data: dict[str, str], host: str, is_sent: bool) -> None:
    assert is_sent == (not list(refusals(mariadb(host), {"login": secret("login", data)})))


def test_an_unknown_server_is_allowed_by_a_star_alone() -> None:
    spec = {"backends": [{"name": "b", "driver": "x.Y", "secretOptions": {"key": {"name": "login"}}}]}
    cinder = KINDS["Cinder"].spec.model_validate(spec)
    assert not list(refusals(cinder, {"login": secret("login", {"password": "x"}, "*")}))
    (text,) = refusals(cinder, {"login": secret("login", {"password": "x"}, "a.org")})
    assert "a server that the spec does not name literally" in text
    assert text.endswith("add * to the Secret's annotation openstack.k8s.io/allowed-hosts")


async def test_nothing_is_planned_with_a_secret_that_does_not_allow_it() -> None:
    world = World(cast("Client", None), Catalog([KINDS["MariaDB"]]), [], lambda change: None)
    meta = Meta("mariadb", namespace="openstack", uid="mariadb-1", resource_version="1")
    held, gatherer = Cached(meta, b'{"metadata": {"name": "mariadb"}}'), Gatherer(world)
    verdicts: list[Verdict | None] = []
    for allowed in (None, "evil.org"):
        world.stores[SECRET].put(secret("login", {"username": "a", "password": "b"}, allowed))
        gathered = await gatherer.gather(KINDS["MariaDB"], held, mariadb("evil.org"), admin=False)
        verdicts.append(gathered.missing)
    refused, accepted = verdicts
    assert refused
    assert (refused.state, refused.reason) == (State.FAILED, "InvalidSpec")
    assert "Secret 'login' may not be sent to evil.org" in refused.message
    assert accepted is None


class Scene:
    """A namespace with a broker of others, a Glance, and a user of the broker."""

    def __init__(self) -> None:
        self.world = World(cast("Client", None), Catalog([GLANCE, VHOST]), [], lambda change: None)
        self.world.plans.kinds = (SERVICE,)
        self.put(SERVICE, "glance")
        brokers: list[Ref] = [RABBITMQ]
        self.refs = dict.fromkeys(brokers, ResolvedRef({EXTERNAL: "mq.example.org"}))

    def put(self, kind: Kind, name: str, owner: str = "") -> Cached:
        by = OwnerReference(SERVICE.kind, owner, f"{owner}-1", SERVICE.api_version, controller=True)
        of = (by,) if owner else ()
        meta = Meta(name, namespace="openstack", uid=f"{name}-1", resource_version="1", owner_references=of)
        made = Cached(meta, json.dumps({"metadata": {"name": name}, "data": {}}).encode())
        self.world.stores[kind].put(made)
        return made

    def plans(self, *made: tuple[Kind, str]) -> None:
        """The Glance makes these."""
        objects = [
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}} for kind, name in made
        ]
        self.world.plans.settle(Request(SERVICE.handle, "openstack", "glance"), "glance-1", objects)

    def asked(self, held: Cached, password: Cached) -> tuple[list[str], list[str]]:
        name = password.meta.name
        spec = VHOST.spec.model_validate({"vhost": "a", "user": "a", "passwordSecretRef": {"name": name}})
        return account_refusals(self.world, ACCOUNT, held, spec, self.refs, {name: password})


def test_a_password_that_a_plan_makes_goes_with_the_account_it_makes() -> None:
    scene = Scene()
    account, password = scene.put(ACCOUNT, "account", "glance"), scene.put(SECRET, "password", "glance")
    assert scene.asked(account, password)[0] == []
    assert ("waiting for the first pass over its owner") in scene.asked(account, password)[1][0], (
        "the Glance was not planned yet"
    )
    scene.plans((ACCOUNT, "account"), (SECRET, "password"))
    assert scene.asked(account, password) == ([], [])


def test_a_users_account_gets_no_password_that_does_not_allow_it() -> None:
    """Whatever its owner references say."""
    scene = Scene()
    password = scene.put(SECRET, "password", "glance")
    scene.plans((SECRET, "password"))
    for owner in ("", "glance"):
        refused, waits_for = scene.asked(scene.put(ACCOUNT, "stolen", owner), password)
        assert refused
        assert refused[0].startswith("spec.passwordSecretRef: Secret 'password' may not be sent to mq.")
        assert not waits_for


def test_an_account_of_a_plans_has_no_password_of_others() -> None:
    scene = Scene()
    account, password = scene.put(ACCOUNT, "account", "glance"), scene.put(SECRET, "password")
    scene.plans((ACCOUNT, "account"))
    assert scene.asked(account, password)[0]
