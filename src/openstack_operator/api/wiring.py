"""Dependencies of a service: a resource of ours by its name, or an external server by its address and login."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .destinations import sent
from .fields import AuthUrl, DatabaseName, HostOrAddress, Name, Port, Server, immutable_optional
from .model import Destination, Model, Rule, rule
from .refs import AppSecretRef, BarbicanRef, KeystoneRef, LoginSecretRef, MariaDBRef, MemcachedRef, RabbitMQRef, Ref

MARIADB, RABBITMQ = MariaDBRef(name="mariadb"), RabbitMQRef(name="rabbitmq")
MEMCACHED, KEYSTONE = MemcachedRef(name="memcached"), KeystoneRef(name="keystone")
"""Default references, for specs that name none."""


def _one_of(ref: str, login: str) -> Rule:
    """Return the CEL rule for a reference or a Secret, not both."""
    return rule(
        f"!has(self.{ref}) || !has(self.{login})", (f"{ref} and {login} exclude each other; remove one"), f".{login}"
    )


def _either(ref: str, login: str, default: Ref, subject: str) -> tuple[Rule, ...]:
    """Return the CEL rules for a reference or a Secret, not both, of which the one in use (`default`, if unset) cannot
    be changed. A server of ours and an external one cannot replace each other: the account made on the first would be
    dropped while in use.
    """
    meant = f"(has(self.{login}) ? '' : has(self.{ref}) ? self.{ref}.name : '{default.name}')"
    return (
        _one_of(ref, login),
        rule(
            f"{meant} == {meant.replace('self', 'oldSelf')}",
            f"{subject} cannot be changed once set; create a new resource instead",
            f".{ref}",
        ),
    )


class DatabaseSource(Model):
    """Database server and schema of a service."""

    rules: ClassVar[tuple[Rule, ...]] = (
        immutable_optional("database", "the database's name"),
        *_either("mariadbRef", "secretRef", MARIADB, "the server of a schema"),
        rule(
            "has(self.secretRef) || (!has(self.host) && !has(self.port))",
            "mariadbRef has the address already; remove host and port, or set secretRef",
            ".host",
        ),
    )

    mariadb_ref: MariaDBRef | None = Field(default=None, alias="mariadbRef")
    """MariaDB that holds the schema, `mariadb` if neither this nor secretRef is set. Cannot be changed, since data does
    not move by itself."""
    secret_ref: LoginSecretRef | None = None
    """Secret with the login of an external server. It has `username` and `password`, and `host`, `port` and `database`
    if the spec does not set them. With `ca.crt`, connections use TLS and verify the server with it. Create the schema
    and grant that account its rights yourself."""
    host: HostOrAddress | None = None
    """Host of the external server, the Secret's if unset. Without that it is the Service `mariadb` of this namespace.
    Only with secretRef."""
    port: Port | None = None
    """Port of the external server, the Secret's if unset. Without that it is 3306."""
    database: DatabaseName | None = None
    """Name of the schema, the service's name if unset. Cannot be changed."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default server if the spec names none."""
        return {} if self.mariadb_ref or self.secret_ref else {"mariadbRef": MARIADB}

    def destinations(self) -> Sequence[Destination]:
        """Return the server, unless the Secret names it."""
        return sent({"secretRef": self.secret_ref}, self.host)


class MessagingSource(Model):
    """Broker of a service's RPC."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _one_of("rabbitmqRef", "secretRef"),
        rule(
            "has(self.secretRef) == has(oldSelf.secretRef)",
            "a RabbitMQ and an external broker cannot replace each other; create a new resource instead",
            ".secretRef",
        ),
        rule(
            "has(self.secretRef) || !has(self.hosts)",
            "rabbitmqRef has the address already; remove hosts, or set secretRef",
            ".hosts",
        ),
    )

    rabbitmq_ref: RabbitMQRef | None = Field(default=None, alias="rabbitmqRef")
    """RabbitMQ with the service's virtual host, `rabbitmq` if neither this nor secretRef is set. After a change, the
    service moves to the new one."""
    secret_ref: LoginSecretRef | None = None
    """Secret with the login of an external broker. It has `username` and `password`; `vhost`, the virtual host, without
    which it is `/`; and `host` and `port` if hosts is unset. With `ca.crt`, connections use TLS and verify the broker
    with it. Create the virtual host and grant that user its rights yourself."""
    hosts: Annotated[list[Server], Field(min_length=1, max_length=16)] | None = None
    """Addresses of the external broker's members, or preferably one common address. If unset, it is the Secret's
    `host`, or else the Service `rabbitmq` of this namespace. The default port is 5672, with TLS 5671."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default broker if the spec names none."""
        return {} if self.rabbitmq_ref or self.secret_ref else {"rabbitmqRef": RABBITMQ}

    def destinations(self) -> Sequence[Destination]:
        """Return the members, unless the Secret names them."""
        return sent({"secretRef": self.secret_ref}, *(self.hosts or ()))


