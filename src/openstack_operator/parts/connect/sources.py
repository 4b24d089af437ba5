"""Dependencies of a service, each as a step with its settings: database, broker, identity, cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ... import kube, oslo
from ...api import (
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
    UsesNotifications,
)
from ...plan import Context, SpecError, State, Step, Verdict, condition_fault, fitting, split_port, url_host, worst
from ..run.workloads import Api, connected
from ..secrets.credentials import Credentials, credentials
from ..secrets.tls import peers, trust_of
from .caches import TOKEN_CACHE, caches_tokens, keystone_authtoken
from .coordinates import address, keystone_login, login, remembered, schema_of
from .korc import KORC, managed, service_user
from .remote import remote
from .remote import schema as schema_on
from .remote import vhost as vhost_on
from .transport import Messaging, rabbit_url


@dataclass(frozen=True, kw_only=True, eq=False)
class Database(Step):
    """A schema and the account that owns it."""

    url: str
    server: str = ""
    """Resource of its server, if that is one of ours."""


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
    """Return `<owner>-<name>`: `schema` with an account of the same name and the password of that name, a
    MariaDBDatabase or the resources of the operator that runs the server. If `source`, the field `path`, names a
    Secret, only a note of the schema's address is made. Raises SpecError if the schema had another address before.
    """
    if source.secret_ref:
        at = login(ctx, source.secret_ref, f"{path}.secretRef")
        host, port = address(at, source.host, source.port, (ctx.host(MARIADB.name), 3306))
        address_note = remembered(ctx, name, f"{host}:{port}/{schema}", path)
        url = _mysql(at.account, host, port, schema, at.trust)
        return Database(name="Database", objects=(address_note,), guarded=True, url=url)
    server = source.mariadb_ref or MARIADB
    objects = schema_on(ctx, server, schema, name, creds, password)
    server_contract = ctx.refs[server]
    account = f"{creds.of(password)[0].called(schema)}:{quote(creds[password], safe='')}"
    url = _mysql(account, server_contract["host"], server_contract["port"], schema, trust_of(server_contract.published))
    return Database(name="Database", objects=objects, after=(creds,), url=url, server=f"MariaDB/{server.name}")


def _mysql(account: str, host: str, port: object, schema: str, trust: str) -> str:
    # With an authority the driver verifies the chain, and the name it called.
    return f"mysql+pymysql://{account}@{url_host(host)}:{port}/{schema}?charset=utf8" + (
        f"&ssl_ca={trust}" if trust else ""
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
    """Return a virtual host for this service alone, or for its part `name`, so that a flood of messages in one does not
    reach another: a RabbitMQVhost, or the resources of the operator that runs the broker. If `source`, the field
    `path`, names a Secret, nothing is made, and a part with a name uses the virtual host `<owner>-<name>`.
    """
    if source.secret_ref is None:
        return _vhost(ctx, creds, password, broker=source.rabbitmq_ref or RABBITMQ, name=name)
    at = login(ctx, source.secret_ref, f"{path}.secretRef")
    usual = 5671 if at.trust else 5672
    hosts = [split_port(host) for host in source.hosts or ()]
    secret_address = address(at, None, None, (ctx.host(RABBITMQ.name), usual))
    members = [(host, int(port or usual)) for host, port in hosts] or [secret_address]
    listed = ",".join(f"{at.account}@{url_host(host)}:{port}" for host, port in members)
    vhost = ctx.name(name) if name else at.get("vhost") or "/"
    return Messaging(
        name="Messaging",
        url=rabbit_url(listed, vhost, at.trust),
        clustered=len(members) > 1,
        ports=frozenset(port for _, port in members),
    )


def _vhost(
    ctx: Context[Any], creds: Credentials, password: str, *, broker: RabbitMQRef, name: str, limit: str | None = None
) -> Messaging:
    """Return the step of a virtual host; `limit` is a quantity, the maximum size of a queue before it drops old
    messages.
    """
    vhost = ctx.name(name) if name else ctx.owner
    objects = vhost_on(ctx, broker, vhost, name or "messaging", creds, password, limit=limit)
    at = ctx.refs[broker]
    host = (
        f"{creds.of(password)[0].called(vhost)}:{quote(creds[password], safe='')}@{url_host(at['host'])}:{at['port']}"
    )
    url = rabbit_url(host, vhost, trust_of(at.published))
    clustered = at.published.get("clustered") == "true"
    server = f"RabbitMQ/{broker.name}"
    return Messaging(
        name="Messaging",
        objects=objects,
        after=(creds,),
        url=url,
        server=server,
        clustered=clustered,
        quorum_only=at.published.get("quorumOnly") == "true",
    )


_NOTIFICATIONS = "notifications"


def notifications(ctx: Context[Any], creds: Credentials, *, broker: RabbitMQRef | None) -> Messaging | None:
    """Return RabbitMQVhost `<owner>-notifications` for the service's notifications; None without a broker for them. A
    queue has a maximum size, since it may have no consumer.
    """
    if broker is None:
        return None
    return _vhost(ctx, creds, _NOTIFICATIONS, broker=broker, name=_NOTIFICATIONS, limit="256Mi")


def password_names(spec: Any) -> tuple[str, ...]:
    """Return the names of the passwords a service needs for its accounts: database, broker, user and notifications."""
    password_uses = {
        "database": isinstance(spec, UsesDatabase) and not spec.database.secret_ref,
        "messaging": isinstance(spec, UsesMessaging) and not spec.messaging.secret_ref,
        "identity": isinstance(spec, UsesIdentity) and not spec.keystone.auth_url,
        _NOTIFICATIONS: isinstance(spec, (UsesMessaging, UsesNotifications)) and spec.messaging.notifications_ref,
        TOKEN_CACHE: caches_tokens(spec),
    }
    return tuple(name for name, is_used in password_uses.items() if is_used)


@dataclass(frozen=True, kw_only=True, eq=False)
class Identity(Step):
    """A service user."""

    options: Mapping[str, str]
    """keystoneauth options, fit for any section that logs in as this user."""
    interface: str = "internal"
    """Interface of the catalog by which it calls other services."""

    @property
    def trust(self) -> dict[str, str]:
        """Option with which clients verify all APIs of this Keystone's catalog: `cafile`, if any."""
        return {name: value for name, value in self.options.items() if name == "cafile"}


