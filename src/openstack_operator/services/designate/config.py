"""Files of Designate: its options and the pools."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import oslo, parts
from ...api import Sections
from ...plan import Context, url_host
from .model import DesignateSpec, Pool, PoolServers

API_PORT, MDNS_PORT = 9001, 5354
DNS_PORT, SERVER_PORT = 53, 5353
"""Port for resolvers; port of a server's pod, whose user may open none below 1024."""
FOLDER, FILE = "/etc/designate", "designate.conf"
DATABASE = "storage:sqlalchemy"
_MDNS_SECTIONS = ("DEFAULT", DATABASE, "oslo_messaging_rabbit", "service:central", "service:mdns")

TRANSFER = "transfer"
"""The key of transfers, by the name under which both of its users know it."""
DEFAULT_POOL = "default"
POOL = "794ccc2c-d751-44fe-b57f-8894c9f5c842"
"""Id of the pool that Designate's schema comes with."""
ALGORITHM = "hmac-sha256"

# One process serves many requests at once, in greenthreads. Without it, each program starts one a CPU of the node.
_WORKERS = {"workers": 1}
DEFAULTS: Sections = {
    **{f"service:{program}": _WORKERS for program in ("central", "producer", "mdns")},
    # Designate's own values are for servers far away. In all, it asks a server for a minute.
    "service:worker": {
        **_WORKERS,
        "poll_delay": 1,
        "poll_timeout": 2,
        "poll_retry_interval": 3,
        "poll_max_retries": 12,
    },
    # A zone may stay PENDING if its server cannot reach mdns as it changes: the worker asks for the serial before the
    # change. The producer repeats what took longer than that minute, and what failed.
    "producer_task:worker_periodic_recovery": {"interval": 30},
    # Servers hear of a change of a record only after it.
    "producer_task:increment_serial": {"interval": 1},
    "producer_task:delayed_notify": {"interval": 1},
}


def defaults(spec: DesignateSpec) -> Sections:
    """Return the options that users may change. With several pools, central chooses one by the attributes of a zone,
    without any the default pool, and of several that have all of them one by chance.
    """
    filters = {"scheduler_filters": "attribute,in_doubt_default_pool,random"}
    return oslo.merge(DEFAULTS, {"service:central": filters}) if spec.pools else DEFAULTS


def options(ctx: Context[DesignateSpec], base: parts.Foundation) -> Sections:
    """Return the options of all programs."""
    trust = base.identity.trust.get("cafile") if base.identity else None
    quotas = ctx.spec.quotas.model_dump(exclude_none=True)
    return oslo.merge(
        base.sections,
        {
            "DEFAULT": {
                # Designate reads rules and paste files beside its configuration.
                "state_path": parts.state(ctx),
                # Runs rndc as it is: the worker's user may run nothing as another one.
                "root_helper": "env",
                **{f"quota_{name}": limit for name, limit in quotas.items()},
            },
            "service:api": {"auth_strategy": "keystone", "enable_host_header": True, "enable_api_v2": True},
            "service:central": {"default_pool_id": POOL},
            "service:mdns": {"listen": f"{url_host(ctx.any_address)}:{MDNS_PORT}", "query_enforce_tsig": True},
            # Floating IPs, whose owners may set PTR records.
            "network_api:neutron": {
                "endpoint_type": "internalURL",
                **({"ca_certificates_file": trust} if trust else {}),
            },
        },
    )


def mdns_options(sections: Sections) -> Sections:
    """Return the sections of mini DNS, which reads packets of other hosts: its schema, and a broker to report that it
    lives and that a zone of another master changed. It has no user of Keystone, since it calls no API.
    """
    return {name: options for name, options in sections.items() if name in _MDNS_SECTIONS}


def secret(password: str) -> str:
    """Return a drawn password as a key of HMAC, which DNS writes in base64."""
    return base64.b64encode(password.encode()).decode()


@dataclass(frozen=True, kw_only=True)
class Tsig:
    """A key that signs requests for zones: each pool has one, by which mini DNS knows the pool of the request."""

    name: str
    algorithm: str = ALGORITHM
    secret: str
    """In base64."""

    def entry(self, pool: str) -> dict[str, str]:
        """Return the key as Designate stores it for the pool of that id."""
        fields = {"name": self.name, "algorithm": self.algorithm, "secret": self.secret}
        return {**fields, "scope": "POOL", "resource_id": pool}


@dataclass(frozen=True, kw_only=True)
class ServerPool:
    """A pool of the spec, with the names of what belongs to it. Those of the default pool are the shorter ones."""

    name: str
    spec: PoolServers
    path: str
    """Field of the spec."""
    retired: bool = False

    @property
    def id(self) -> str:
        """Its id in Designate."""
        if self.name == DEFAULT_POOL:
            return POOL
        # The job that removes pools knows those of the operator by it.
        digits = hashlib.sha256(f"{POOL} {self.name}".encode()).hexdigest()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))

    def prefixed(self, name: str) -> str:
        """Return the name of a component of this pool."""
        return name if self.name == DEFAULT_POOL else f"{self.name}-{name}"

    def variable(self, name: str) -> str:
        """Return the name of an environment variable of this pool."""
        return self.prefixed(name).upper().replace("-", "_")

    @property
    def transfer(self) -> str:
        """Name of the drawn key of transfers."""
        return TRANSFER if self.name == DEFAULT_POOL else f"{TRANSFER}-{self.name}"


def server_pools(spec: DesignateSpec) -> Sequence[ServerPool]:
    """Return all pools, the default one first."""
    return [ServerPool(name=DEFAULT_POOL, spec=spec, path="spec"), *map(_further, spec.pools)]


def _further(pool: Pool) -> ServerPool:
    return ServerPool(name=pool.name, spec=pool, path=f"spec.pools[{pool.name}]", retired=pool.retired)


def pool_entry(
    pool: ServerPool, servers: Sequence[Mapping[str, Any]], targets: Sequence[Mapping[str, Any]], dns: str
) -> dict[str, Any]:
    """Return the entry of a pool in the file of pools: its zones go to `targets`, and Designate queries `servers` for
    them. `dns` is the host name of the Service of all servers.
    """
    names = pool.spec.ns_records or [f"{dns}."]
    # A zone that asks for an attribute finds no retired pool, and one that asks for none the default pool.
    attributes = {"retired": pool.id} if pool.retired else {"pool": pool.name, **pool.spec.attributes}
    return {
        "id": pool.id,
        "name": pool.name,
        "description": "Servers of this Designate" if pool.name == DEFAULT_POOL else f"Pool {pool.name}",
        "attributes": attributes,
        "ns_records": [{"hostname": name, "priority": number} for number, name in enumerate(names, 1)],
        "nameservers": servers,
        "also_notifies": [{"host": each.address, "port": each.port} for each in pool.spec.also_notifies],
        "targets": targets,
        "retired": pool.retired,
    }


def endpoints(addresses: Sequence[str], port: int) -> list[dict[str, Any]]:
    """Return servers at these addresses."""
    return [{"host": address, "port": port} for address in addresses]


def target(
    type_: str,
    description: str,
    masters: Sequence[Mapping[str, Any]],
    host: str,
    port: int = SERVER_PORT,
    **options: Any,
) -> dict[str, Any]:
    """Return an entry of a pool: a server of this type at an address, which transfers zones from `masters`, with
    `options` of its type.
    """
    return {
        "type": type_,
        "description": description,
        "masters": masters,
        "options": {"host": host, "port": port, **options},
    }
