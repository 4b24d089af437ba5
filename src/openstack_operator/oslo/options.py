"""Option groups every OpenStack service has."""

from __future__ import annotations

from collections.abc import Mapping

from ..api import Sections

# innodb_snapshot_isolation and wsrep need no option here; the pool stays small because each API pod has few threads.
POOL = {"max_pool_size": 5, "connection_recycle_time": 280}


def database(url: str) -> dict[str, object]:
    """[database] of a service."""
    return {"connection": url, **POOL}


def keystone_auth(options: Mapping[str, str], memcached: str = "") -> dict[str, object]:
    """[keystone_authtoken]: how an API checks the tokens it is given. `memcached` is host:port[,host:port]."""
    cached = {"memcached_servers": memcached, "memcache_use_advanced_pool": True} if memcached else {}
    return {
        **options,
        "www_authenticate_uri": options["auth_url"],
        "service_token_roles": "service",
        "service_token_roles_required": True,
        **cached,
    }


def messaging(url: str) -> Sections:
    """RPC over quorum queues: they survive the loss of a broker member."""
    return {
        "DEFAULT": {"transport_url": url},
        "oslo_messaging_rabbit": {
            "rabbit_quorum_queue": True,
            "use_queue_manager": True,
            "rabbit_qos_prefetch_count": 16,
        },
        "oslo_messaging_notifications": {"driver": "noop"},
    }


def defaults() -> Sections:
    """What users may change: logs to standard error, locks on a writable path."""
    return {
        "DEFAULT": {"use_stderr": True},
        "oslo_concurrency": {"lock_path": "/tmp/lock"},  # noqa: S108  (an emptyDir of the pod)
    }
