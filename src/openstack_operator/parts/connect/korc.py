"""Resources of K-ORC, an operator for the content of Keystone, each for one object there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import kube
from ...plan import Context, Kind, Object
from ..secrets.credentials import Credentials
from ..secrets.rotation import Account

KORC = "korcClouds"
"""Key under which a Keystone publishes the Secret K-ORC logs in with, if K-ORC manages users and services."""
OPERATOR = "k-orc"
CLOUD = "openstack"
"""Name of the cloud in clouds.yaml."""
DOMAIN = "default"
"""Name of the resource for Keystone's domain Default; users and projects refer to their domain."""

_GROUP = "openstack.k-orc.cloud"
_API = f"{_GROUP}/v1alpha1"
KINDS = tuple(
    Kind(_API, kind, f"{kind.lower()}s", project=OPERATOR, operator=OPERATOR, finalizer=f"{_GROUP}/{kind.lower()}")
    for kind in ("Domain", "Project", "Role", "User", "Service")
)
MANAGED_KINDS = {kind.handle for kind in KINDS}
"""Handles of the kinds that it needs to manage a catalog."""


def managed(ctx: Context[Any], clouds: str, kind: str, name: str, resource: Mapping[str, Any], path: str) -> Object:
    """Return an object of Keystone that K-ORC manages; `path` is the field that asks for it. It stays in Keystone when
    K-ORC's resource is deleted, which may happen by mistake in a running cloud. Our resource that manages what K-ORC
    does not support deletes it there.
    """
    spec = {"managementPolicy": "managed", "managedOptions": {"onDelete": "detach"}, "resource": dict(resource)}
    return _korc_object(ctx, clouds, kind, name, spec, path)


def unmanaged(
    ctx: Context[Any], clouds: str, kind: str, name: str, import_filter: Mapping[str, Any], path: str
) -> Object:
    """Return an existing object of Keystone that K-ORC only reads, found by a filter."""
    return _korc_object(
        ctx, clouds, kind, name, {"managementPolicy": "unmanaged", "import": {"filter": dict(import_filter)}}, path
    )


def _korc_object(ctx: Context[Any], clouds: str, kind: str, name: str, spec: Mapping[str, Any], path: str) -> Object:
    login = {"cloudCredentialsRef": {"secretName": clouds, "cloudName": CLOUD}}
    return kube.annotated(kube.obj(ctx, kind, name, _API, spec={**login, **spec}), {kube.FIELD: path})


def service_user(
    ctx: Context[Any], clouds: str, name: str, called: str, creds: Credentials, account: Account
) -> tuple[Object, ...]:
    """Return User `<name>` with the password of that account. K-ORC applies a new one only from a Secret of another
    name.
    """
    password = creds[account.key]
    secret = kube.secret(ctx, f"{kube.fitting(name, 54)}-{kube.digest(password)}", {"password": password})
    resource = {"name": called, "domainRef": DOMAIN, "enabled": True, "passwordRef": secret["metadata"]["name"]}
    return secret, managed(ctx, clouds, "User", name, resource, "spec.keystone")
