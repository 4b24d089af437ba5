"""Make a Ceph's pools and clients as a plan wants them, and report the state of that Ceph.

`keeper.py ensure FOLDER` runs in a job with the key of an administrator and makes pools and clients. `keeper.py serve
FOLDER PORT` runs in the status pod, has the keys of the services alone, and reports what they can see. FOLDER has
`wanted.json`, which describes pools and clients, `ceph.conf`, and a keyring for each user. It needs Python's own
library, and Ceph's (`rados`).
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
from typing import Any, NoReturn

MGR_POOL = ".mgr"
"""The pool that Ceph makes for itself."""
_INTERVAL, _TRIES, _PAUSE = 15, 60, 5
"""Seconds between two reports; the number of attempts of a job to reach a Ceph, and the seconds between them.

No event reports how full a Ceph is or whether it still accepts a client, and each report takes several requests to its
monitors. No event reports that monitors have a quorum, either: a job tries them for five minutes, since a Ceph may
start at the same time as everything else.
"""
_TIMEOUT = 5
"""Seconds after which a Ceph that does not answer is unreachable."""
_ADDRESS = re.compile(r"(?<![^,; ])(?:[^,; :\[\]]+|\[[0-9A-Fa-f:]+\])(?![^,; ])")
"""A name, an IPv4 address, or an IPv6 address in brackets; without protocol and port."""

Run = Callable[..., Any]
"""A command to the monitors: its prefix, its arguments, and `data` as its input; returns the decoded answer."""
Connect = Callable[[str], "contextlib.AbstractContextManager[Run]"]
"""A connection as a user. Raises CephError."""


class CephError(Exception):
    """Ceph, or the way to it, refused a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = abs(code)

    @property
    def is_unreachable(self) -> bool:
        """True if no monitor answered."""
        return self.code in {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ECONNREFUSED}


def ensure(run: Run, desired: Mapping[str, Any]) -> list[str]:
    """Make what differs from `desired`, and return a line for each change. Raise CephError, also for a client that
    exists with another key in a Ceph that is not ours.
    """
    live_pools = {pool["pool_name"]: pool for pool in run("osd dump")["pools"]}
    changes = [line for pool in desired["pools"] for line in _ensure_pool(run, pool, live_pools.get(pool["name"]))]
    copies = desired["own_copies"]
    if MGR_POOL in live_pools and live_pools[MGR_POOL]["size"] < copies:
        run("osd pool set", pool=MGR_POOL, var="size", val=str(copies))
        changes.append(f"pool {MGR_POOL} keeps {copies} copies")
    for client in desired["clients"]:
        changes += _ensure_client(run, client, is_local=desired["owned"])
    return changes


def _ensure_pool(run: Run, pool: Mapping[str, Any], live: Mapping[str, Any] | None) -> Iterator[str]:
    name, size = pool["name"], pool["size"]
    # A default is for pools that this program makes; a user chose the size of pools that exist.
    confirmation = {"yes_i_really_mean_it": True} if (size or pool["default"]) == 1 else {}
    if live is None:
        groups = pool["placement_groups"]
        run(
            "osd pool create",
            pool=name,
            pg_num=groups,
            size=size or pool["default"],
            autoscale_mode=pool["autoscale"],
            **confirmation,
        )
        yield f"made pool {name}"
    elif size and live["size"] != size:
        run("osd pool set", pool=name, var="size", val=str(size), **confirmation)
        yield f"pool {name} keeps {size} copies"
    if live is not None and live["pg_autoscale_mode"] != pool["autoscale"]:
        run("osd pool set", pool=name, var="pg_autoscale_mode", val=pool["autoscale"])
        yield f"pool {name} has autoscaling {pool['autoscale']}"
    if "rbd" not in ((live or {}).get("application_metadata") or {}):
        run("osd pool application enable", pool=name, app="rbd")
        yield f"pool {name} is for block devices"


def _ensure_client(run: Run, client: Mapping[str, Any], *, is_local: bool) -> Iterator[str]:
    user, key, caps = client["user"], client["key"], client["caps"]
    try:
        [live] = run("auth get", entity=user)
    except CephError as error:
        if error.code != errno.ENOENT:
            raise
        live = {}
    if live and live.get("key") != key and not is_local:
        message = f"{user} exists with a key that this operator did not create; choose another user"
        raise CephError(errno.EEXIST, message)
    if (live.get("key"), live.get("caps")) != (key, caps):
        lines = [f"[{user}]", f"\tkey = {key}", *(f'\tcaps {daemon} = "{cap}"' for daemon, cap in caps.items()), ""]
        run("auth import", data="\n".join(lines))
        yield f"{user} may log in" if not live else f"{user} has its key and capabilities again"


