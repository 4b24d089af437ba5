"""What K-ORC, an operator for what is in Keystone, is asked for: resources of its own, each for one thing there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import kube
from ..plan import Context, Object
from .credentials import Credentials
from .rotation import Account

KORC = "korcClouds"
"""Under which name a Keystone publishes the Secret K-ORC logs in with, where that keeps users and services."""
OPERATOR = "k-orc"
CLOUD = "openstack"
"""The one in clouds.yaml."""
DOMAIN = "default"
"""The resource that stands for Keystone's domain Default; users and projects refer to theirs."""

_GROUP = "openstack.k-orc.cloud"
_API = f"{_GROUP}/v1alpha1"
KEPT = {f"{kind}.{_GROUP}" for kind in ("Domain", "Project", "Role", "User", "Service")}
"""Handles of the kinds without which it cannot keep a catalog."""


def kept(ctx: Context[Any], clouds: str, kind: str, name: str, resource: Mapping[str, Any], path: str) -> Object:
    """Something that K-ORC makes and looks after; `path` is the field that says so. When the object goes, the thing
    stays in Keystone: somebody may have deleted the one under a running cloud. Removed it is by whoever keeps what
    K-ORC has nothing for.
    """
    spec = {"managementPolicy": "managed", "managedOptions": {"onDelete": "detach"}, "resource": dict(resource)}
    return _asked(ctx, clouds, kind, name, spec, path)


def imported(ctx: Context[Any], clouds: str, kind: str, name: str, found: Mapping[str, Any], path: str) -> Object:
    """Something that is there and that K-ORC only looks at, by what it is found by."""
    return _asked(ctx, clouds, kind, name, {"managementPolicy": "unmanaged", "import": {"filter": dict(found)}}, path)


def _asked(ctx: Context[Any], clouds: str, kind: str, name: str, spec: Mapping[str, Any], path: str) -> Object:
    login = {"cloudCredentialsRef": {"secretName": clouds, "cloudName": CLOUD}}
    return kube.annotated(kube.obj(ctx, kind, name, _API, spec={**login, **spec}), {kube.FIELD: path})


def service_user(
    ctx: Context[Any], clouds: str, name: str, called: str, creds: Credentials, account: Account
) -> tuple[Object, ...]:
    """User `<name>` with the password of that account. K-ORC applies another one only when it is in a Secret of
    another name.
    """
    password = creds[account.key]
    secret = kube.secret(ctx, f"{kube.fitting(name, 54)}-{kube.digest(password)}", {"password": password})
    resource = {"name": called, "domainRef": DOMAIN, "enabled": True, "passwordRef": secret["metadata"]["name"]}
    return secret, kept(ctx, clouds, "User", name, resource, "spec.keystone")
