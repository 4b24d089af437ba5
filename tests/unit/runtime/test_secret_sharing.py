"""No field reads a Secret that the operator keeps for another resource, unless that shares it."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast, get_args

import pytest
import yaml

import openstack_operator
from openstack_operator.api import Model, SecretKeyRef, SecretRef, Template, UsesEnvironment, secret_uses
from openstack_operator.api.wiring import AppCredentialRef
from openstack_operator.kube import INSTANCE, KIND, MANAGED_BY
from openstack_operator.plan import ALLOWED_RESOURCES, PAUSE, Service
from openstack_operator.registry import RESOURCES, SERVICES
from openstack_operator.runtime.cache.entries import Cached, Request, entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.secret_sharing import Findings, SecretSharing
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import SECRET, Catalog, Kind
from openstack_operator.runtime.reconcile.gather import Gatherer
from openstack_operator.runtime.reconcile.passes import Result
from openstack_operator.services.keystone.korc import CLOUDS

OWN = {resource.kind: resource for resource in reversed(RESOURCES)}
OURS = {"app.kubernetes.io/managed-by": MANAGED_BY}


class Scene:
    """A namespace, and what a resource in it may name."""

    def __init__(self) -> None:
        self.world = World(cast("Client", None), Catalog(list(RESOURCES)), [], lambda change: None)
        self.world.plans.kinds = tuple(Kind.of(service.resource) for service in SERVICES)
        self.sharing = SecretSharing(self.world, SERVICES)
        self.versions = count(1)

    def put(
        self,
        kind: Kind,
        name: str,
        *,
        spec: Mapping[str, Any] | None = None,
        data: Mapping[str, str] | None = None,
        is_ready: bool = False,
        **meta: Any,
    ) -> Cached:
        ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
        live = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": name,
                "namespace": "openstack",
                "uid": f"{kind.handle}/{name}",
                "resourceVersion": str(next(self.versions)),
                "generation": 1,
                **meta,
            },
            "spec": spec or {},
            "status": {"conditions": [ready] if is_ready else []},
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in (data or {}).items()},
        }
        cached = entry(live, kind)
        self.world.stores[kind].put(cached)
        return cached

    def resource(self, kind: str, name: str, owner: str = "", **changes: Any) -> Cached:
        return self.put(Kind.of(OWN[kind]), name, **(belongs(owner) if owner else {}), **changes)

    def secret(self, name: str, owner: str = "", **changes: Any) -> Cached:
        """A Secret of the operator's, which it keeps for the resource `Kind/name`."""
        made: dict[str, Any] = {"data": {"password": "x"}, **belongs(owner), **changes}
        return self.put(SECRET, name, **made)

    def plans(self, owner: str, *objects: tuple[str, str]) -> None:
        """That resource makes these objects."""
        kind, _, name = owner.partition("/")
        apis = {"Secret": "v1", **{each.kind: each.api_version for each in OWN.values()}}
        made = [{"apiVersion": apis[kind], "kind": kind, "metadata": {"name": each}} for kind, each in objects]
        handle = Kind.of(OWN[kind]).handle
        self.world.plans.settle(Request(handle, "openstack", name), f"{handle}/{name}", made)

    async def findings(self, kind: str, resource: Cached, spec: Mapping[str, Any]) -> Findings:
        stored = self.world.stores[SECRET]
        secrets = {each.meta.name: each for each in stored}
        parsed = OWN[kind].spec.model_validate(spec)
        return await self.sharing.examine(Kind.of(OWN[kind]), resource, parsed, secrets)

    async def refused(self, kind: str, spec: Mapping[str, Any], name: str = "mine") -> list[str]:
        """What a user hears who writes a resource of that kind."""
        findings = await self.findings(kind, self.resource(kind, name), spec)
        assert not findings.waiting
        return findings.refused


def belongs(owner: str) -> dict[str, Any]:
    """Metadata of what the operator makes for a resource."""
    if not owner:
        return {"labels": OURS}
    kind, _, name = owner.partition("/")
    resource = OWN[kind]
    by = {
        "apiVersion": resource.api_version,
        "kind": kind,
        "name": name,
        "uid": f"{Kind.of(resource).handle}/{name}",
        "controller": True,
    }
    labels = {**OURS, KIND: resource.role.lower(), INSTANCE: name}
    return {"labels": labels, "ownerReferences": [by]}


