"""What a service leans on: a resource of ours by its name, or a server of others by where it is and how to log in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .destinations import sent
from .fields import AuthUrl, DatabaseName, Hostname, Name, Port, Server, settled
from .model import Destination, Model, Rule, rule
from .refs import AppSecretRef, KeystoneRef, LoginSecretRef, MariaDBRef, MemcachedRef, RabbitMQRef, Ref

MARIADB, RABBITMQ = MariaDBRef(name="mariadb"), RabbitMQRef(name="rabbitmq")
MEMCACHED, KEYSTONE = MemcachedRef(name="memcached"), KeystoneRef(name="keystone")
"""Who is meant where nobody says it."""


def _either(ref: str, login: str, default: Ref, what: str) -> tuple[Rule, ...]:
    """CEL rules: a reference or a Secret, not both; and the one that holds, unset is `default`, stays. A server of ours
    and one of others do not change places: the account that was made would be dropped under those who use it.
    """
    meant = f"(has(self.{login}) ? '' : has(self.{ref}) ? self.{ref}.name : '{default.name}')"
    return (
        rule(f"!has(self.{ref}) || !has(self.{login})", f"name one; remove {ref} or {login}", f".{login}"),
        rule(
            f"{meant} == {meant.replace('self', 'oldSelf')}",
            f"{what} cannot be changed once set; create a new resource instead",
            f".{ref}",
        ),
    )


class DatabaseSource(Model):
    """Where a service keeps its tables."""

    rules: ClassVar[tuple[Rule, ...]] = (
        settled("database", "the database's name"),
        *_either("mariadbRef", "secretRef", MARIADB, "the server of a schema"),
        rule(
            "has(self.secretRef) || (!has(self.host) && !has(self.port))",
            "mariadbRef knows where that is; remove host and port, or name a Secret in secretRef",
            ".host",
        ),
    )

    mariadb_ref: MariaDBRef | None = Field(default=None, alias="mariadbRef")
    """Server that holds the schema; unset is `mariadb`, unless there is a secretRef. Cannot be changed, since data does
    not move by itself."""
    secret_ref: LoginSecretRef | None = None
    """How to log in to a server that is not looked after here: a Secret with `username` and `password`, and where the
    spec does not say it `host`, `port` and `database`; with `ca.crt` by TLS, checked by that. The schema and the rights
    of that account are yours to make."""
    host: Hostname | None = None
    """Server of the schema where there is a secretRef; unset is what the Secret says, and without that the Service
    `mariadb` of this namespace."""
    port: Port | None = None
    """Its port; unset is what the Secret says, and without that 3306."""
    database: DatabaseName | None = None
    """Name of the schema; unset takes the service's name."""

    def implied(self) -> Mapping[str, Any]:
        """The server nobody named."""
        return {} if self.mariadb_ref or self.secret_ref else {"mariadbRef": MARIADB}

    def destinations(self) -> Sequence[Destination]:
        """The server, where not the Secret says it."""
        return sent({"secretRef": self.secret_ref}, self.host)


class MessagingSource(Model):
    """Where a service sends its RPC."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *_either("rabbitmqRef", "secretRef", RABBITMQ, "the broker"),
        rule(
            "has(self.secretRef) || !has(self.hosts)",
            "rabbitmqRef knows where that is; remove hosts, or name a Secret in secretRef",
            ".hosts",
        ),
    )

    rabbitmq_ref: RabbitMQRef | None = Field(default=None, alias="rabbitmqRef")
    """Broker; the service gets a virtual host of its own in it. Unset is `rabbitmq`, unless there is a secretRef.
    Cannot be changed."""
    secret_ref: LoginSecretRef | None = None
    """How to log in to a broker that is not looked after here: a Secret with `username` and `password`; `vhost`, the
    virtual host, without which it is `/`; where hosts is unset `host` and `port`; with `ca.crt` by TLS, checked by
    that. The virtual host and the rights of that user are yours to make."""
    hosts: Annotated[list[Server], Field(min_length=1, max_length=16)] | None = None
    """Members of that broker, or one address for all of them, which is better where there is one; unset is what the
    Secret says, and without that the Service `rabbitmq` of this namespace. Ports are 5672, with TLS 5671, unless they
    are said."""

    def implied(self) -> Mapping[str, Any]:
        """The broker nobody named."""
        return {} if self.rabbitmq_ref or self.secret_ref else {"rabbitmqRef": RABBITMQ}

    def destinations(self) -> Sequence[Destination]:
        """The members, where not the Secret says them."""
        return sent({"secretRef": self.secret_ref}, *(self.hosts or ()))


class ServiceMessaging(MessagingSource):
    """Where a service sends its RPC, and what it tells the world."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.notificationsRef) || !has(oldSelf.notificationsRef) "
            "|| self.notificationsRef == oldSelf.notificationsRef",
            "what was sent does not move; unset notificationsRef first, then name the other broker",
            ".notificationsRef",
        ),
    )

    notifications_ref: RabbitMQRef | None = None
    """Broker that takes the service's notifications (oslo.messaging's messagingv2) in a virtual host of their own,
    where each queue keeps the newest 256 MiB; unset sends none."""


