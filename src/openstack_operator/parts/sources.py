"""What a service leans on, each as a step with the settings it gives: database, broker, identity, cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import kube, oslo
from ..api import (
    KEYSTONE,
    MARIADB,
    RABBITMQ,
    DatabaseSource,
    Dependency,
    MessagingSource,
    RabbitMQRef,
    Ref,
    Sections,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
)
from ..plan import Context, SpecError, State, Step, Verdict, fitting, worst
from .caches import TOKEN_CACHE, caches_tokens, keystone_authtoken
from .coordinates import address, keystone_login, login, remembered, schema_of
from .credentials import Credentials, credentials
from .korc import KORC, kept, service_user
from .remote import remote
from .remote import schema as schema_on
from .remote import vhost as vhost_on
from .tls import peers, trust_of
from .workloads import Api, connected


@dataclass(frozen=True, kw_only=True, eq=False)
class Database(Step):
    """A schema and the account that owns it."""

    url: str
    server: str = ""
    """The resource it is on, if it is on one."""


def database(
    ctx: Context[Any],
    creds: Credentials,
    password: str,
    schema: str,
    *,
    source: DatabaseSource,
    name: str = "db",
    path: str = "spec.database",
) -> Database:
    """`<owner>-<name>`: `schema` with an account of the same name and the password of that name, a MariaDBDatabase or
    what the operator that runs the server has for it. Where `source`, the field `path`, names a Secret, nothing is made
    but a note of where the schema is. Raises SpecError where it was elsewhere before.
    """
    if source.secret_ref:
        at = login(ctx, source.secret_ref, f"{path}.secretRef")
        host, port = address(at, source.host, source.port, (ctx.host(MARIADB.name), 3306))
        known = remembered(ctx, name, f"{host}:{port}/{schema}", path)
        url = _mysql(at.account, host, port, schema, at.trust)
        return Database(name="Database", objects=(known,), guarded=True, url=url)
    server = source.mariadb_ref or MARIADB
    objects = schema_on(ctx, server, schema, name, creds, password)
    there = ctx.refs[server]
    account = f"{creds.of(password)[0].called(schema)}:{quote(creds[password], safe='')}"
    url = _mysql(account, there["host"], there["port"], schema, trust_of(there.published))
    return Database(name="Database", objects=objects, after=(creds,), url=url, server=f"MariaDB/{server.name}")


def _mysql(account: str, host: str, port: object, schema: str, trust: str) -> str:
    # With an authority the driver checks the chain, and the name it called.
    return f"mysql+pymysql://{account}@{host}:{port}/{schema}?charset=utf8" + (f"&ssl_ca={trust}" if trust else "")


@dataclass(frozen=True, kw_only=True, eq=False)
class Messaging(Step):
    """A virtual host of the broker and its user."""

    # One address for all members of a broker of ours: kombu 5.5 that has a list of them never leaves one that takes a
    # connection and then says nothing. A list of the user's is taken as it is: its first entry alone would be lost with
    # that member, which happens more often.
    url: str
    server: str = ""
    """The resource it is on, if it is on one."""
    clustered: bool = False
    ports: frozenset[int] = frozenset()
    """Where it listens, if not where brokers do."""

    @property
    def connected(self) -> kube.Probe:
        """Readiness of a program that only speaks RPC."""
        return connected(self.ports)

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
    source: MessagingSource,
    name: str = "",
    path: str = "spec.messaging",
) -> Messaging:
    """A virtual host of its own for this service, or for what is called `name` in it, so that one service's flood is
    not another's: a RabbitMQVhost, or what the operator that runs the broker has for it. Where `source`, the field
    `path`, names a Secret nothing is made, and what has a name is expected in the virtual host `<owner>-<name>`.
    """
    if source.secret_ref is None:
        return _vhost(ctx, creds, password, broker=source.rabbitmq_ref or RABBITMQ, name=name)
    at = login(ctx, source.secret_ref, f"{path}.secretRef")
    usual = 5671 if at.trust else 5672
    hosts = [host.partition(":") for host in source.hosts or ()]
    told = address(at, None, None, (ctx.host(RABBITMQ.name), usual))
    members = [(host, int(port or usual)) for host, _, port in hosts] or [told]
    listed = ",".join(f"{at.account}@{host}:{port}" for host, port in members)
    vhost = ctx.name(name) if name else at.get("vhost") or "/"
    return Messaging(
        name="Messaging",
        url=_rabbit(listed, vhost, at.trust),
        clustered=len(members) > 1,
        ports=frozenset(port for _, port in members),
    )


def _rabbit(hosts: str, vhost: str, trust: str) -> str:
    # What stands here goes before the options of the same names, so that each broker has its own.
    tls = f"?ssl=true&ssl_ca_file={trust}&ssl_enforce_hostname_verification=true" if trust else ""
    return f"rabbit://{hosts}/{quote(vhost, safe='')}{tls}"


def _vhost(
    ctx: Context[Any], creds: Credentials, password: str, *, broker: RabbitMQRef, name: str, limit: str | None = None
) -> Messaging:
    """`limit` is a quantity: what a queue holds at most before it drops the oldest."""
    vhost = ctx.name(name) if name else ctx.owner
    objects = vhost_on(ctx, broker, vhost, name or "messaging", creds, password, limit=limit)
    at = ctx.refs[broker]
    host = f"{creds.of(password)[0].called(vhost)}:{quote(creds[password], safe='')}@{at['host']}:{at['port']}"
    url = _rabbit(host, vhost, trust_of(at.published))
    clustered = at.published.get("clustered") == "true"
    server = f"RabbitMQ/{broker.name}"
    return Messaging(name="Messaging", objects=objects, after=(creds,), url=url, server=server, clustered=clustered)


_NOTIFICATIONS = "notifications"
_KEPT = "256Mi"
"""Of notifications, a queue: nobody may be there to read them."""


def notifications(ctx: Context[Any], creds: Credentials, *, broker: RabbitMQRef | None) -> Messaging | None:
    """RabbitMQVhost `<owner>-notifications` for what the service tells the world; None where there is no broker for
    it. The password is that of `notifying`.
    """
    if broker is None:
        return None
    return _vhost(ctx, creds, _NOTIFICATIONS, broker=broker, name=_NOTIFICATIONS, limit=_KEPT)


def drawn(spec: Any) -> tuple[str, ...]:
    """Names of the passwords a service needs for what is made for it: its database, broker, user and notifications."""
    wanted = {
        "database": isinstance(spec, UsesDatabase) and not spec.database.secret_ref,
        "messaging": isinstance(spec, UsesMessaging) and not spec.messaging.secret_ref,
        "identity": isinstance(spec, UsesIdentity) and not spec.keystone.auth_url,
        _NOTIFICATIONS: isinstance(spec, UsesMessaging) and spec.messaging.notifications_ref,
        TOKEN_CACHE: caches_tokens(spec),
    }
    return tuple(name for name, made in wanted.items() if made)


@dataclass(frozen=True, kw_only=True, eq=False)
class Identity(Step):
    """A service user."""

    options: Mapping[str, str]
    """keystoneauth options, fit for any section that logs in as this user."""

    @property
    def trust(self) -> dict[str, str]:
        """By what all APIs are checked that are found through this Keystone: of the options, `cafile`, if any."""
        return {name: value for name, value in self.options.items() if name == "cafile"}


def identity(
    ctx: Context[Any], creds: Credentials, password: str, *, program: str = "", roles: Sequence[str] = ()
) -> Identity:
    """KeystoneUser named after the owner, with the roles services need to act for users, or `<owner>-<program>`, with
    those `roles`; where K-ORC keeps users, with a User of its own. Where the spec says how to log in to a Keystone that
    is not one of ours nothing is made.
    """
    source = ctx.spec.keystone
    if source.auth_url:
        login, trust = keystone_login(ctx, source.app_credential_ref)
        return Identity(name="Identity", options=_auth(ctx, source.auth_url, login, trust or peers(ctx, {})))
    ref = source.keystone_ref or KEYSTONE
    at = ctx.refs[ref]
    clouds = at.published.get(KORC)
    name, called = (ctx.name(program, "user"), ctx.name(program)) if program else (ctx.name("user"), ctx.owner)
    wanted = [
        remote(
            ctx,
            "KeystoneUser",
            each.resource(name),
            {
                "keystoneRef": {"name": ref.name},
                "user": each.called(called),
                "passwordSecretRef": creds.ref(each.key),
                **({"roles": [*roles]} if roles else {}),
                **_kept_by(clouds),
            },
        )
        for each in creds.of(password)
    ]
    made = _users(ctx, ref, clouds, creds, password, name, called) if clouds else ()
    user = {
        "auth_type": "password",
        "username": creds.of(password)[0].called(called),
        "password": creds[password],
        "user_domain_name": "Default",
        "project_name": "service",
        "project_domain_name": "Default",
    }
    options = _auth(ctx, at["internalURL"], user, peers(ctx, at.published))
    # A barrier: what runs with the user of the service goes on with it until its own is there.
    after = (creds, *made)
    return Identity(
        name="Identity", objects=tuple(wanted), after=after, own=made, options=options, barrier=bool(program)
    )


def _kept_by(clouds: str | None) -> dict[str, str]:
    return {"provider": "k-orc"} if clouds else {}


def _users(
    ctx: Context[Any], ref: Ref, clouds: str, creds: Credentials, password: str, name: str, called: str
) -> tuple[Step, ...]:
    """Those K-ORC makes. It tries ever more seldom what it fails in, so that it is asked once Keystone is there."""
    found = requires(ctx, "Identity", ref)
    objects = [
        obj
        for each in creds.of(password)
        for obj in service_user(ctx, clouds, each.resource(name), each.called(called), creds, each)
    ]
    return found, Step(name="Identity", objects=tuple(objects), after=(creds, found))


def _auth(ctx: Context[Any], url: str, login: Mapping[str, str], trust: str) -> dict[str, str]:
    whole = {"auth_url": url, **login, "region_name": ctx.spec.region}
    return {**whole, "cafile": trust} if trust else whole


def catalog(
    ctx: Context[Any],
    type_: str,
    description: str,
    api: Api,
    *,
    internal: Api | None = None,
    path: str = "",
    keystone: str = "",
    name: str = "catalog",
    after: Sequence[Step],
) -> Step:
    """KeystoneService `<owner>-<name>`: what clients find when they ask where this service lives; where K-ORC keeps
    services, with a Service of its own. `internal` is the API that the cloud's own services call, where that is another
    one. `keystone` is the name of the Keystone where the spec does not say it; `name` differs for a second entry. Where
    Keystone is not one of ours, a step that says what others have to register.
    """
    endpoints = {"internal": (internal or api).internal + path, "public": api.public + path}
    if not keystone and ctx.spec.keystone.auth_url:
        told = ", ".join(f"{interface} {url}" for interface, url in endpoints.items())
        return by_others("Endpoint", f"the catalog's entry {type_!r} of region {ctx.spec.region} ({told})", after)
    ref = None if keystone else ctx.spec.keystone.keystone_ref or KEYSTONE
    clouds = ctx.refs[ref].published.get(KORC) if ref else None
    wanted = remote(
        ctx,
        "KeystoneService",
        ctx.name(name),
        {
            "keystoneRef": {"name": ref.name if ref else keystone},
            "type": type_,
            "name": ctx.owner,
            "description": description,
            "region": ctx.spec.region,
            "endpoints": endpoints,
            **_kept_by(clouds),
        },
    )
    if not clouds:
        return Step(name="Endpoint", objects=(wanted,), after=tuple(after))
    resource = {"type": type_, "name": ctx.owner, "description": description}
    service = kept(ctx, clouds, "Service", ctx.name(name), resource, "spec.keystone")
    first = Step(name="Endpoint", objects=(service,), after=tuple(after))
    return Step(name="Endpoint", objects=(wanted,), after=(first,), own=(first,))


def by_others(name: str, what: str, after: Sequence[Step] = ()) -> Step:
    """A step that keeps nobody waiting, and says what takes an administrator of a Keystone that is not one of ours."""
    text = f"spec.keystone.authUrl comes without an administrator, so others have to make {what}"
    return Step(name=name, verdict=Verdict(State.READY, text), after=tuple(after))


def waits(ctx: Context[Any]) -> tuple[Step, ...]:
    """A step that is ready when everything is that the spec says it depends on, if it says anything. Raises SpecError
    where that is the resource itself.
    """
    wanted: Sequence[Dependency] = ctx.spec.depends_on
    if (ctx.kind, ctx.owner) in {(each.kind, each.name) for each in wanted}:
        raise SpecError("spec.dependsOn", f"{ctx.kind}/{ctx.owner} cannot wait for itself; remove it from the list")
    found = [ctx.awaited.get(each) or kube.awaited(None, each) for each in wanted]
    return (Step(name="Dependencies", verdict=worst(found)),) if found else ()


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
    waits: tuple[Step, ...]
    """What the user has it wait for, among the steps."""

    @property
    def schema(self) -> tuple[Step, ...]:
        """What the schema needs: the database alone, so that it is made while Keystone still starts."""
        return tuple(step for step in (self.credentials, self.database) if step)

    @property
    def connected(self) -> kube.Probe:
        """Readiness of a program that only speaks RPC."""
        return self.messaging.connected if self.messaging else connected()

    @property
    def auth(self) -> Mapping[str, str]:
        """keystoneauth options of the service user."""
        return self.identity.options if self.identity else {}


def foundation(ctx: Context[Any], *extra: str, section: str = "database") -> Foundation:
    """Credentials, database, broker and user as the spec's mixins ask; `extra` are further passwords, `section` the
    name of the database section in the service's configuration.
    """
    spec = ctx.spec
    creds = credentials(ctx, *drawn(spec), *extra, rotates=True)
    db = bus = user = news = None
    waited = waits(ctx)
    layers: list[Sections] = []
    if isinstance(spec, UsesDatabase):
        source = spec.database
        db = database(ctx, creds, "database", schema_of(ctx, source, sql_name(ctx.owner)), source=source)
        layers.append({section: oslo.options.database(db.url)})
    if isinstance(spec, UsesMessaging):
        bus = messaging(ctx, creds, "messaging", source=spec.messaging)
        news = notifications(ctx, creds, broker=spec.messaging.notifications_ref)
        layers.append(bus.options(news))
    if isinstance(spec, UsesIdentity):
        user = identity(ctx, creds, "identity")
        layers.append(keystone_authtoken(ctx, user.options, creds))
    return Foundation(
        credentials=creds,
        steps=(*(step for step in (creds, db, bus, news, user) if step), *waited),
        waits=waited,
        sections=oslo.merge(*layers),
        database=db,
        messaging=bus,
        identity=user,
    )


def sql_name(name: str) -> str:
    """A resource's name as an SQL identifier, which MariaDB wants no longer than 64 characters."""
    return fitting(name).replace("-", "_").replace(".", "_")