def retained(owner: str) -> dict[str, Any]:
    """Metadata of what outlives its resource."""
    return {**belongs(owner), "ownerReferences": []}


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    for owner in ("Glance/glance", "Keystone/keystone", "OVNNetwork/ovn"):
        scene.resource(*owner.split("/"))
    scene.secret("glance-credentials", "Glance/glance")
    return scene


STOLEN = {"name": "glance-credentials"}
APP = {"authUrl": "https://keystone.example.org/v3"}
PROVIDER = {"name": "sso", "protocol": "saml2", "mapping": [{"local": [], "remote": []}]}
SAML = {"entityID": "https://sso", "metadataURL": "https://sso"}
FILE = {**STOLEN, "key": "database"}
METADATA = {"entityID": "https://sso", "metadataSecretRef": FILE}
OPENID = {"issuer": "https://sso", "clientID": "a", "clientSecretRef": STOLEN}
VAULT = {"url": "https://vault", "roleIdRef": {"name": "vault"}, "secretIdRef": {"name": "vault"}}
PDNS = {"url": "https://a", "caSecretRef": {"name": "mine"}}
DIRECTORY = {"url": "ldaps://a", "userTreeDN": "ou=a", "bindDN": "cn=a"}
EXTERNAL = "spec.external.secretRef.name"
LOGIN_OF_BUCKET = {"accessKeyRef": {"name": "mine"}, "secretKeyRef": STOLEN}