class ServiceMessaging(MessagingSource):
    """Broker of a service's RPC, and the one of its notifications."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.notificationsRef) || !has(oldSelf.notificationsRef) "
            "|| self.notificationsRef == oldSelf.notificationsRef",
            "queued notifications do not move; unset notificationsRef first, then set the other broker",
            ".notificationsRef",
        ),
    )

    notifications_ref: RabbitMQRef | None = None
    """RabbitMQ for the service's notifications, none if unset. They use oslo.messaging's driver messagingv2 in a
    separate virtual host, where each queue keeps the newest 256 MiB."""


class NotificationsSource(Model):
    """Broker of the notifications of a service without RPC."""

    rules: ClassVar[tuple[Rule, ...]] = ServiceMessaging.rules[-1:]

    notifications_ref: RabbitMQRef | None = None
    """RabbitMQ for the service's notifications, none if unset. They use oslo.messaging's driver messagingv2 in a
    separate virtual host, where each queue keeps the newest 256 MiB."""


class CacheSource(Model):
    """Cache of a service's tokens."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.memcachedRef) || !has(self.servers)",
            ("memcachedRef and servers exclude each other; remove one"),
            ".servers",
        ),
    )

    memcached_ref: MemcachedRef | None = None
    """Memcached to use, `memcached` if servers is unset, too. If both are unset and Keystone is an authUrl, the service
    does not cache."""
    servers: Annotated[list[Server], Field(min_length=1, max_length=16)] | None = None
    """External Memcached servers, used in plain text. The default port is 11211."""


class ResultsSource(CacheSource):
    """Cache of a service's tokens and computed results."""

    backend: Literal["oslo_cache.memcache_pool", "dogpile.cache.pymemcache"] = "oslo_cache.memcache_pool"
    """Driver of oslo.cache. dogpile.cache.pymemcache has no timeout: a server that cannot be reached, rather than
    stopped, stalls each request to it for minutes."""


class AppCredentialRef(Model):
    """A Secret in the same namespace with a login for Keystone: `application_credential_id` and
    `application_credential_secret`, or instead of the id `application_credential_name` and `username`; or
    `clouds.yaml`; or `username` and `password`, and for these `user_domain_name` and `project_domain_name` (unset is
    Default) and `project_name` (unset is service). With `ca.crt` or `cacert`,
    clients verify Keystone and the APIs of its catalog with it.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.secretName) || !has(self.name)",
            ("secretName and name mean the same Secret; set secretName only"),
            ".secretName",
        ),
    )

    secret_name: Name | None = None
    """Name of the Secret. Its clouds.yaml has one cloud, or one called `openstack`."""
    name: Name | None = None
    """Name of the Secret, the same as secretName."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the Secret, by the field that names it."""
        names = {"secretName": self.secret_name, "name": self.name}
        return {field: AppSecretRef(name=name) for field, name in names.items() if name}


_HAS_CREDENTIAL = (
    "has(self.appCredentialRef) && (has(self.appCredentialRef.secretName) || has(self.appCredentialRef.name))"
)


class IdentitySource(Model):
    """Keystone that authenticates a service."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *_either("keystoneRef", "authUrl", KEYSTONE, "keystoneRef"),
        rule(
            f"has(self.authUrl) || !({_HAS_CREDENTIAL})",
            "appCredentialRef is for an external Keystone; set authUrl, or remove appCredentialRef",
            ".appCredentialRef",
        ),
        rule(
            f"!has(self.authUrl) || ({_HAS_CREDENTIAL})",
            "authUrl needs a login; set appCredentialRef.secretName",
            ".appCredentialRef",
        ),
    )

    keystone_ref: KeystoneRef | None = None
    """Keystone that authenticates this service and lists its endpoints, `keystone` if authUrl is unset, too. Cannot be
    changed."""
    auth_url: AuthUrl | None = None
    """URL of an external Keystone. The operator registers neither a user nor an endpoint there."""
    app_credential_ref: AppCredentialRef | None = None
    """Login for that Keystone, as a user with the role `service`."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default Keystone if the spec names none."""
        return {} if self.keystone_ref or self.auth_url else {"keystoneRef": KEYSTONE}

    def destinations(self) -> Sequence[Destination]:
        """Return that Keystone."""
        refs = self.app_credential_ref.default_refs() if self.app_credential_ref else {}
        return sent({f"appCredentialRef.{name}": ref for name, ref in refs.items()}, self.auth_url)


class UsesDatabase(Model):
    """Mixed into the spec of a service that keeps its state in SQL."""

    database: DatabaseSource = DatabaseSource()
    """Server and name of this service's database."""


class UsesMessaging(Model):
    """Mixed into the spec of a service that talks over RabbitMQ."""

    messaging: ServiceMessaging = ServiceMessaging()
    """Broker for this service's messages."""


class UsesNotifications(Model):
    """Mixed into the spec of a service that has no RPC and sends notifications over RabbitMQ."""

    messaging: NotificationsSource = NotificationsSource()
    """Broker of this service's notifications."""


class UsesCache(Model):
    """Mixed into the spec of a service that caches in Memcached."""

    cache: CacheSource = CacheSource()
    """Memcached that this service uses as its cache."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default cache if the spec names none."""
        return _implied_cache(self, self.cache)


class CachesResults(Model):
    """Mixed into the spec of a service that also caches computed results."""

    cache: ResultsSource = ResultsSource()
    """Memcached that this service uses as its cache."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default cache if the spec names none."""
        return _implied_cache(self, self.cache)


def _implied_cache(spec: Model, source: CacheSource) -> dict[str, MemcachedRef]:
    """Return no cache with an external Keystone: such a service must not wait for a cache its cloud may not have."""
    alone = isinstance(spec, UsesIdentity) and spec.keystone.auth_url
    return {} if source.memcached_ref or source.servers or alone else {"cache.memcachedRef": MEMCACHED}


class CallsAPIs(Model):
    """Mixed into the spec of a service that calls the APIs of a Keystone's catalog."""


class UsesIdentity(CallsAPIs):
    """Mixed into the spec of a service that authenticates with Keystone."""

    keystone: IdentitySource = IdentitySource()
    """Keystone that this service uses, and its login."""


class UsesKeyManager(Model):
    """Mixed into the spec of a service that reads keys of its users' data, or makes them."""

    barbican_ref: BarbicanRef | None = None
    """Barbican with the keys of encrypted volumes and the certificates of signed images, none if unset."""
