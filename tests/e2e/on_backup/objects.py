"""The objects of a cloud as its APIs describe them, to compare a restored cloud with the one of before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from openstack.connection import Connection

Objects = dict[str, list[dict[str, Any]]]
_CHANGING = ("updated_at", "links", "last_active", "location")
"""Fields that speak of the time at which a service was asked or started."""
_Lists = dict[str, Callable[[Any], Iterable[Any]]]
_ALWAYS: dict[str, _Lists] = {
    "identity": {
        "users": lambda api: api.users(),
        "projects": lambda api: api.projects(),
        "roles": lambda api: api.roles(),
        "services": lambda api: api.services(),
    },
    "image": {"images": lambda api: api.images()},
    "network": {
        "networks": lambda api: api.networks(),
        "subnets": lambda api: api.subnets(),
        "routers": lambda api: api.routers(),
        "security_groups": lambda api: api.security_groups(),
    },
    "compute": {"flavors": lambda api: api.flavors(), "keypairs": lambda api: api.keypairs()},
}
_OF_SERVICES: dict[str, _Lists] = {
    "key_manager": {"secrets": lambda api: api.secrets()},
    "orchestration": {"stacks": lambda api: api.stacks()},
    "dns": {
        "zones": lambda api: api.zones(),
        "recordsets": lambda api: (
            each for zone in api.zones() for each in api.recordsets(zone.id) if each.type == "A"
        ),
    },
    "load_balancer": {
        "load_balancers": lambda api: api.load_balancers(),
        "listeners": lambda api: api.listeners(),
        "pools": lambda api: api.pools(),
    },
    "block_storage": {
        "volumes": lambda api: api.volumes(),
        "snapshots": lambda api: api.snapshots(),
        "volume_types": lambda api: api.types(),
    },
}
# What a server and its ports are, without what they do.
_SERVER = ("id", "name", "image", "flavor", "key_name", "security_groups", "metadata", "created_at", "attached_volumes")
_PORT = ("id", "name", "device_id", "device_owner", "mac_address", "fixed_ips", "network_id", "security_group_ids")
_ADDRESS = ("id", "floating_ip_address", "fixed_ip_address", "port_id", "router_id", "status")


def described(conn: Connection) -> Objects:
    """Return the objects of the APIs that each cloud has, by kind, in an order of their own."""
    return _listed(conn, _ALWAYS)


def of_services(conn: Connection, *services: str) -> Objects:
    """Return the objects of these services, without what changes by itself."""
    rows = _listed(conn, {service: _OF_SERVICES[service] for service in services})
    # A secret tells by which address it was asked, whose port is new; Designate gives a zone a new serial when it
    # writes it again; an attachment has the time at which its server was started.
    for row in rows.get("secrets", ()):
        row["id"] = str(row.pop("secret_ref")).rpartition("/")[2]
    for row in rows.get("zones", ()):
        row.pop("serial", None)
    for row in rows.get("volumes", ()):
        row["attachments"] = [(each["server_id"], each["device"]) for each in row["attachments"]]
    return {kind: sorted(entries, key=str) for kind, entries in rows.items()}


def of_servers(conn: Any) -> Objects:
    """Return the servers of the connection's project with their ports and addresses."""
    kinds = {
        "servers": (conn.compute.servers(), _SERVER),
        "ports": (conn.network.ports(), _PORT),
        "addresses": (conn.network.ips(), _ADDRESS),
    }
    rows = {
        kind: [{name: without_times(each.to_dict())[name] for name in fields} for each in entries]
        for kind, (entries, fields) in kinds.items()
    }
    # Both have links with the port of the API, which is another one.
    for row in rows["servers"]:
        row["image"], row["flavor"] = row["image"]["id"], row["flavor"]["original_name"]
    return {kind: sorted(entries, key=lambda row: row["id"]) for kind, entries in rows.items()}


def _listed(conn: Any, services: dict[str, _Lists]) -> Objects:
    rows = {
        kind: [without_times(each.to_dict()) for each in entries(getattr(conn, service))]
        for service, lists in services.items()
        for kind, entries in lists.items()
    }
    return {
        kind: sorted(entries, key=lambda row: str(row.get("id") or row.get("name"))) for kind, entries in rows.items()
    }


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in values of JSON, without the fields that change by themselves."""
    return json.loads(json.dumps({name: value for name, value in row.items() if name not in _CHANGING}, default=str))


def differing(now: Objects, before: Objects) -> Objects:
    """Return the rows that one of both lacks, so that a failure shows them alone."""
    kinds = now.keys() | before.keys()
    rows = {
        kind: [
            row
            for some, others in ((now, before), (before, now))
            for row in some.get(kind, ())
            if row not in others.get(kind, ())
        ]
        for kind in kinds
    }
    return {kind: entries for kind, entries in rows.items() if entries}


def digest(objects: Objects) -> str:
    """Return a digest of all of them."""
    return hashlib.sha256(json.dumps(objects, sort_keys=True).encode()).hexdigest()
