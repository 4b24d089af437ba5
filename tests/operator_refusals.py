"""Resources that the operator itself refuses, which the API server takes: for tests of the operator, and of files."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from openstack_operator import pki
from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.plan import Object
from openstack_operator.registry import RESOURCES

_RESOURCES = {resource.kind: resource for resource in reversed(RESOURCES)}


class Refusal(NamedTuple):
    """A resource called like the case, with the field that is refused, and words of the message."""

    name: str
    kind: str
    spec: Mapping[str, Any]
    field: str
    words: str
    secret: Callable[[datetime], Object] | None = None
    """Function from the present to a Secret called like the case."""
    is_warning: bool = False
    """True if an administrator may allow it."""

    def manifests(self, now: datetime) -> list[Object]:
        """Return the resource, after its Secret."""
        resource = _RESOURCES[self.kind]
        meta = {"name": self.name, "namespace": "openstack"}
        secret = {**self.secret(now)} if self.secret else None
        if secret:
            secret["metadata"] = {**meta, **secret.get("metadata", {})}
        own = {"apiVersion": resource.api_version, "kind": self.kind, "metadata": meta, "spec": dict(self.spec)}
        return [*([secret] if secret else []), own]


def _secret(annotations: Mapping[str, str] | None = None, /, **data: str | bytes) -> Callable[[datetime], Object]:
    """Return a function for a Secret with that content."""
    encoded = {
        name.replace("_", "."): base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
        for name, value in data.items()
    }
    metadata = {"annotations": dict(annotations)} if annotations else {}

    def at(_: datetime) -> Object:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}

    return at


def certificate(name: str, begins: timedelta, ends: timedelta) -> Callable[[datetime], Object]:
    """Return a function for a Secret with the certificate of a MariaDB, valid between two times from the present."""

    def at(now: datetime) -> Object:
        authority = pki.authority("seed", "authority", now - timedelta(days=400), timedelta(days=4000))
        hosts = frozenset({name, f"{name}.openstack", f"{name}.openstack.svc", f"{name}.openstack.svc.cluster.local"})
        request = pki.Request(common=name, names=hosts, life=ends - begins)
        leaf = pki.issue(authority, request, "leaf", now + begins)
        files = {"tls_crt": leaf.cert, "tls_key": leaf.key, "ca_crt": authority.cert}
        return _secret(**files)(now)

    return at


def _tls(name: str) -> Mapping[str, Any]:
    return {"tls": {"secretRef": {"name": name}}}


_PASSWORD = {"bootstrap": {"adminPasswordSecretRef": {"name": "line-break"}}}
_OWN_LINE = "must be a single line; remove the final line break (printf, not echo)"
_DAY = timedelta(days=1)

_EXAMPLE = "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n"
_PLACEHOLDERS: list[tuple[str, str, Mapping[str, Any], str, str, Callable[[datetime], Object]]] = [
    (
        "example-bundle",
        "PKI",
        {"issuerRef": {"name": "company"}, "caBundleSecretRef": {"name": "example-bundle"}},
        "spec.caBundleSecretRef.name",
        "ca.crt",
        _secret(ca_crt=_EXAMPLE),
    ),
    (
        "example-region",
        "Horizon",
        {
            "otherKeystones": [
                {
                    "name": "b",
                    "authUrl": "https://b.example.org/v3",
                    "caSecretRef": {"name": "example-region", "key": "b"},
                }
            ]
        },
        "spec.otherKeystones[0].caSecretRef.name",
        "b",
        _secret(b=_EXAMPLE),
    ),
    (
        "example-server",
        "Placement",
        {"database": {"host": "db.example.org", "secretRef": {"name": "example-server"}}},
        "spec.database.secretRef.name",
        "ca.crt",
        _secret({ALLOWED_HOSTS: "db.example.org"}, username="placement", password="a", ca_crt=_EXAMPLE),
    ),
]

REFUSALS = [
    Refusal(
        "line-break",
        "Keystone",
        _PASSWORD,
        "spec.bootstrap.adminPasswordSecretRef.key",
        f"'password' of Secret 'line-break' {_OWN_LINE}",
        _secret(password="hello\n"),
    ),
    Refusal(
        "no-key",
        "Keystone",
        {"bootstrap": {"adminPasswordSecretRef": {"name": "no-key"}}},
        "spec.bootstrap.adminPasswordSecretRef.key",
        "Secret 'no-key' has no key 'password'",
        _secret(other="hello"),
    ),
    Refusal(
        "no-text",
        "Keystone",
        {"bootstrap": {"adminPasswordSecretRef": {"name": "no-text"}}},
        "spec.bootstrap.adminPasswordSecretRef.key",
        "'password' of Secret 'no-text' must be a single line",
        _secret(password=b"\x80hua\x80"),
    ),
    *(
        Refusal(
            name,
            kind,
            spec,
            field,
            f"'{key}' of Secret '{name}' is not PEM, or has an unreadable certificate; store the whole PEM text",
            secret,
        )
        for name, kind, spec, field, key, secret in _PLACEHOLDERS
    ),
    Refusal("no-backends", "Cinder", {}, "spec.backends", "empty, so volumes cannot be created; add a backend"),
    Refusal(
        "misspelled",
        "Placement",
        {"dependsOn": [{"kind": "Keystone", "name": "keystone", "condition": "Raedy"}]},
        "spec.dependsOn[0].condition",
        "Keystone has no condition 'Raedy'; did you mean Ready?",
    ),
    Refusal(
        "itself",
        "Placement",
        {"dependsOn": [{"kind": "Placement", "name": "itself"}]},
        "spec.dependsOn",
        "Placement/itself cannot wait for itself; remove it from the list",
    ),
    Refusal(
        "wired",
        "Placement",
        {"config": {"Placement_Database": {"connection": "sqlite://"}}},
        "spec.config.Placement_Database.connection",
        "the operator sets Placement_Database.connection itself; remove it from config",
    ),
    Refusal(
        "wired-by-environment",
        "Placement",
        {"config": {"oslo_messaging_rabbit": {"processname": "mine"}}},
        "spec.config.oslo_messaging_rabbit.processname",
        "the operator sets oslo_messaging_rabbit.processname in the environment",
    ),
    Refusal(
        "wrong-value",
        "Placement",
        {"config": {"placement": {"max_allocation_candidates": "many"}}},
        "spec.config.placement.max_allocation_candidates",
        "is 'many'; the option takes a whole number",
    ),
    Refusal(
        "other-name",
        "MariaDB",
        {"config": {"mysqld": {"loose-bind-address": "127.0.0.1"}}},
        "spec.config.mysqld.loose_bind_address",
        "it is an alias of bind_address, which the operator sets; remove it from config",
    ),
    Refusal(
        "expired",
        "MariaDB",
        _tls("expired"),
        "spec.tls.secretRef",
        "Secret 'expired': the certificate ended at",
        certificate("expired", -200 * _DAY, -_DAY),
    ),
    Refusal(
        "not-yet",
        "MariaDB",
        _tls("not-yet"),
        "spec.tls.secretRef",
        "Secret 'not-yet': the certificate begins at",
        certificate("not-yet", 30 * _DAY, 100 * _DAY),
    ),
    Refusal(
        "not-allowed",
        "Glance",
        {
            "keystone": {
                "authUrl": "https://identity.example.org",
                "appCredentialRef": {"secretName": "not-allowed"},
            }
        },
        "spec.keystone.appCredentialRef.secretName",
        "Secret 'not-allowed' may not be sent to identity.example.org",
        _secret({ALLOWED_HOSTS: "elsewhere.example.org"}, id="1", secret="2"),
    ),
    Refusal(
        "spreads-too-far",
        "Memcached",
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}
                    ]
                }
            }
        },
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector",
        "a selector of namespaces would keep pods of other namespaces off these nodes",
    ),
    Refusal(
        "preempts",
        "Memcached",
        {"priorityClassName": "system-node-critical"},
        "spec.priorityClassName",
        "'system-node-critical' is for Kubernetes' own programs",
        is_warning=True,
    ),
    Refusal(
        "never",
        "Keystone",
        {"fernet": {"rotationSchedule": "0 0 31 2 *"}},
        "spec.fernet.rotationSchedule",
        "'0 0 31 2 *' is not a schedule",
    ),
    Refusal(
        "password-in-spec",
        "Keystone",
        {
            "domains": [
                {
                    "name": "Company",
                    "ldap": {"url": "ldaps://ldap.example.org", "userTreeDN": "ou=people,dc=example,dc=org"},
                    "config": {"ldap": {"password": "hello"}},
                }
            ]
        },
        "spec.domains[0].config.ldap.password",
        "the operator sets ldap.password itself; remove it from config",
    ),
    Refusal("no-release", "Placement", {"release": "1999.1"}, "spec.release", "there is no release '1999.1'"),
]
"""One of each kind of fault. Each resource is in a namespace with a cloud, to whose services it refers."""
