"""What a service leans on, each as a step with the settings it gives: database, broker, identity, cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import kube, oslo
from ..api import (
    CachesResults,
    MariaDBRef,
    RabbitMQRef,
    Ref,
    Sections,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
)
from ..plan import Context, Step, fitting
from .credentials import Credentials, credentials
from .tls import peers, trust_of
from .workloads import Api

API = "openstack.k8s.io/v1alpha1"

CLEANUP = "openstack.k8s.io/cleanup"
"""Finalizer of resources with a counterpart outside Kubernetes; set at creation, which saves a write each."""


def remote(ctx: Context[Any], kind: str, name: str, spec: Mapping[str, Any]) -> kube.Object:
    """A resource with a counterpart outside Kubernetes."""
    wanted = kube.obj(ctx, kind, name, API, spec=spec)
    wanted["metadata"]["finalizers"] = [CLEANUP]
    return wanted


@dataclass(frozen=True, kw_only=True, eq=False)
class Database(Step):
    """A schema and the account that owns it."""

    url: str


def database(
    ctx: Context[Any], creds: Credentials, password: str, schema: str, *, server: MariaDBRef, name: str = "db"
) -> Database:
    """MariaDBDatabase `<owner>-<name>`: `schema` with an account of the same name and the password of that name."""
    wanted = remote(
        ctx,
        "MariaDBDatabase",
        ctx.name(name),
        {
            "mariadbRef": {"name": server.name},
            "database": schema,
            "user": schema,
            "passwordSecretRef": creds.ref(password),
        },
    )
    at = ctx.refs[server]
    url = f"mysql+pymysql://{schema}:{quote(creds[password], safe='')}@{at['host']}:{at['port']}/{schema}?charset=utf8"
    if trust := trust_of(at.published):
        # With an authority the driver checks the chain, and the name it called.
        url += f"&ssl_ca={trust}"
    return Database(name="Database", objects=(wanted,), after=(creds,), url=url)


@dataclass(frozen=True, kw_only=True, eq=False)
class Messaging(Step):
    """A virtual host of the broker and its user."""

    # One address for all members: kombu 5.5 that has a list of them never leaves one that takes a connection and then
    # says nothing.
    url: str
    clustered: bool = False

    def options(self, notifications: Messaging | None = None) -> Sections:
        """What a client of it is told, with where it sends its notifications."""
        return oslo.options.messaging(
            self.url, clustered=self.clustered, notifications=notifications.url if notifications else ""
        )


def messaging(
    ctx: Context[Any],
    creds: Credentials,
    password: str,
    *,
    broker: RabbitMQRef,
    name: str = "",
    limit: str | None = None,
) -> Messaging:
    """RabbitMQVhost of its own for this service, so that one service's flood is not another's. `limit` is a quantity:
    what a queue holds at most before it drops the oldest.
    """
    vhost = ctx.name(name) if name else ctx.owner
    wanted = remote(
        ctx,
        "RabbitMQVhost",
        ctx.name(name or "messaging"),
        {
            "rabbitmqRef": {"name": broker.name},
            "vhost": vhost,
            "user": vhost,
            "passwordSecretRef": creds.ref(password),
            **({"queueLimit": limit} if limit else {}),
        },
    )
    at = ctx.refs[broker]
    url = f"rabbit://{vhost}:{quote(creds[password], safe='')}@{at['host']}:{at['port']}/{vhost}"
    if trust := trust_of(at.published):
        # What stands here goes before the options of the same names, so that each broker has its own.
        url += f"?ssl=true&ssl_ca_file={trust}&ssl_enforce_hostname_verification=true"
    clustered = at.published.get("clustered") == "true"
    return Messaging(name="Messaging", objects=(wanted,), after=(creds,), url=url, clustered=clustered)


_NOTIFICATIONS = "notifications"
_KEPT = "256Mi"
"""Of notifications, a queue: nobody may be there to read them."""


def notifications(ctx: Context[Any], creds: Credentials, *, broker: RabbitMQRef | None) -> Messaging | None:
    """RabbitMQVhost `<owner>-notifications` for what the service tells the world; None where there is no broker for
    it. The password is that of `notifying`.
    """
    if broker is None:
        return None
    return messaging(ctx, creds, _NOTIFICATIONS, broker=broker, name=_NOTIFICATIONS, limit=_KEPT)


def notifying(spec: UsesMessaging) -> tuple[str, ...]:
    """Names of the passwords a service needs for its notifications."""
    return (_NOTIFICATIONS,) if spec.messaging.notifications_ref else ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Identity(Step):
    """A service user."""

    options: Mapping[str, str]
    """keystoneauth options, fit for any section that logs in as this user."""

    @property
    def trust(self) -> dict[str, str]:
        """By what all APIs are checked that are found through this Keystone: of the options, `cafile`, if any."""
        return {name: value for name, value in self.options.items() if name == "cafile"}


def identity(ctx: Context[Any], creds: Credentials, password: str) -> Identity:
    """KeystoneUser named after the owner, with the roles services need to act for users."""
    ref = ctx.spec.keystone.keystone_ref
    wanted = remote(
        ctx,
        "KeystoneUser",
        ctx.name("user"),
        {"keystoneRef": {"name": ref.name}, "user": ctx.owner, "passwordSecretRef": creds.ref(password)},
    )
    at = ctx.refs[ref]
    return Identity(
        name="Identity",
        objects=(wanted,),
        after=(creds,),
        options={
            "auth_type": "password",
            "auth_url": at["internalURL"],
            "username": ctx.owner,
            "password": creds[password],
            "user_domain_name": "Default",
            "project_name": "service",
            "project_domain_name": "Default",
            "region_name": ctx.spec.region,
            **({"cafile": trust} if (trust := peers(ctx, at.published)) else {}),
        },
    )


def catalog(
    ctx: Context[Any],
    type_: str,
    description: str,
    api: Api,
    *,
    path: str = "",
    keystone: str = "",
    name: str = "catalog",
    after: Sequence[Step],
) -> Step:
    """KeystoneService `<owner>-<name>`: what clients find when they ask where this service lives. `keystone` is the
    name of the Keystone where the spec does not say it; `name` differs for a second entry.
    """
    wanted = remote(
        ctx,
        "KeystoneService",
        ctx.name(name),
        {
            "keystoneRef": {"name": keystone or ctx.spec.keystone.keystone_ref.name},
            "type": type_,
            "name": ctx.owner,
            "description": description,
            "region": ctx.spec.region,
            "endpoints": {"internal": api.internal + path, "public": api.public + path},
        },
    )
    return Step(name="Endpoint", objects=(wanted,), after=tuple(after))


def requires(ctx: Context[Any], name: str, ref: Ref) -> Step:
    """A step that is ready when the referent is; nothing is applied for it."""
    return Step(name=name, verdict=ctx.refs[ref].verdict)


@dataclass(frozen=True, kw_only=True)
class Foundation:
    """What the spec's mixins say the service leans on."""

    credentials: Credentials
    steps: tuple[Step, ...]
    sections: Sections
    database: Database | None
    messaging: Messaging | None
    identity: Identity | None

    @property
    def schema(self) -> tuple[Step, ...]:
        """What the schema needs: the database alone, so that it is made while Keystone still starts."""
        return tuple(step for step in (self.credentials, self.database) if step)

    @property
    def auth(self) -> Mapping[str, str]:
        """keystoneauth options of the service user."""
        return self.identity.options if self.identity else {}


