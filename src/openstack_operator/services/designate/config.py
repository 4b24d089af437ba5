"""Files of Designate: its options and the pool."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ... import oslo, parts
from ...api import Sections
from ...plan import Context
from .model import DesignateSpec

API_PORT, MDNS_PORT = 9001, 5354
DNS_PORT, SERVER_PORT = 53, 5353
"""Port for resolvers; port of a server's pod, whose user may open none below 1024."""
FOLDER, FILE = "/etc/designate", "designate.conf"
DATABASE = "storage:sqlalchemy"
_MDNS_SECTIONS = ("DEFAULT", DATABASE, "oslo_messaging_rabbit", "service:central", "service:mdns")

TRANSFER = "transfer"
"""The key of transfers, by the name under which both of its users know it."""

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
            "service:mdns": {"listen": f"0.0.0.0:{MDNS_PORT}", "query_enforce_tsig": True},
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


def pools(ctx: Context[DesignateSpec], servers: Sequence[str], targets: Sequence[Mapping[str, Any]], dns: str) -> str:
    """Return the file of pools: one, whose zones go to `targets`, and which asks the servers at these addresses whether
    they answer. `dns` is the host name of the Service of all servers.
    """
    names = ctx.spec.ns_records or [f"{dns}."]
    pool: dict[str, Any] = {
        "id": POOL,
        "name": "default",
        "description": "Servers of this Designate",
        "attributes": {},
        "ns_records": [{"hostname": name, "priority": number} for number, name in enumerate(names, 1)],
        "nameservers": [{"host": address, "port": SERVER_PORT} for address in servers],
        "also_notifies": [],
        "targets": targets,
    }
    # JSON is YAML.
    return json.dumps([pool], indent=1) + "\n"


def target(type_: str, description: str, masters: Sequence[str], address: str, **options: Any) -> dict[str, Any]:
    """Return an entry of a pool: a server of this type at an address, which transfers zones from the addresses
    `masters`, with `options` of its type.
    """
    return {
        "type": type_,
        "description": description,
        "masters": [{"host": master, "port": MDNS_PORT} for master in masters],
        "options": {"host": address, "port": SERVER_PORT, **options},
    }
