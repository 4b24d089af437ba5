"""Accounts with fewer rights than their service's own, for a program that users reach from outside the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ... import parts
from ...parts.brokers import VHOST, resource_name
from ...parts.connect.sources import Database
from ...parts.connect.transport import Messaging
from ...plan import Context, Object, Step

_LIMITED_SUFFIX, REMOTE_SUFFIX = "_LIMITED", "_ELSEWHERE"
"""Suffixes of accounts' names. No Kubernetes name contains these characters, so no other resource uses the name."""


def reader(
    ctx: Context[Any],
    creds: parts.Credentials,
    password: str,
    base: Database,
    tables: Sequence[str],
    *,
    name: str,
    after: Sequence[Step],
) -> Database:
    """Return the schema of `base` by an account that reads `tables` and does nothing else: MariaDBDatabase
    `<owner>-<name>`, made after the steps that make the tables. If others make the accounts, `base` itself.
    """
    if not base.server:
        return base
    schema = urlsplit(base.url).path.removeprefix("/")
    spec = {"mariadbRef": _ref(base.server), "database": schema, "readableTables": [*tables]}
    objects = _accounts(ctx, creds, password, "MariaDBDatabase", ctx.name(name), schema + _LIMITED_SUFFIX, spec)
    url = _login(base.url, creds, password, schema + _LIMITED_SUFFIX)
    # A barrier: programs that run with another account keep it until this one exists.
    return replace(base, objects=objects, after=(creds, *after), url=url, barrier=True)


def caller(
    ctx: Context[Any],
    creds: parts.Credentials,
    password: str,
    base: Messaging,
    permissions: Mapping[str, Any] | None,
    *,
    name: str,
    suffix: str = _LIMITED_SUFFIX,
) -> Messaging:
    """Return the virtual host of `base` by a user with those `permissions` of a RabbitMQVhost, or with all:
    RabbitMQVhost `<owner>-<name>`. If others make the users, `base` itself.
    """
    if not base.server:
        return base
    vhost = unquote(urlsplit(base.url).path.removeprefix("/"))
    limits = {"permissions": permissions} if permissions else {}
    # The virtual host stays when this user goes.
    spec = {"rabbitmqRef": _ref(base.server), "vhost": vhost, **limits, "deletionPolicy": "Retain"}
    resource = resource_name(ctx, ctx.name(name), _ref(base.server)["name"], vhost, vhost + suffix)
    objects = _accounts(ctx, creds, password, VHOST, resource, vhost + suffix, spec)
    url = _login(base.url, creds, password, vhost + suffix)
    return replace(base, objects=objects, after=(creds, base), url=url, barrier=True)


def _ref(server: str) -> dict[str, str]:
    return {"name": server.partition("/")[2]}


def _accounts(
    ctx: Context[Any],
    creds: parts.Credentials,
    password: str,
    kind: str,
    name: str,
    called: str,
    spec: Mapping[str, Any],
) -> tuple[Object, ...]:
    """Return our resources, even if another operator runs the server: its kinds cannot restrict accounts this far."""
    return tuple(
        parts.remote(
            ctx,
            kind,
            each.resource(name),
            {**spec, "user": each.called(called), "passwordSecretRef": creds.ref(each.key)},
        )
        for each in creds.of(password)
    )


def _login(url: str, creds: parts.Credentials, password: str, called: str) -> str:
    """Return the same URL with another account."""
    at = urlsplit(url)
    account = f"{creds.of(password)[0].called(called)}:{quote(creds[password], safe='')}"
    return at._replace(netloc=f"{account}@{at.netloc.rpartition('@')[2]}").geturl()
