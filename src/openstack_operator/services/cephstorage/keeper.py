"""Makes a Ceph's pools and clients as they are wanted, and tells what can be seen of it.

Runs in pods of ours: as `keeper.py ensure` in a job that may make pools, as `keeper.py serve` for good, with the keys
of the services alone. It reads FOLDER, whose `wanted.json` says what is wanted, and knows no other module of ours.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT = 9284
FOLDER = "/etc/ceph-storage"
OWN = ".mgr"
"""The pool Ceph makes for itself."""
_LOOK, _TRIES, _PAUSE = 15, 60, 5
"""Seconds between two looks; how often, and after how many seconds, a job tries to reach a Ceph.

Nothing tells of how full a Ceph is and whether a client is still let in, and each look is several questions to its
monitors. Nor do monitors tell that they have a quorum: they are tried for five minutes, for a Ceph that starts beside
everything else.
"""
_TIMEOUT = 5
"""Seconds until a Ceph that says nothing counts as unreachable."""
_ADDRESS = re.compile(r"(?<![^,; ])(?:[^,; :\[\]]+|\[[0-9A-Fa-f:]+\])(?![^,; ])")
"""A name, an IPv4 address, or an IPv6 address in brackets; without protocol and port."""

Run = Callable[..., Any]
"""A command to the monitors: its prefix and arguments, `given` for what goes with it; returns what the answer says."""
Connect = Callable[[str], "contextlib.AbstractContextManager[Run]"]
"""A connection as a user. Raises Refused."""


class Refused(Exception):
    """Ceph, or the way to it, said no."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = abs(code)

    @property
    def silent(self) -> bool:
        """Whether nobody answered at all."""
        return self.code in {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ECONNREFUSED}


def ensure(run: Run, wanted: Mapping[str, Any]) -> list[str]:
    """Makes what is not as it is wanted, and tells what it made. Raises Refused, also for a client that exists with
    another key in a Ceph that is not ours.
    """
    there = {pool["pool_name"]: pool for pool in run("osd dump")["pools"]}
    done = [line for pool in wanted["pools"] for line in _pool(run, pool, there.get(pool["name"]))]
    if OWN in there and there[OWN]["size"] < wanted["own_copies"]:
        run("osd pool set", pool=OWN, var="size", val=str(wanted["own_copies"]))
        done.append(f"pool {OWN} keeps {wanted['own_copies']} copies")
    return done + [line for client in wanted["clients"] for line in _client(run, client, owned=wanted["owned"])]


def _pool(run: Run, pool: Mapping[str, Any], live: Mapping[str, Any] | None) -> Iterator[str]:
    name, size = pool["name"], pool["size"]
    # What is not given is for pools we make; those that are there were made by somebody who knew.
    sure = {"yes_i_really_mean_it": True} if (size or pool["default"]) == 1 else {}
    if live is None:
        groups = pool["placement_groups"]
        run(
            "osd pool create",
            pool=name,
            pg_num=groups,
            size=size or pool["default"],
            autoscale_mode=pool["autoscale"],
            **sure,
        )
        yield f"made pool {name}"
    elif size and live["size"] != size:
        run("osd pool set", pool=name, var="size", val=str(size), **sure)
        yield f"pool {name} keeps {size} copies"
    if live is not None and live["pg_autoscale_mode"] != pool["autoscale"]:
        run("osd pool set", pool=name, var="pg_autoscale_mode", val=pool["autoscale"])
        yield f"pool {name} has autoscaling {pool['autoscale']}"
    if "rbd" not in ((live or {}).get("application_metadata") or {}):
        run("osd pool application enable", pool=name, app="rbd")
        yield f"pool {name} is for block devices"


def _client(run: Run, client: Mapping[str, Any], *, owned: bool) -> Iterator[str]:
    user, key, caps = client["user"], client["key"], client["caps"]
    try:
        [live] = run("auth get", entity=user)
    except Refused as error:
        if error.code != errno.ENOENT:
            raise
        live = {}
    if live and live.get("key") != key and not owned:
        raise Refused(errno.EEXIST, f"{user} exists with a key that was not made here; give this use another user")
    if (live.get("key"), live.get("caps")) != (key, caps):
        lines = [f"[{user}]", f"\tkey = {key}", *(f'\tcaps {daemon} = "{cap}"' for daemon, cap in caps.items()), ""]
        run("auth import", given="\n".join(lines))
        yield f"{user} may log in" if not live else f"{user} has its key and capabilities again"