def identity(
    ctx: Context[Any],
    creds: Credentials,
    password: str,
    *,
    program: str = "",
    roles: Sequence[str] = (),
    retained: bool = False,
) -> Identity:
    """Return a KeystoneUser named after the owner, with the roles services need to act for users, or
    `<owner>-<program>`, with those `roles`; if K-ORC manages users, with its User. A `retained` user stays in Keystone
    when the service is deleted. With an external Keystone nothing is made, since the spec has the login.
    """
    source = ctx.spec.keystone
    if source.auth_url:
        login, trust = keystone_login(ctx, source.app_credential_ref)
        return Identity(name="Identity", options=_auth(ctx, source.auth_url, login, trust or peers(ctx, {})))
    ref = source.keystone_ref or KEYSTONE
    at = ctx.refs[ref]
    clouds = at.published.get(KORC)
    name, called = (ctx.name(program, "user"), ctx.name(program)) if program else (ctx.name("user"), ctx.owner)
    users = [
        remote(
            ctx,
            "KeystoneUser",
            each.resource(name),
            {
                "keystoneRef": {"name": ref.name},
                "user": each.called(called),
                "passwordSecretRef": creds.ref(each.key),
                **({"roles": [*roles]} if roles else {}),
                **({"deletionPolicy": "Retain"} if retained else {}),
                **_kept_by(clouds),
            },
        )
        for each in creds.of(password)
    ]
    korc_steps = _users(ctx, ref, clouds, creds, password, name, called) if clouds else ()
    user = {
        "auth_type": "password",
        "username": creds.of(password)[0].called(called),
        "password": oslo.Verbatim(creds[password]),
        "user_domain_name": "Default",
        "project_name": "service",
        "project_domain_name": "Default",
    }
    options = _auth(ctx, at["internalURL"], user, peers(ctx, at.published))
    # A barrier: a program that runs with the service's user keeps it until its own user exists.
    after = (creds, *korc_steps)
    return Identity(
        name="Identity", objects=tuple(users), after=after, substeps=korc_steps, options=options, barrier=bool(program)
    )


def _kept_by(clouds: str | None) -> dict[str, str]:
    return {"provider": "k-orc"} if clouds else {}


def _users(
    ctx: Context[Any], ref: Ref, clouds: str, creds: Credentials, password: str, name: str, called: str
) -> tuple[Step, ...]:
    """Return the steps for users that K-ORC makes. It retries failures ever more rarely, so they wait for Keystone."""
    keystone_ready = requires(ctx, "Identity", ref)
    objects = [
        obj
        for each in creds.of(password)
        for obj in service_user(ctx, clouds, each.resource(name), each.called(called), creds, each)
    ]
    return keystone_ready, Step(name="Identity", objects=tuple(objects), after=(creds, keystone_ready))


