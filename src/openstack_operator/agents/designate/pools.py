"""Tells Designate's central which servers the pool has, and the key by which they ask for zones.

`designate-manage` has a command for the former alone. What central knows already is left as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Return 0 when central knows both; raises what a request to central raises."""
    folder = Path(os.environ["POOLS_FOLDER"])
    update = ["designate-manage", "pool", "update", "--file", str(folder / "pools.json")]
    if status := subprocess.run(update, check=False).returncode:
        return status
    print(f"key of transfers: {put_key(json.loads((folder / 'tsig.json').read_text()))}", flush=True)
    return 0


def put_key(fields: dict[str, str]) -> str:
    """Create the key, or change the one of its name, and return what was done."""
    from designate import conf, context, objects, rpc, utils  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from designate.central import rpcapi  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    conf.CONF([], project="designate", default_config_files=utils.find_config("designate.conf"))
    rpc.init(conf.CONF)
    central, admin = rpcapi.CentralAPI(), context.DesignateContext.get_admin_context(request_id="pools")
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


if __name__ == "__main__":
    sys.exit(main())