def report(connect: Connect, clients: Mapping[str, str]) -> dict[str, Any]:
    """Return what the keys of `clients`, whose values are their pools, can see."""
    facts: dict[str, Any] = {"reachable": False, "message": "", "refused": {}, "missing": {}}
    for user, pool in clients.items():
        try:
            with connect(user) as run:
                if not facts["reachable"]:
                    facts |= _cluster_facts(run)
                if pool not in facts["pools"]:
                    facts["missing"][user] = pool
        except CephError as error:
            if error.is_unreachable:
                facts |= {"reachable": False, "message": str(error)}
                break
            facts["refused"][user] = str(error)
    return facts


def _cluster_facts(run: Run) -> dict[str, Any]:
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
def connection(user: str, folder: Path) -> Generator[Run]:
    """Connect with the key in `<user>.keyring` of the folder. Raise CephError."""
    try:
        cluster = _login(user, folder)
    except CephError as error:
        if not error.is_unreachable:
            raise
        # A client that tries the ports of both protocols goes on trying one that no monitor serves, and drops the
        # answer at the other: that its key is wrong.
        try:
            cluster = _login(user, folder, msgr2_alone=True)
        except CephError as second_error:
            raise (error if second_error.is_unreachable else second_error) from None

    def run(prefix: str, data: str = "", **arguments: Any) -> Any:
        command = json.dumps({"prefix": prefix, "format": "json", **arguments})
        code, out, message = cluster.mon_command(command, data.encode())
        if code:
            raise CephError(code, f"{prefix}: {message}")
        try:
            return json.loads(out)
        except ValueError:
            return out.decode(errors="replace")

    try:
        yield run
    finally:
        cluster.shutdown()


def _login(user: str, folder: Path, *, msgr2_alone: bool = False) -> Any:
    """Return a connected rados.Rados. Raise CephError."""
    import rados  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  (only the image has it)

    limits = dict.fromkeys(("client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout"), str(_TIMEOUT))
    conf = {"keyring": f"{folder}/{user}.keyring", **limits}
    try:
        cluster = rados.Rados(name=user, conffile=f"{folder}/ceph.conf", conf=conf)
        if msgr2_alone:
            cluster.conf_set("mon_host", at_msgr2(cluster.conf_get("mon_host")))
        cluster.connect()
    except rados.Error as error:
        raise CephError(getattr(error, "errno", 0) or errno.EINVAL, str(error)) from None
    return cluster


def at_msgr2(monitors: str) -> str:
    """Return a value of `mon host` in which addresses without a port have that of the second protocol, 3300."""
    return _ADDRESS.sub(r"\g<0>:3300", monitors)


def main(order: str, folder: Path, port: int = 0) -> None:
    """Carry out an order, `ensure` or `serve`."""
    if order == "serve":
        reporter = Reporter(folder)
        threading.Thread(target=reporter.serve, args=[port], daemon=True).start()
        # An unexpected error ends the program, and so the pod, which the operator reports.
        reporter.follow()
    desired = _desired(folder)
    for _ in range(_TRIES):
        try:
            with connection(desired["user"], folder) as run:
                print("\n".join(ensure(run, desired)) or "all pools and clients exist as described")
            return
        except CephError as error:
            if not error.is_unreachable:
                sys.exit(str(error))
            print(f"no answer: {error}")
        # Monitors that are out of reach send no notice when they are back.
        time.sleep(_PAUSE)
    sys.exit("the monitors did not answer; check the addresses in ceph.conf and the network")


def _desired(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "wanted.json").read_text(encoding="utf-8"))


class Reporter:
    """Server of the last report to every client: there is no secret in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._facts: dict[str, Any] = {}

    def follow(self) -> NoReturn:
        """Make a report again and again; never return."""
        while True:
            self._facts = report(lambda user: connection(user, self._folder), _desired(self._folder)["clients"])
            # Ceph is asked again: it reports its health and free space to no client by itself.
            time.sleep(_INTERVAL)

    def serve(self, port: int) -> None:
        """Answer every request with the last report; never return."""
        reporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(reporter._facts).encode()
                self.send_response(200 if reporter._facts else 503)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the library's name)
                """Log no requests: the operator sends one every few seconds."""

        ThreadingHTTPServer(("", port), Handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