class CacheSource(Model):
    """Where a service caches tokens."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("!has(self.memcachedRef) || !has(self.servers)", "name one; remove memcachedRef or servers", ".servers"),
    )

    memcached_ref: MemcachedRef | None = None
    """The cache; unset is `memcached`, unless servers are named, or an authUrl of Keystone: then nothing is cached."""
    servers: Annotated[list[Server], Field(min_length=1, max_length=16)] | None = None
    """Memcached servers that are not looked after here, spoken to in plain text; their ports are 11211 unless they are
    said."""


class ResultsSource(CacheSource):
    """Where a service caches tokens and what it has worked out."""

    backend: Literal["oslo_cache.memcache_pool", "dogpile.cache.pymemcache"] = "oslo_cache.memcache_pool"
    """How oslo.cache talks to it. dogpile.cache.pymemcache has no timeout: a server that is cut off, not merely gone,
    stalls whoever asks it for minutes."""


class AppCredentialRef(Model):
    """A Secret in the same namespace that says how to log in to Keystone: with `application_credential_id` and
    `application_credential_secret`, with `clouds.yaml`, or with `username` and `password`, and for these
    `user_domain_name` and `project_domain_name` (unset is Default) and `project_name` (unset is service). With `ca.crt`
    or `cacert` Keystone, and what is found through it, is checked by that."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("!has(self.secretName) || !has(self.name)", "these are the same; set secretName alone", ".secretName"),
    )

    secret_name: Name | None = None
    """Name of the Secret. Its clouds.yaml has one cloud, or one called `openstack`."""
    name: Name | None = None
    """The same."""

    def implied(self) -> Mapping[str, Any]:
        """The Secret, under the field that names it."""
        named = {"secretName": self.secret_name, "name": self.name}
        return {field: AppSecretRef(name=name) for field, name in named.items() if name}


_NAMED = "has(self.appCredentialRef) && (has(self.appCredentialRef.secretName) || has(self.appCredentialRef.name))"


class IdentitySource(Model):
    """Who authenticates a service."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *_either("keystoneRef", "authUrl", KEYSTONE, "keystoneRef"),
        rule(
            f"has(self.authUrl) || !({_NAMED})",
            "a user is made in what keystoneRef names; remove appCredentialRef, or say in authUrl where Keystone is",
            ".appCredentialRef",
        ),
        rule(
            f"!has(self.authUrl) || ({_NAMED})",
            "say how to log in there; set appCredentialRef.secretName",
            ".appCredentialRef",
        ),
    )

    keystone_ref: KeystoneRef | None = None
    """Keystone that authenticates this service and lists its endpoints; unset is `keystone`, unless there is an
    authUrl. Cannot be changed."""
    auth_url: AuthUrl | None = None
    """A Keystone that is not looked after here, or that others fill: nothing is registered there, neither a user nor an
    endpoint."""
    app_credential_ref: AppCredentialRef | None = None
    """How to log in there, as a user with the role `service`."""

    def implied(self) -> Mapping[str, Any]:
        """The Keystone nobody named."""
        return {} if self.keystone_ref or self.auth_url else {"keystoneRef": KEYSTONE}

    def destinations(self) -> Sequence[Destination]:
        """That Keystone."""
        refs = self.app_credential_ref.implied() if self.app_credential_ref else {}
        return sent({f"appCredentialRef.{name}": ref for name, ref in refs.items()}, self.auth_url)


class UsesDatabase(Model):
    """Mixed into the spec of a service that keeps its state in SQL."""

    database: DatabaseSource = DatabaseSource()
    """Database of this service."""


class UsesMessaging(Model):
    """Mixed into the spec of a service that talks over RabbitMQ."""

    messaging: ServiceMessaging = ServiceMessaging()
    """Broker of this service."""


class UsesCache(Model):
    """Mixed into the spec of a service that caches in Memcached."""

    cache: CacheSource = CacheSource()
    """Cache of this service."""

    def implied(self) -> Mapping[str, Any]:
        """The cache nobody named."""
        return _implied_cache(self, self.cache)


class CachesResults(Model):
    """Mixed into the spec of a service that also remembers what it has worked out."""

    cache: ResultsSource = ResultsSource()
    """Cache of this service."""

    def implied(self) -> Mapping[str, Any]:
        """The cache nobody named."""
        return _implied_cache(self, self.cache)


def _implied_cache(spec: Model, source: CacheSource) -> dict[str, MemcachedRef]:
    """None where Keystone is elsewhere: a service on its own must not wait for a cache its cloud may not have."""
    alone = isinstance(spec, UsesIdentity) and spec.keystone.auth_url
    return {} if source.memcached_ref or source.servers or alone else {"cache.memcachedRef": MEMCACHED}


class UsesIdentity(Model):
    """Mixed into the spec of a service that authenticates with Keystone."""

    keystone: IdentitySource = IdentitySource()
    """Identity of this service."""
