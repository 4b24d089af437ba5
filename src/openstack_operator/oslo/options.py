"""Option groups every OpenStack service has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..api import Sections

# innodb_snapshot_isolation and wsrep need no option here; the pool stays small because each API pod has few threads.
POOL = {"max_pool_size": 5, "connection_recycle_time": 280}

# Every program waits for its database, however long that takes, and asks often: after a power cut all of them wait,
# and with oslo's 10 s, and up to 30 s for the broker, they would go on waiting when it is back. One that ends after a
# number of tries comes back later still: Kubernetes waits longer before each new start of a container.
SOON = {"retry_interval": 2, "max_retries": -1}


def database(url: str) -> dict[str, object]:
    """Return [database] of a service."""
    return {"connection": url, **POOL, **SOON}


# A member that does not answer costs each process one wait of this long in ten seconds, and a miss after that. Less
# is too short for a member that is only busy.
_ANSWER_WITHIN = {"memcache_socket_timeout": 0.09, "memcache_dead_retry": 10}

# The middleware reads whole seconds, unless its image says in the environment that it has been taught better.
_TOKEN_CACHE = {
    "memcache_use_advanced_pool": True,
    "memcache_pool_socket_timeout": 1,
    "memcache_pool_dead_retry": 10,
}


@dataclass(frozen=True)
class Memcached:
    """Cache servers of a service."""

    servers: str = ""
    """host:port[,host:port]; without one nothing is cached."""
    trust: str = ""
    """Path of the authorities by which they are checked; without it they are spoken to in plain text."""
    certificate: str = ""
    """Folder of the certificate that they are shown (`tls.crt`, `tls.key`); empty where they ask for none."""

    def tls(self, prefix: str = "") -> dict[str, object]:
        """Return the options by which clients use TLS; none without authorities."""
        if not self.trust:
            return {}
        files = {"certfile": "tls.crt", "keyfile": "tls.key"} if self.certificate else {}
        file_options = {f"{prefix}tls_{option}": f"{self.certificate}/{file}" for option, file in files.items()}
        return {f"{prefix}tls_enabled": True, f"{prefix}tls_cafile": self.trust, **file_options}


def cache(backend: str, memcached: Memcached) -> dict[str, object]:
    """Return [cache] of a service in Memcached."""
    return {
        "enabled": bool(memcached.servers),
        "backend": backend,
        "memcache_servers": memcached.servers,
        **memcached.tls(),
        # memcache_pool_flush_on_reconnect stays off: where a busy member answers the flush too late, memcache.py 1.60
        # keeps the connection, and every question on it from then on is answered with the answer to the one before.
        **_ANSWER_WITHIN,
    }


def keystone_auth(
    options: Mapping[str, str],
    memcached: Memcached = Memcached(),
    protection: Mapping[str, str] | None = None,
    *,
    service_type: str = "",
) -> dict[str, object]:
    """Return [keystone_authtoken]: how an API checks the tokens it is given; `protection` keeps others from reading and
    forging cached ones. Without the `service_type` of its entry in the catalog, the middleware refuses each token of an
    application credential that has access rules.
    """
    servers = {"memcached_servers": memcached.servers, **memcached.tls("memcache_"), **_TOKEN_CACHE}
    cached = {**servers, **(protection or {})} if memcached.servers else {}
    return {
        **options,
        "www_authenticate_uri": options["auth_url"],
        "service_token_roles": "service",
        "service_token_roles_required": True,
        **({"service_type": service_type} if service_type else {}),
        **cached,
    }


def token_protection(secret: str, *, encrypted: bool) -> dict[str, str]:
    """Return the options of [keystone_authtoken] that sign, or encrypt, cached tokens with a secret of the service."""
    return {"memcache_security_strategy": "ENCRYPT" if encrypted else "MAC", "memcache_secret_key": secret}


_TRANSIENT = "rabbit_transient_quorum_queue"
CLUSTERED = {
    # A member that is frozen or cut off says nothing: twice this time without a heartbeat, and a client goes elsewhere.
    "heartbeat_timeout_threshold": 5,
    "kombu_reconnect_delay": 0.1,
    # A queue for replies that were on one member alone would be lost with it, and with it the answers under way.
    _TRANSIENT: True,
}
"""[oslo_messaging_rabbit] of a client of a broker with several members."""


def messaging(url: str, *, clustered: bool = False, quorum_only: bool = False, notifications: str = "") -> Sections:
    """Return the options of RPC over quorum queues, which survive the loss of a broker member, and of notifications if
    there is a URL for them. A broker that is `quorum_only` has no other queues.
    """
    sent = {"driver": "messagingv2", "transport_url": notifications} if notifications else {"driver": "noop"}
    return {
        "DEFAULT": {"transport_url": url},
        "oslo_messaging_rabbit": {
            "rabbit_quorum_queue": True,
            "use_queue_manager": True,
            "rabbit_qos_prefetch_count": 16,
            "rabbit_interval_max": 4,
            **(CLUSTERED if clustered else {_TRANSIENT: True} if quorum_only else {}),
        },
        "oslo_messaging_notifications": sent,
    }


def notifications(url: str, *, clustered: bool) -> Sections:
    """Return the options of notifications of an API without RPC. It answers without them if the broker does not take
    them: by default it would wait for the broker without end.
    """
    sections = messaging("", clustered=clustered, notifications=url)
    del sections["DEFAULT"]
    sections["oslo_messaging_notifications"]["retry"] = 2
    return sections


def token_cache(fixed_options: Sections) -> Sections:
    """Return the options that limit how long an API that caches tokens accepts a revoked one: it asks Keystone once a
    minute. The middleware's own is five minutes.
    """
    cached = "memcached_servers" in fixed_options.get("keystone_authtoken", {})
    return {"keystone_authtoken": {"token_cache_time": 60}} if cached else {}


def defaults(*, json_logs: bool = False) -> Sections:
    """Return defaults that users may change: logs to standard error, locks on a writable path."""
    return {
        "DEFAULT": {"use_stderr": True, **({"use_json": True} if json_logs else {})},
        "oslo_concurrency": {"lock_path": "/tmp/lock"},  # noqa: S108  (an emptyDir of the pod)
    }