ATTACKS: list[tuple[str, dict[str, Any], str]] = [
    ("Placement", {"database": {"secretRef": STOLEN}}, "spec.database.secretRef.name"),
    ("Placement", {"tls": {"secretRef": STOLEN}}, "spec.tls.secretRef.name"),
    (
        "Placement",
        {"keystone": {**APP, "appCredentialRef": {"secretName": "glance-credentials"}}},
        "spec.keystone.appCredentialRef.secretName",
    ),
    ("Nova", {"cells": [{"name": "a", "messaging": {"secretRef": STOLEN}}]}, "spec.cells[0].messaging.secretRef.name"),
    (
        "KeystoneApplicationCredential",
        {
            "credential": "a",
            "passwordSecretRef": {"name": "own", "key": "a"},
            "owner": {"user": "a", "passwordSecretRef": STOLEN | {"key": "password"}},
        },
        "spec.owner.passwordSecretRef.name",
    ),
    ("Neutron", {"ovn": {"tlsSecretRef": STOLEN}}, "spec.ovn.tlsSecretRef.name"),
    ("MariaDB", {"external": {"host": "a", "secretRef": STOLEN}}, EXTERNAL),
    ("CephStorage", {"mode": "external", "external": {"secretRef": STOLEN}}, "spec.external.secretRef.name"),
    ("Glance", {"storage": {"rbd": {"cephSecretRef": STOLEN}}}, "spec.storage.rbd.cephSecretRef.name"),
    (
        "Cinder",
        {"backends": [{"name": "a", "driver": "x.Y", "secretOptions": {"san_password": STOLEN}}]},
        "spec.backends[0].secretOptions.san_password.name",
    ),
    (
        "Cinder",
        {"backup": {"type": "s3", "s3": {"endpoint": "https://a", **LOGIN_OF_BUCKET}}},
        "spec.backup.s3.secretKeyRef.name",
    ),
    ("Keystone", {"bootstrap": {"adminPasswordSecretRef": STOLEN}}, "spec.bootstrap.adminPasswordSecretRef.name"),
    (
        "Keystone",
        {"federation": {"enabled": True, "serviceProvider": {"keyPairSecretRef": STOLEN}}},
        "spec.federation.serviceProvider.keyPairSecretRef.name",
    ),
    (
        "Keystone",
        {
            "federation": {
                "enabled": True,
                "identityProviders": [{**PROVIDER, "saml2": SAML, "caSecretRef": {**STOLEN, "key": "a"}}],
            }
        },
        "spec.federation.identityProviders[0].caSecretRef.name",
    ),
    (
        "Keystone",
        {"domains": [{"name": "a", "ldap": {**DIRECTORY, "bindPasswordSecretRef": STOLEN}}]},
        "spec.domains[0].ldap.bindPasswordSecretRef.name",
    ),
    ("Tempest", {"keystone": {**APP, "appCredentialRef": STOLEN}}, "spec.keystone.appCredentialRef.name"),
    ("Cortex", {"keystone": {**APP, "appCredentialRef": STOLEN}}, "spec.keystone.appCredentialRef.name"),
    ("Cortex", {"database": {"secretRef": STOLEN}}, "spec.database.secretRef.name"),
    ("RabbitMQ", {"external": {"host": "a", "managementURL": "https://a", "secretRef": STOLEN}}, EXTERNAL),
    ("Valkey", {"external": {"host": "a", "secretRef": STOLEN}}, EXTERNAL),
    (
        "Glance",
        {"storage": {"backends": [{"name": "a", "type": "s3", "s3": {"url": "https://a", **LOGIN_OF_BUCKET}}]}},
        "spec.storage.backends[0].s3.secretKeyRef.name",
    ),
    (
        "Glance",
        {"storage": {"swift": {"authUrl": "https://a", "user": "a", "passwordRef": STOLEN}}},
        "spec.storage.swift.passwordRef.name",
    ),
    (
        "Keystone",
        {"federation": {"enabled": True, "identityProviders": [{**PROVIDER, "protocol": "openid", "openid": OPENID}]}},
        "spec.federation.identityProviders[0].openid.clientSecretRef.name",
    ),
    (
        "Keystone",
        {"federation": {"enabled": True, "identityProviders": [{**PROVIDER, "saml2": METADATA}]}},
        "spec.federation.identityProviders[0].saml2.metadataSecretRef.name",
    ),
    ("Nova", {"database": {"secretRef": STOLEN}}, "spec.database.secretRef.name"),
    ("Barbican", {"vault": {**VAULT, "roleIdRef": STOLEN}}, "spec.vault.roleIdRef.name"),
    ("Barbican", {"vault": {**VAULT, "secretIdRef": STOLEN}}, "spec.vault.secretIdRef.name"),
    (
        "Designate",
        {"external": {"servers": [{"address": "192.0.2.1", "bind9": {"key": {"name": "a", "keyRef": STOLEN}}}]}},
        "spec.external.servers[0].bind9.key.keyRef.name",
    ),
    (
        "Designate",
        {"external": {"servers": [{"address": "192.0.2.1", "pdns4": {**PDNS, "tokenRef": STOLEN}}]}},
        "spec.external.servers[0].pdns4.tokenRef.name",
    ),
    *(
        (
            kind,
            {
                "repository": {
                    "s3": {"endpoint": "https://a", "bucket": "own", **LOGIN_OF_BUCKET},
                    "passwordRef": {"name": "mine"},
                }
            },
            "spec.repository.s3.secretKeyRef.name",
        )
        for kind in ("OpenStackBackup", "OpenStackRestore")
    ),
    (
        "OpenStackBackup",
        {"repository": {"volume": {"claimName": "a"}, "passwordRef": STOLEN}},
        "spec.repository.passwordRef.name",
    ),
    (
        "OpenStackBackupSchedule",
        {
            "schedule": "0 1 * * *",
            "repository": {"volume": {"claimName": "a"}, "passwordRef": {"name": "mine"}},
            "retention": {"daily": 7, **LOGIN_OF_BUCKET},
        },
        "spec.retention.secretKeyRef.name",
    ),
    ("Neutron", {"messaging": {"secretRef": STOLEN}}, "spec.messaging.secretRef.name"),
    ("OVNCluster", {"tls": {"certSecretRef": STOLEN}}, "spec.tls.certSecretRef.name"),
    ("OVNNetwork", {"external": {"secretRef": STOLEN}}, "spec.external.secretRef.name"),
    ("HypervisorCluster", {"controlPlaneSecretRef": STOLEN}, "spec.controlPlaneSecretRef.name"),
    ("SecretAggregate", {"sources": [{"secretRef": STOLEN}]}, "spec.sources[0].secretRef.name"),
    *(
        (kind, {"envSecretRef": STOLEN}, "spec.envSecretRef.name")
        for kind in sorted(each.kind for each in OWN.values() if issubclass(each.spec, UsesEnvironment))
    ),
    *(
        (kind, {**spec, "passwordSecretRef": STOLEN}, "spec.passwordSecretRef.name")
        for kind, spec in (
            ("MariaDBDatabase", {"database": "a", "user": "a"}),
            ("RabbitMQVhost", {"vhost": "a", "user": "a"}),
            ("KeystoneUser", {"user": "a"}),
            ("KeystoneDomain", {"domain": "a", "administrator": "a"}),
            ("KeystoneApplicationCredential", {"credential": "a"}),
        )
    ),
]


