"""librados of a Ceph whose state is the file $CEPH_STATE, so that several processes reach the same one."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

EMPTY: dict[str, Any] = {
    "pools": {},
    "clients": {},
    "commands": [],
    # It accepts every key but those of these users, ...
    "refuses": [],
    # ... does not answer while this is positive, which falls with each attempt, ...
    "silent": 0,
    # ... and serves one version of the protocol at the addresses that ceph.conf names without a port.
    "needs_port": False,
}


class Error(OSError):
    """Error of librados."""


class Rados:
    """Connection of a user."""

    def __init__(self, name: str, conffile: str, conf: dict[str, str]) -> None:
        self._name = name
        hosts = re.search(r"^mon host = (.*)$", Path(conffile).read_text(encoding="utf-8"), re.MULTILINE)
        assert hosts
        assert f"[{name}]" in Path(conf["keyring"]).read_text(encoding="utf-8")
        assert conf["client_mount_timeout"] == "5"
        self._options = {"mon_host": hosts[1]}

    def conf_get(self, name: str) -> str:
        return self._options[name]

    def conf_set(self, name: str, value: str) -> None:
        self._options[name] = value

    def connect(self) -> None:
        state = load()
        if state["silent"]:
            save({**state, "silent": state["silent"] - 1})
            raise Error(errno.ETIMEDOUT, "timed out")
        if state["needs_port"] and not self._options["mon_host"].endswith(":3300"):
            raise Error(errno.ETIMEDOUT, "timed out")
        if self._name in state["refuses"]:
            raise Error(errno.EACCES, "permission denied")

    def shutdown(self) -> None:
        pass

    def mon_command(self, command: str, data: bytes) -> tuple[int, bytes, str]:
        """Return code, output and message."""
        arguments = json.loads(command)
        assert arguments.pop("format") == "json"
        state = load()
        state["commands"].append(arguments["prefix"])
        code, output = _answer(state, arguments.pop("prefix"), arguments, data.decode())
        save(state)
        return code, json.dumps(output).encode() if output is not None else b"", "failed" if code else ""


def load() -> dict[str, Any]:
    """Return the state."""
    return json.loads(Path(os.environ["CEPH_STATE"]).read_text(encoding="utf-8"))


def save(state: dict[str, Any]) -> None:
    """Replace the state."""
    Path(os.environ["CEPH_STATE"]).write_text(json.dumps(state), encoding="utf-8")


def _answer(state: dict[str, Any], prefix: str, arguments: dict[str, Any], data: str) -> tuple[int, Any]:
    pools, clients = state["pools"], state["clients"]
    match prefix:
        case "osd dump":
            return 0, {"pools": list(pools.values())}
        case "osd lspools":
            return 0, [{"poolname": name} for name in pools]
        case "osd pool create":
            # Ceph refuses a single copy without this.
            if arguments["size"] == 1 and not arguments.get("yes_i_really_mean_it"):
                return -errno.EPERM, None
            pools[arguments["pool"]] = {
                "pool_name": arguments["pool"],
                "size": arguments["size"],
                "pg_autoscale_mode": arguments["autoscale_mode"],
                "application_metadata": {},
            }
        case "osd pool application enable":
            pools[arguments["pool"]]["application_metadata"][arguments["app"]] = {}
        case "osd pool set":
            if (arguments["var"], arguments["val"]) == ("size", "1") and not arguments.get("yes_i_really_mean_it"):
                return -errno.EPERM, None
            value = int(arguments["val"]) if arguments["var"] == "size" else arguments["val"]
            pools[arguments["pool"]][arguments["var"]] = value
        case "auth get":
            client = clients.get(arguments["entity"])
            return (0, [client]) if client else (-errno.ENOENT, None)
        case "auth import":
            user, key = re.search(r"^\[(.*)\]$", data, re.MULTILINE), re.search(r"key = (.*)", data)
            assert user and key
            caps = dict(re.findall(r'caps (\w+) = "(.*)"', data))
            clients[user[1]] = {"entity": user[1], "key": key[1], "caps": caps}
        case "health":
            details = [{"message": " b"}]
            checks: dict[str, Any] = {"A": {"summary": {"message": "a"}, "detail": details}}
            checks["MUTED"] = {"summary": {"message": "m"}, "detail": [], "muted": True}
            return 0, {"status": "HEALTH_WARN", "checks": checks}
        case "df":
            return 0, {"stats": {"total_bytes": 3, "total_used_raw_bytes": 2, "total_avail_bytes": 1}}
        case _:
            raise AssertionError(prefix)
    return 0, None