def _auth(ctx: Context[Any], url: str, login: Mapping[str, str], trust: str) -> dict[str, str]:
    whole = {"auth_url": url, **login, "region_name": ctx.spec.region}
    return {**whole, "cafile": trust} if trust else whole


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
    """Return KeystoneService `<owner>-<name>`: the service's entry in the catalog; if K-ORC manages services, with its
    Service. `keystone` is the name of the Keystone if the spec does not name it; `name` differs for a second entry.
    With an external Keystone, a step that says what its administrator has to register.
    """
    endpoints = {"internal": api.internal + path, "public": api.public + path}
    if not keystone and ctx.spec.keystone.auth_url:
        urls = ", ".join(f"{interface} {url}" for interface, url in endpoints.items())
        return manual_step("Endpoint", f"the catalog's entry {type_!r} of region {ctx.spec.region} ({urls})", after)
    ref = None if keystone else ctx.spec.keystone.keystone_ref or KEYSTONE
    clouds = ctx.refs[ref].published.get(KORC) if ref else None
    entry = remote(
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
        return Step(name="Endpoint", objects=(entry,), after=tuple(after))
    resource = {"type": type_, "name": ctx.owner, "description": description}
    service = managed(ctx, clouds, "Service", ctx.name(name), resource, "spec.keystone")
    korc_service = Step(name="Endpoint", objects=(service,), after=tuple(after))
    return Step(name="Endpoint", objects=(entry,), after=(korc_service,), substeps=(korc_service,))


def manual_step(name: str, task: str, after: Sequence[Step] = ()) -> Step:
    """Return a step that is always ready, and names a task for the administrator of an external Keystone."""
    text = f"spec.keystone.authUrl has no administrator: create {task} yourself"
    return Step(name=name, verdict=Verdict(State.READY, text), after=tuple(after))


def waits(ctx: Context[Any]) -> tuple[Step, ...]:
    """Return a step that is ready when all resources in the spec's dependsOn are, if there are any. Raises SpecError if
    one of them is the resource itself, or if its kind never has the condition.
    """
    dependencies: Sequence[Dependency] = ctx.spec.depends_on
    faults = [
        (f"spec.dependsOn[{index}].condition", text)
        for index, each in enumerate(dependencies)
        if (text := condition_fault(each.kind, each.condition))
    ]
    if faults:
        raise SpecError(*faults[0], *faults[1:])
    if (ctx.kind, ctx.owner) in {(each.kind, each.name) for each in dependencies}:
        raise SpecError("spec.dependsOn", f"{ctx.kind}/{ctx.owner} cannot wait for itself; remove it from the list")
    verdicts = [ctx.dependencies.get(each) or kube.dependency_verdict(None, each) for each in dependencies]
    return (Step(name="Dependencies", verdict=worst(verdicts)),) if verdicts else ()


def requires(ctx: Context[Any], name: str, ref: Ref) -> Step:
    """Return a step that is ready when the referent is; it applies nothing."""
    return Step(name=name, verdict=ctx.refs[ref].verdict)


@dataclass(frozen=True, kw_only=True)
class Foundation:
    """Dependencies of the service, as the mixins of its spec state them."""

    credentials: Credentials
    steps: tuple[Step, ...]
    sections: Sections
    database: Database | None
    messaging: Messaging | None
    identity: Identity | None
    waits: tuple[Step, ...]
    """Steps for the dependencies the user adds; part of `steps`."""

    @property
    def schema(self) -> tuple[Step, ...]:
        """Steps that the schema needs: only the database, so that the job runs while Keystone still starts."""
        return tuple(step for step in (self.credentials, self.database) if step)

    @property
    def connected(self) -> kube.Probe:
        """Readiness of a program that only speaks RPC."""
        return self.messaging.connected if self.messaging else connected()

    @property
    def auth(self) -> Mapping[str, str]:
        """Options of keystoneauth for the service user."""
        return self.identity.options if self.identity else {}


def foundation(ctx: Context[Any], *extra: str, section: str = "database", service_type: str = "") -> Foundation:
    """Return credentials, database, broker and user for the spec's mixins; `extra` are further passwords, `section` is
    the name of the database section in the service's configuration, `service_type` the type of its entry in the
    catalog.
    """
    spec = ctx.spec
    creds = credentials(ctx, *password_names(spec), *extra, rotates=True)
    db = bus = user = notifications_step = None
    waited = waits(ctx)
    layers: list[Sections] = []
    if isinstance(spec, UsesDatabase):
        source = spec.database
        db = database(ctx, creds, "database", schema_of(ctx, source, sql_name(ctx.owner)), source=source)
        layers.append({section: oslo.options.database(db.url)})
    if isinstance(spec, UsesMessaging):
        bus = messaging(ctx, creds, "messaging", source=spec.messaging)
        notifications_step = notifications(ctx, creds, broker=spec.messaging.notifications_ref)
        layers.append(bus.options(notifications_step))
    if isinstance(spec, UsesNotifications) and (
        notifications_step := notifications(ctx, creds, broker=spec.messaging.notifications_ref)
    ):
        layers.append(oslo.options.notifications(notifications_step.url, clustered=notifications_step.clustered))
    if isinstance(spec, UsesIdentity):
        user = identity(ctx, creds, "identity")
        layers.append(keystone_authtoken(ctx, user.options, creds, service_type))
    return Foundation(
        credentials=creds,
        steps=(*(step for step in (creds, db, bus, notifications_step, user) if step), *waited),
        waits=waited,
        sections=oslo.merge(*layers),
        database=db,
        messaging=bus,
        identity=user,
    )


def sql_name(name: str) -> str:
    """Return a resource's name as an SQL identifier, of which MariaDB allows 64 characters."""
    return fitting(name).replace("-", "_").replace(".", "_")