def look(connect: Connect, clients: Mapping[str, str]) -> dict[str, Any]:
    """What can be seen with the keys of `clients`, whose values are their pools."""
    found: dict[str, Any] = {"reachable": False, "message": "", "refused": {}, "missing": {}}
    for user, pool in clients.items():
        try:
            with connect(user) as run:
                if not found["reachable"]:
                    found |= _seen(run)
                if pool not in found["pools"]:
                    found["missing"][user] = pool
        except Refused as error:
            if error.silent:
                found |= {"reachable": False, "message": str(error)}
                break
            found["refused"][user] = str(error)
    return found


def _seen(run: Run) -> dict[str, Any]:
    health, stats = run("health", detail="detail"), run("df")["stats"]
    return {
        "reachable": True,
        "health": health["status"],
        "checks": {
            name: "; ".join([check["summary"]["message"], *(each["message"].strip() for each in check["detail"][:5])])
            for name, check in health["checks"].items()
            if not check.get("muted")
        },
        "total": stats["total_bytes"],
        "used": stats["total_used_raw_bytes"],
        "available": stats["total_avail_bytes"],
        "pools": [pool["poolname"] for pool in run("osd lspools")],
    }


@contextlib.contextmanager
def connected(user: str, folder: str = FOLDER) -> Generator[Run]:
    """A connection with the key in `<user>.keyring` of the folder."""
    try:
        cluster = _login(user, folder)
    except Refused as error:
        if not error.silent:
            raise
        # A client that asks at the ports of both protocols goes on trying one that nobody serves, and drops what the
        # monitors answered at the other: that its key is wrong.
        try:
            cluster = _login(user, folder, msgr2_alone=True)
        except Refused as again:
            raise (error if again.silent else again) from None

    def run(prefix: str, given: str = "", **arguments: Any) -> Any:
        command = json.dumps({"prefix": prefix, "format": "json", **arguments})
        code, out, message = cluster.mon_command(command, given.encode())
        if code:
            raise Refused(code, f"{prefix}: {message}")
        try:
            return json.loads(out)
        except ValueError:
            return out.decode(errors="replace")

    try:
        yield run
    finally:
        cluster.shutdown()


def _login(user: str, folder: str, *, msgr2_alone: bool = False) -> Any:
    """A connected rados.Rados. Raises Refused."""
    import rados  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  (only the image has it)

    limits = dict.fromkeys(("client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout"), str(_TIMEOUT))
    conf = {"keyring": f"{folder}/{user}.keyring", **limits}
    try:
        cluster = rados.Rados(name=user, conffile=f"{folder}/ceph.conf", conf=conf)
        if msgr2_alone:
            cluster.conf_set("mon_host", at_msgr2(cluster.conf_get("mon_host")))
        cluster.connect()
    except rados.Error as error:
        raise Refused(getattr(error, "errno", 0) or errno.EINVAL, str(error)) from None
    return cluster


def at_msgr2(monitors: str) -> str:
    """A value of `mon host` in which addresses without a port have that of the second protocol, 3300."""
    return _ADDRESS.sub(r"\g<0>:3300", monitors)


def main(order: str) -> None:
    """What the pod was told to do."""
    wanted = _wanted()
    if order == "ensure":
        for _ in range(_TRIES):
            try:
                with connected(wanted["user"]) as run:
                    print("\n".join(ensure(run, wanted)) or "all is as it should be")
                return
            except Refused as error:
                if not error.silent:
                    sys.exit(str(error))
                print(f"no answer: {error}")
            time.sleep(_PAUSE)
        sys.exit("the monitors did not answer; see that the addresses in ceph.conf are right and can be reached")
    facts = Facts()
    threading.Thread(target=facts.serve, daemon=True).start()
    # What nobody foresaw ends the program, and with it the pod, which is seen.
    facts.follow()


def _wanted() -> dict[str, Any]:
    return json.loads((Path(FOLDER) / "wanted.json").read_text(encoding="utf-8"))


class Facts:
    """What was seen last, for everybody: there is no secret in it."""

    def __init__(self) -> None:
        self._seen: dict[str, Any] = {}

    def follow(self) -> None:
        """Looks again and again; never ends."""
        while True:
            self._seen = look(connected, _wanted()["clients"])
            time.sleep(_LOOK)

    def serve(self) -> None:
        """Answers every request with it; never ends."""
        facts = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(facts._seen).encode()
                self.send_response(200 if facts._seen else 503)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the library's name)
                """Nobody needs to know who asked."""

        ThreadingHTTPServer(("", PORT), Handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