def foundation(ctx: Context[Any], *extra: str, section: str = "database") -> Foundation:
    """Credentials, database, broker and user as the spec's mixins ask; `extra` are further passwords, `section` the
    name of the database section in the service's configuration.
    """
    spec = ctx.spec
    mixins = {"database": UsesDatabase, "messaging": UsesMessaging, "identity": UsesIdentity}
    told = notifying(spec) if isinstance(spec, UsesMessaging) else ()
    creds = credentials(ctx, *(name for name, mixin in mixins.items() if isinstance(spec, mixin)), *told, *extra)
    db = bus = user = news = None
    layers: list[Sections] = []
    if isinstance(spec, UsesDatabase):
        source = spec.database
        db = database(ctx, creds, "database", source.database or sql_name(ctx.owner), server=source.mariadb_ref)
        layers.append({section: oslo.options.database(db.url)})
    if isinstance(spec, UsesMessaging):
        bus = messaging(ctx, creds, "messaging", broker=spec.messaging.rabbitmq_ref)
        news = notifications(ctx, creds, broker=spec.messaging.notifications_ref)
        layers.append(bus.options(news))
    if isinstance(spec, UsesIdentity):
        user = identity(ctx, creds, "identity")
        layers.append({"keystone_authtoken": oslo.options.keystone_auth(user.options, memcached(ctx))})
    return Foundation(
        credentials=creds,
        steps=tuple(step for step in (creds, db, bus, news, user) if step),
        sections=oslo.merge(*layers),
        database=db,
        messaging=bus,
        identity=user,
    )


def memcached(ctx: Context[Any]) -> str:
    """host:port[,host:port] of the service's cache; empty without one."""
    return ctx.refs[ctx.spec.cache.memcached_ref]["servers"] if isinstance(ctx.spec, (UsesCache, CachesResults)) else ""


def cache(ctx: Context[Any]) -> Sections:
    """[cache] of a service: what it need not work out again."""
    return {"cache": oslo.options.cache(ctx.spec.cache.backend, memcached(ctx))}


def sql_name(name: str) -> str:
    """A resource's name as an SQL identifier, which MariaDB wants no longer than 64 characters."""
    return fitting(name).replace("-", "_").replace(".", "_")