@pytest.mark.security
@pytest.mark.parametrize(("kind", "spec", "path"), ATTACKS)
async def test_no_field_reads_a_secret_of_another_resource(
    scene: Scene, kind: str, spec: dict[str, Any], path: str
) -> None:
    (text,) = await scene.refused(kind, spec)
    assert text == (
        f"{path}: the operator manages Secret 'glance-credentials' for Glance/glance; use a Secret of your"
        f" own. An administrator who trusts the author of {kind}/mine can add {kind}/mine to the"
        " Secret's annotation openstack.k8s.io/allowed-resources"
    )
    assert "kubectl" not in text


def models(model: type[Model]) -> Iterator[type[Model]]:
    """A model and those below it, without those that become specs of other resources."""
    if not issubclass(model, Template):
        yield model
        for info in model.model_fields.values():
            for each in named(info.annotation):
                yield from models(each)


def named(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [model for each in get_args(annotation) for model in named(each)]


AUTHORITIES = {"ExternalScheduler", "OtherKeystone", "PKISpec"}
"""Models whose Secrets have authorities, and nothing else of these is read."""


@pytest.mark.security
def test_each_field_for_a_secret_is_attacked() -> None:
    refs = (SecretRef, SecretKeyRef, AppCredentialRef)
    holding = {
        model
        for resource in RESOURCES
        for model in models(resource.spec)
        for info in model.model_fields.values()
        if any(issubclass(each, refs) for each in named(info.annotation))
    }
    attacked = {type(each) for kind, spec, _ in ATTACKS for each in instances(OWN[kind].spec.model_validate(spec))}
    # The kinds of c5c3 have the fields of ours, in a subclass of the same name.
    assert {model.__name__ for model in holding if attacked.isdisjoint(model.__mro__)} == AUTHORITIES


def instances(value: Any) -> Iterator[Model]:
    """The models in a spec that name the stolen Secret."""
    if isinstance(value, Model):
        if any(use.name == STOLEN["name"] for use in secret_uses(value)):
            yield value
        for name in type(value).model_fields:
            yield from instances(getattr(value, name))
    elif isinstance(value, (dict, list, tuple)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from instances(each)


@pytest.mark.security
@pytest.mark.parametrize(
    ("name", "owner", "changes"),
    [
        # It outlives its resource, which is gone.
        ("old-credentials", "Glance/old", retained("Glance/old")),
        ("glance-kek", "Glance/glance", retained("Glance/glance")),
        # The labels of the resource are lost.
        ("glance-bare", "Glance/glance", {"labels": {}}),
        ("internal", "PKI/internal", {"data": {"ca.crt": "x", "ca.key": "x"}}),
        # cert-manager made it for a resource of ours.
        ("keystone-api-tls", "Keystone/keystone", {"data": {"tls.crt": "x", "tls.key": "x", "ca.crt": "x"}}),
        ("keystone-fernet-keys", "Keystone/keystone", {}),
        ("mariadb-admin", "MariaDB/mariadb", {}),
        ("openstack-labels-injector", "", {}),
    ],
)
async def test_every_secret_of_the_operators_is_its_own(
    scene: Scene, name: str, owner: str, changes: dict[str, Any]
) -> None:
    scene.secret(name, owner, **changes)
    (text,) = await scene.refused("Placement", {"tls": {"secretRef": {"name": name}}})
    assert f"the operator manages Secret {name!r} for {owner or 'itself'}" in text


@pytest.mark.security
async def test_labels_and_owner_references_of_a_resource_open_no_secret(scene: Scene) -> None:
    spec = {"vhost": "a", "user": "a", "passwordSecretRef": STOLEN}
    forged = scene.resource("RabbitMQVhost", "forged", "Glance/glance")
    waiting = await scene.findings("RabbitMQVhost", forged, spec)
    assert waiting.waiting == ["waiting for the first pass over Glance/glance"], "the Glance was not planned yet"
    scene.plans("Glance/glance", ("Secret", "glance-credentials"))
    assert (await scene.findings("RabbitMQVhost", forged, spec)).refused


@pytest.mark.security
async def test_a_copy_is_as_secret_as_what_it_is_a_copy_of(scene: Scene) -> None:
    """What may log in with Keystone's administrator may not be given the password for something else by a copy."""
    scene.secret("keystone-admin", "Keystone/keystone")
    sources = [{"secretRef": {"name": "keystone-admin"}, "keys": [{"key": "password"}]}]
    scene.resource("SecretAggregate", "copies", spec={"targetSecretName": "copy", "sources": sources}, is_ready=True)
    scene.secret("copy", "SecretAggregate/copies")
    of_copy = {"name": "copy"}
    (text,) = await scene.refused("RabbitMQVhost", {"vhost": "a", "user": "a", "passwordSecretRef": of_copy})
    assert (
        "SecretAggregate/copies copies it: the operator manages Secret 'keystone-admin' for Keystone/keystone"
    ) in text
    assert not await scene.refused("Tempest", {"keystone": {**APP, "appCredentialRef": of_copy}})


@pytest.mark.security
async def test_a_copy_that_is_not_known_to_be_current_is_waited_for(scene: Scene) -> None:
    """Its target may still have what the spec named before."""
    scene.resource("SecretAggregate", "copies", spec={"targetSecretName": "copy", "sources": []})
    scene.secret("copy", "SecretAggregate/copies")
    user = scene.resource("Placement", "mine", is_ready=True)
    findings = await scene.findings("Placement", user, {"database": {"secretRef": {"name": "copy"}}})
    assert (findings.refused, findings.waiting) == ([], ["waiting for SecretAggregate/copies to be ready"])
    assert findings.targets == {("SecretAggregate", "openstack", "copies")}


@pytest.mark.security
@pytest.mark.parametrize("annotations", [{}, {PAUSE: ""}], ids=["working", "paused"])
async def test_a_copy_whose_source_is_gone_is_waited_for(scene: Scene, annotations: dict[str, str]) -> None:
    """Nobody knows any more who may read it. A paused collector stays ready with what it copied before."""
    spec = {"targetSecretName": "copy", "sources": [{"secretRef": {"name": "keystone-admin"}}]}
    scene.resource("SecretAggregate", "copies", spec=spec, is_ready=True, annotations=annotations)
    scene.secret("copy", "SecretAggregate/copies")
    user = scene.resource("Placement", "mine", is_ready=True)
    findings = await scene.findings("Placement", user, {"database": {"secretRef": {"name": "copy"}}})
    assert findings.waiting


@pytest.mark.security
async def test_an_account_of_a_paused_owner_is_not_let_go(scene: Scene) -> None:
    """What deletes it may be meant to revoke it, and its owner, which would make it again, does nothing."""
    kind, deleted = Kind.of(OWN["KeystoneUser"]), {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    for pause, is_paused in (({}, False), ({PAUSE: ""}, True)):
        scene.resource("Glance", "glance", is_ready=True, annotations=pause)
        scene.plans("Glance/glance", ("KeystoneUser", "glance"))
        user = scene.resource("KeystoneUser", "glance", owner="Glance/glance", is_ready=True, **deleted)
        recreator = scene.world.plans.paused_recreator(kind, user.meta)
        assert (recreator is not None) is is_paused


@pytest.mark.security
async def test_copies_of_each_other_end(scene: Scene) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        spec = {"sources": [{"secretRef": {"name": other}}, {"secretRef": STOLEN}]}
        scene.resource("SecretAggregate", name, spec=spec, is_ready=True)
        scene.secret(name, f"SecretAggregate/{name}")
    assert await scene.refused("Placement", {"database": {"secretRef": {"name": "a"}}})


LOGINS = ("keystone-admin", "keystone-clouds", "keystone-app-credential", CLOUDS)


@pytest.mark.parametrize("name", LOGINS)
async def test_clients_log_in_as_keystones_administrator(scene: Scene, name: str) -> None:
    scene.secret(name, "Keystone/keystone")
    app = {"keystone": {**APP, "appCredentialRef": {"name": name}}}
    for kind in ("Tempest", "Cortex", "Placement"):
        assert not await scene.refused(kind, app)
    assert not await scene.refused("SecretAggregate", {"sources": [{"secretRef": {"name": name}}]})
    assert await scene.refused("Placement", {"database": {"secretRef": {"name": name}}})


async def test_neutron_takes_the_certificate_of_ovns_clients(scene: Scene) -> None:
    scene.secret("ovn-client-tls", "OVNNetwork/ovn")
    ovn = {"nbConnection": "ssl:a:1", "sbConnection": "ssl:a:2", "tlsSecretRef": {"name": "ovn-client-tls"}}
    assert not await scene.refused("Neutron", {"ovn": ovn})
    assert await scene.refused("Placement", {"tls": {"secretRef": {"name": "ovn-client-tls"}}})


async def test_authorities_are_no_secret(scene: Scene) -> None:
    scene.secret("keystone-api-tls", "Keystone/keystone", data={"tls.crt": "x", "tls.key": "x", "ca.crt": "x"})
    scene.secret("internal-bundle", "PKI/internal", data={"ca.crt": "x"})
    for name in ("keystone-api-tls", "internal-bundle"):
        trusted = {"name": name}
        assert not await scene.refused("PKI", {"caBundleSecretRef": trusted})
        assert not await scene.refused("Nova", {"scheduler": {"externalScheduler": {"caSecretRef": trusted}}})
        providers = [{**PROVIDER, "saml2": SAML, "caSecretRef": trusted}]
        assert not await scene.refused(
            "Keystone", {"federation": {"enabled": True, "identityProviders": providers}}, "other"
        )
        copied = [{"secretRef": trusted, "keys": [{"key": "ca.crt"}]}]
        assert not await scene.refused("SecretAggregate", {"sources": copied})
    assert not await scene.refused("SecretAggregate", {"sources": [{"secretRef": {"name": "internal-bundle"}}]})
    assert await scene.refused("SecretAggregate", {"sources": [{"secretRef": {"name": "keystone-api-tls"}}]})


async def test_an_account_has_a_password_of_the_plan_that_makes_it(scene: Scene) -> None:
    spec = {"database": "a", "user": "a", "passwordSecretRef": STOLEN}
    account = scene.resource("MariaDBDatabase", "glance-db", "Glance/glance")
    assert (await scene.findings("MariaDBDatabase", account, spec)).unplanned
    scene.plans("Glance/glance", ("Secret", "glance-credentials"), ("MariaDBDatabase", "glance-db"))
    findings = await scene.findings("MariaDBDatabase", account, spec)
    assert (findings.refused, findings.waiting) == ([], [])


async def test_an_account_that_waits_for_a_plan_is_looked_at_again(scene: Scene) -> None:
    """No watch tells that its service was planned."""
    account = scene.resource("MariaDBDatabase", "glance-db", "Glance/glance")
    spec = OWN["MariaDBDatabase"].spec.model_validate({"database": "a", "user": "a", "passwordSecretRef": STOLEN})
    gatherer = Gatherer(scene.world, services=SERVICES)
    gathered = await gatherer.gather(OWN["MariaDBDatabase"], account, spec, admin=True)
    assert gathered.missing
    assert "waiting for the first pass over Glance/glance" in gathered.missing.message
    assert Result(after=30).within(gathered.recheck_after) == Result(after=1)
    scene.plans("Glance/glance", ("Secret", "glance-credentials"), ("MariaDBDatabase", "glance-db"))
    gathered = await gatherer.gather(OWN["MariaDBDatabase"], account, spec, admin=True)
    assert gathered.recheck_after is None
    assert Result(after=30).within(gathered.recheck_after) == Result(after=30)


async def test_an_account_that_is_ready_waits_for_no_plan(scene: Scene) -> None:
    """After a restart of the operator, and when its service was deleted without it."""
    spec = {"database": "a", "user": "a", "passwordSecretRef": STOLEN}
    account = scene.resource("MariaDBDatabase", "glance-db", "Glance/glance", is_ready=True)
    findings = await scene.findings("MariaDBDatabase", account, spec)
    assert (findings.refused, findings.waiting) == ([], [])
    scene.secret("old-credentials", "Glance/old", **retained("Glance/old"))
    orphan = scene.resource("MariaDBDatabase", "old-db", is_ready=True, **retained("Glance/old"))
    findings = await scene.findings(
        "MariaDBDatabase", orphan, {**spec, "passwordSecretRef": {"name": "old-credentials"}}
    )
    assert (findings.refused, findings.waiting) == ([], [])


async def test_a_resource_has_its_own_secrets(scene: Scene) -> None:
    scene.secret("mine-credentials", "Placement/mine")
    scene.secret("mine-kept", "Placement/mine", **retained("Placement/mine"))
    for name in ("mine-credentials", "mine-kept"):
        assert not await scene.refused("Placement", {"database": {"secretRef": {"name": name}}})


async def test_secrets_of_users_and_of_other_operators_are_theirs(scene: Scene) -> None:
    """Those of a RabbitmqCluster belong to it, though a RabbitMQ made that."""
    for kind, api in (("RabbitmqCluster", "rabbitmq.com/v1beta1"), ("MariaDB", "k8s.mariadb.com/v1alpha1")):
        by = {"apiVersion": api, "kind": kind, "name": "a", "uid": "1", "controller": True}
        scene.put(SECRET, f"{kind.lower()}-login", ownerReferences=[by])
        assert not await scene.refused("Placement", {"database": {"secretRef": {"name": f"{kind.lower()}-login"}}})
    scene.put(SECRET, "users")
    assert not await scene.refused("Placement", {"database": {"secretRef": {"name": "users"}}})


async def test_a_copy_of_a_users_secrets_is_for_all(scene: Scene) -> None:
    scene.put(SECRET, "users")
    spec = {"targetSecretName": "copy", "sources": [{"secretRef": {"name": "users"}}]}
    scene.resource("SecretAggregate", "copies", spec=spec, is_ready=True)
    scene.secret("copy", "SecretAggregate/copies")
    assert not await scene.refused("Placement", {"database": {"secretRef": {"name": "copy"}}})


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ("Placement/mine", True),
        ("Nova/nova, Placement/mine", True),
        ("Placement/*", True),
        ("*", True),
        ("", False),
        ("Placement/other", False),
        ("Placement", False),
        ("Placement/m*", False),
        ("placement/mine", False),
    ],
)
async def test_a_secrets_annotation_may_allow_resources(scene: Scene, entries: str, *, is_allowed: bool) -> None:
    scene.secret("glance-credentials", "Glance/glance", annotations={ALLOWED_RESOURCES: entries})
    refused = await scene.refused("Placement", {"database": {"secretRef": STOLEN}})
    assert not refused if is_allowed else refused


SHARING = {service.resource.handle: service for service in SERVICES if service.shares}


@pytest.mark.parametrize("service", SHARING.values(), ids=SHARING)
def test_shared_secrets_of_services_exist(service: Service) -> None:
    """A Secret of another name would be refused, whatever the record says."""
    cases = Path(inspect.getfile(inspect.unwrap(service.plan))).parent / "cases"
    made = {
        obj["metadata"]["name"]
        for path in cases.glob("*.golden.yaml")
        for obj in yaml.load_all(path.read_text(), yaml.CSafeLoader)
        if obj["kind"] == "Secret"
    }
    names = {name.format(name=cases.parent.name.removesuffix("network")) for name in service.shares}
    # K-ORC is in no case.
    assert names - {CLOUDS} <= made


CASES = sorted(Path(inspect.getfile(openstack_operator)).parent.glob("services/*/cases/*.golden.yaml"))


def test_a_plan_names_the_secrets_that_it_makes_or_a_user_names() -> None:
    """So no resource that a plan makes is refused: of a cloud, a service, a login of Keystone's."""
    apis = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
    named_by_plans = 0
    for path in CASES:
        objects = [obj for obj in yaml.load_all(path.read_text(), yaml.CSafeLoader) if obj]
        made = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Secret"}
        manifest = path.with_name(path.name.replace(".golden", "")).read_text()
        for obj in objects:
            if resource := apis.get((obj["apiVersion"], obj["kind"])):
                names = {use.name for use in secret_uses(resource.spec.model_validate(obj.get("spec") or {}))}
                named_by_plans += len(names & made)
                strangers = {name for name in names - made if name not in manifest and "rook-ceph" not in name}
                assert not strangers, f"{path.name}: {obj['kind']}/{obj['metadata']['name']}"
    assert named_by_plans > 50


def test_all_groups_of_a_kind_share_the_same() -> None:
    for service in SERVICES:
        others = [each.shares for each in SERVICES if each.resource.role == service.resource.role]
        assert others.count(service.shares) == len(others)
