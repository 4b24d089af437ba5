"""Tells Designate's central which pools there are, which servers they have and the key by which these ask for zones
(`pools`), brings the servers all zones (`zones`), which is for workers that know the pools, or has central forget the
pools that the user retired or that are no longer listed (`retired`).

`designate-manage pool update` would do the first, but it also takes the primary servers from secondary zones, and
revives zones that are being deleted. Its `--delete` would delete the zones of a pool, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any


def main() -> int:
    """Return 0 when it is done, 1 if a pool has zones that keep it. Raise what a request to central or to a server
    raises.
    """
    # First, as Designate's programs do: it chooses the backend of oslo.service. With eventlet, the default one, no
    # answer to an RPC call arrives in 2026.1.
    import designate.cmd  # pyright: ignore[reportMissingImports, reportUnusedImport]  # noqa: F401, PLC0415
    from designate import conf, context, exceptions, objects, policy, rpc, utils  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from designate.central import rpcapi  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    folder = Path(os.environ["POOLS_FOLDER"])
    conf.CONF([], project="designate", default_config_files=utils.find_config("designate.conf"))
    rpc.init(conf.CONF)
    policy.init()
    admin = context.DesignateContext.get_admin_context(request_id="pools")
    admin.all_tenants = True
    central = rpcapi.CentralAPI()
    pools = json.loads((folder / "pools.json").read_text())
    if sys.argv[1:] == ["pools"]:
        # Servers cannot transfer a zone without it.
        keys = json.loads((folder / "tsig.json").read_text())
        # First, since another pool may want the name.
        for name in remove_keys(central, admin, keys):
            print(f"key of transfers {name}: removed")
        for fields in keys:
            print(f"key of transfers {fields['name']}: {put_key(central, admin, objects, fields)}")
        for pool in pools:
            print(f"pool {pool['name']}: {put_pool(central, admin, (objects, exceptions), pool)}")
    elif sys.argv[1:] == ["zones"]:
        for pool in pools:
            print(f"zones of pool {pool['name']}: {put_zones(central, admin, (objects, exceptions), pool)} changed")
    else:
        obstacles = forget(central, admin, {pool["id"]: pool["retired"] for pool in pools})
        print("\n".join(obstacles))
        return 1 if obstacles else 0
    return 0


def put_pool(central: Any, admin: Any, designate: tuple[Any, Any], pool: dict[str, Any]) -> str:
    """Create or change the pool, and return what was done; a retired one that central has forgotten stays so."""
    from designate.objects.adapters import DesignateAdapter  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    objects, exceptions = designate
    fields = {name: value for name, value in pool.items() if name != "retired"}
    size = f"{len(pool['targets'])} targets"
    try:
        central.update_pool(admin, DesignateAdapter.parse("YAML", fields, central.get_pool(admin, pool["id"])))
    except exceptions.PoolNotFound:
        if pool["retired"]:
            return "retired"
        central.create_pool(admin, DesignateAdapter.parse("YAML", fields, objects.Pool()))
        return f"created, {size}"
    return size


def forget(central: Any, admin: Any, retired: dict[str, bool]) -> list[str]:
    """Remove pools that are retired or not listed, with their keys of transfers, and return a sentence for each that
    has zones, which stays. Pools that the operator did not make have another id, and stay, too.
    """
    obstacles: list[str] = []
    (default, *_) = retired
    for pool in list(central.find_pools(admin)):
        if pool.id != pool_id(default, pool.name) or not retired.get(pool.id, True):
            continue
        zones = [zone.name for zone in central.find_zones(admin, {"pool_id": pool.id})]
        if zones:
            names = ", ".join(sorted(zones)[:3]) + (" and others" if len(zones) > 3 else "")
            which = "is retired" if pool.id in retired else "is not in spec.pools, put it back"
            obstacles.append(f"pool {pool.name!r} {which}, and has zones ({len(zones)}): {names}; delete or move them")
            continue
        # Central refuses it, too, if it has zones.
        central.delete_pool(admin, pool.id)
        for key in list(central.find_tsigkeys(admin, {"resource_id": pool.id})):
            central.delete_tsigkey(admin, key.id)
        print(f"pool {pool.name}: forgotten")
    return obstacles


def pool_id(default: str, name: str) -> str:
    """Return the id of a further pool of that name, as the operator writes it."""
    digits = hashlib.sha256(f"{default} {name}".encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def put_key(central: Any, admin: Any, objects: Any, fields: dict[str, str]) -> str:
    """Create the key, or change the one of its name, and return what was done. Raise ValueError for a name that a key
    of another pool has.
    """
    keys: list[Any] = [*central.find_tsigkeys(admin, {"name": fields["name"]})]
    if not keys:
        central.create_tsigkey(admin, objects.TsigKey(**fields))
        return "created"
    if (keys[0].scope, keys[0].resource_id) != (fields["scope"], fields["resource_id"]):
        text = "already belongs to another pool or zone; choose another name for external.tsigKey, or delete that key"
        raise ValueError(f"a key named {fields['name']} {text}")
    changes = {name: value for name, value in fields.items() if getattr(keys[0], name) != value}
    if not changes:
        return "unchanged"
    for name, value in changes.items():
        setattr(keys[0], name, value)
    central.update_tsigkey(admin, keys[0])
    return f"changed ({', '.join(sorted(changes))})"


def remove_keys(central: Any, admin: Any, keys: list[dict[str, str]]) -> list[str]:
    """Remove other keys of the pools of these keys, such as one that has another name now, and return their names."""
    names = {(each["resource_id"], each["name"]) for each in keys}
    removed: list[str] = []
    for pool in dict.fromkeys(each["resource_id"] for each in keys):
        for key in list(central.find_tsigkeys(admin, {"scope": "POOL", "resource_id": pool})):
            if (pool, key.name) not in names:
                central.delete_tsigkey(admin, key.id)
                removed.append(key.name)
    return removed


def put_zones(central: Any, admin: Any, designate: tuple[Any, Any], pool: dict[str, Any]) -> int:
    """Have every server of the pool transfer each zone from the pool's mini DNS, and return the number of zones. A new
    server gets them so. `designate` are its modules of objects and of exceptions.
    """
    objects, exceptions = designate
    masters = [
        dict(pair) for pair in dict.fromkeys(tuple(each.items()) for t in pool["targets"] for each in t["masters"])
    ]
    servers = [target for target in pool["targets"] if target["type"] == "pdns4"]
    number = 0
    for listed in central.find_zones(admin, {"pool_id": pool["id"]}):
        # Users go on meanwhile: what one has deleted must not come back on a server.
        try:
            zone = central.get_zone(admin, listed.id)
            # Secondary zones have servers of their users as masters.
            if zone.type != "PRIMARY" or zone.action == "DELETE":
                continue
            for target in servers:
                put_on_server(target, zone.name)
            zone.masters = objects.ZoneMasterList().from_list(masters)
            central.update_zone(admin, zone)
        except exceptions.ZoneNotFound:
            continue
        number += 1
    return number


def put_on_server(target: dict[str, Any], name: str) -> None:
    """Have PowerDNS know the zone, and the present mini DNS as its primary: Designate's driver does neither for a zone
    that exists. Raise requests.HTTPError for what it refuses.
    """
    import requests  # pyright: ignore[reportMissingModuleSource]  # noqa: PLC0415

    options = target["options"]
    url = f"{options['api_endpoint']}/api/v1/servers/localhost/zones"
    body = {
        "name": name,
        "kind": "Slave",
        "masters": [endpoint(each["host"], each["port"]) for each in target["masters"]],
        "slave_tsig_key_ids": [options["tsigkey_name"]],
    }
    # Unset is what the environment says.
    request: dict[str, Any] = {
        "json": body,
        "headers": {"X-API-Key": options["api_token"]},
        "verify": options.get("api_ca_cert") or True,
    }
    answer = requests.put(f"{url}/{zone_id(name)}", timeout=30, **request)
    if answer.status_code == requests.codes["not_found"]:
        answer = requests.post(url, timeout=30, **request)
    answer.raise_for_status()


def endpoint(host: str, port: int) -> str:
    """Return address and port as PowerDNS reads them."""
    return f"[{host}]:{port}" if isinstance(ip_address(host), IPv6Address) else f"{host}:{port}"


def zone_id(name: str) -> str:
    """Return the name as PowerDNS has it in URLs, such as `0=2F25.2.0.192.in-addr.arpa.`."""
    return re.sub(r"[^A-Za-z0-9._-]", lambda match: f"={ord(match[0]):02X}", name)


if __name__ == "__main__":
    sys.exit(main())
