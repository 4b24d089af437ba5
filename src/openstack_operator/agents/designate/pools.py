"""Tells Designate's central which servers the pool has, and the key by which they ask for zones.

`designate-manage pool update` would do the former, but it also takes the primary servers from secondary zones, and
revives zones that are being deleted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Return 0 when central knows both. Raise what a request to central raises."""
    from designate import conf, context, objects, policy, rpc, utils  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from designate.central import rpcapi  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from designate.objects.adapters import DesignateAdapter  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    folder = Path(os.environ["POOLS_FOLDER"])
    conf.CONF([], project="designate", default_config_files=utils.find_config("designate.conf"))
    rpc.init(conf.CONF)
    policy.init()
    admin = context.DesignateContext.get_admin_context(request_id="pools")
    admin.all_tenants = True
    central = rpcapi.CentralAPI()
    # Servers cannot transfer a zone without it.
    print(f"key of transfers: {put_key(central, admin, objects, json.loads((folder / 'tsig.json').read_text()))}")
    for fields in json.loads((folder / "pools.json").read_text()):
        pool = DesignateAdapter.parse("YAML", fields, central.get_pool(admin, fields["id"]))
        central.update_pool(admin, pool)
        print(f"zones of pool {fields['name']}: {put_zones(central, admin, objects, fields)} changed", flush=True)
    return 0


def put_key(central: Any, admin: Any, objects: Any, fields: dict[str, str]) -> str:
    """Create the key, or change the one of its name, and return what was done."""
    keys: list[Any] = [*central.find_tsigkeys(admin, {"name": fields["name"]})]
    if not keys:
        central.create_tsigkey(admin, objects.TsigKey(**fields))
        return "created"
    changes = {name: value for name, value in fields.items() if getattr(keys[0], name) != value}
    if not changes:
        return "unchanged"
    for name, value in changes.items():
        setattr(keys[0], name, value)
    central.update_tsigkey(admin, keys[0])
    return f"changed ({', '.join(sorted(changes))})"


def put_zones(central: Any, admin: Any, objects: Any, pool: dict[str, Any]) -> int:
    """Have every server of the pool transfer each zone from the pool's mini DNS, and return the number of zones. A new
    server gets them so.
    """
    masters = [
        dict(pair) for pair in dict.fromkeys(tuple(each.items()) for t in pool["targets"] for each in t["masters"])
    ]
    number = 0
    for zone in central.find_zones(admin, {"pool_id": pool["id"]}):
        # Secondary zones have servers of their users as masters.
        if zone.type != "PRIMARY" or zone.action == "DELETE":
            continue
        zone.masters = objects.ZoneMasterList().from_list(masters)
        central.update_zone(admin, zone)
        number += 1
    return number


if __name__ == "__main__":
    sys.exit(main())
