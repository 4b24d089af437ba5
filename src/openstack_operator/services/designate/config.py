"""Files of Designate and its servers: options, the pool, and what BIND reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from ... import oslo, parts
from ...api import Sections
from ...plan import Context
from .model import DesignateSpec

API_PORT, MDNS_PORT = 9001, 5354
DNS_PORT, SERVER_PORT, CONTROL_PORT = 53, 5353, 9953
"""Port for resolvers; ports of a server's pod, whose user may open none below 1024."""
FOLDER = "/etc/designate"
BIND_FOLDER = "/etc/named"
ZONES = "/var/lib/named"

RNDC, TRANSFER = "rndc", "transfer"
"""Keys, by the names under which both of their users know them: of the commands to a server, of transfers."""
RNDC_FILE = "rndc.key"
POOLS_FILE = "pools.json"

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


def secret(password: str) -> str:
    """Return a drawn password as a key of HMAC, which DNS writes in base64."""
    return base64.b64encode(password.encode()).decode()


def key_file(name: str, password: str) -> str:
    """Return a key as BIND's programs read it."""
    return f'key "{name}" {{\n    algorithm {ALGORITHM};\n    secret "{secret(password)}";\n}};\n'


def named_conf(keys: parts.Credentials) -> str:
    """Return named.conf: a server that only answers for the zones that rndc adds, and transfers them by a
    signed request.
    """
    return f"""\
{key_file(RNDC, keys[RNDC])}{key_file(TRANSFER, keys[TRANSFER])}options {{
    directory "{ZONES}";
    pid-file "/run/named.pid";
    session-keyfile "/run/session.key";
    managed-keys-directory "/run";
    listen-on port {SERVER_PORT} {{ any; }};
    listen-on-v6 port {SERVER_PORT} {{ any; }};
    allow-new-zones yes;
    allow-query {{ any; }};
    allow-transfer {{ none; }};
    allow-update {{ none; }};
    // Workers send it, which have no fixed address and sign nothing. It only makes the server ask mdns, with its key.
    allow-notify {{ any; }};
    notify no;
    recursion no;
    dnssec-validation no;
    request-ixfr no;
    // A server that could not reach mdns asks again after so many seconds; a zone's own are minutes.
    min-retry-time 5;
    max-retry-time 15;
    minimal-responses yes;
    version none;
    hostname none;
}};
controls {{
    inet 0.0.0.0 port {CONTROL_PORT} allow {{ any; }} keys {{ "{RNDC}"; }};
}};
server 0.0.0.0/0 {{ keys {{ "{TRANSFER}"; }}; }};
server ::/0 {{ keys {{ "{TRANSFER}"; }}; }};
logging {{
    channel container {{ stderr; severity info; }};
    category default {{ container; }};
    category unmatched {{ null; }};
}};
"""


def pools(ctx: Context[DesignateSpec], servers: Sequence[str], masters: Sequence[str], dns: str) -> str:
    """Return the file of pools: one, of the servers at these addresses, which transfer zones from the addresses
    `masters`. `dns` is the host name of the Service of all servers.
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
        "targets": [
            {
                "type": "bind9",
                "description": f"server {number}",
                "masters": [{"host": master, "port": MDNS_PORT} for master in masters],
                "options": {
                    "host": address,
                    "port": SERVER_PORT,
                    "rndc_host": address,
                    "rndc_port": CONTROL_PORT,
                    "rndc_key_file": f"{FOLDER}/{RNDC_FILE}",
                    "clean_zonefile": True,
                },
            }
            for number, address in enumerate(servers)
        ],
    }
    # JSON is YAML.
    return json.dumps([pool], indent=1) + "\n"
