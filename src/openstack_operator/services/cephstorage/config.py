"""Configuration of Ceph's daemons and clients: addresses, keys, and the capabilities of each key."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ... import kube
from ...api import mebibytes
from ...parts.connect.ceph import name_uuid
from ...plan import Context
from .model import CephStorageSpec, Pool, pools, users

V2, V1 = 3300, 6789
"""Ports of a monitor."""
STATE = "/var/lib/ceph"

MON = {"mon": "allow *"}
ADMIN = {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"}
MGR = {"mon": "profile mgr", "osd": "allow *", "mds": "allow *"}
OSD = {
    # Makes OSDs, and marks an OSD as lost whose volume was lost.
    "mon": "profile bootstrap-osd, allow r, allow command 'osd down'",
    "mgr": "allow command 'osd destroy'",
}


def cephx(password: str) -> str:
    """Return a key in Ceph's format (AES, 128 bits) from a random password; Ceph ignores the time in it, here 0."""
    header = b"\x01\x00" + bytes(8) + b"\x10\x00"
    return base64.b64encode(header + hashlib.sha256(password.encode()).digest()[:16]).decode()


def fsid(password: str) -> str:
    """Return the identity of a cluster of ours."""
    return name_uuid("ceph", password)


def pool_names(spec: CephStorageSpec) -> dict[str, str]:
    """Return the name of the pool of each use."""
    return {use: pool.name or use for use, pool in pools(spec).items()}


def replica_count(spec: CephStorageSpec, pool: Pool | None = None) -> int:
    """Return the number of copies of each object in a new pool; without a pool, in the one that Ceph itself makes."""
    size = pool.size if pool else None
    return size or (min(3, spec.osds.replicas) if spec.mode == "local" else 3)


def caps(spec: CephStorageSpec, use: str) -> dict[str, str]:
    """Return the least capabilities with which the client of a use can work. Volumes and disks are clones of images; an
    image of a server's disk is a clone as well, so that Nova writes both.
    """
    pool = pool_names(spec)
    writes = {"vms": ("vms", "images")}.get(use, (use,))
    reads = {"volumes": ("images",)}.get(use, ())
    osd = [f"profile rbd pool={pool[each]}" for each in writes]
    osd += [f"profile rbd-read-only pool={pool[each]}" for each in reads]
    mgr = [f"profile rbd pool={pool[each]}" for each in writes]
    return {"mon": "profile rbd", "osd": ", ".join(osd), "mgr": ", ".join(mgr)}


_CLIENT = {"ms client mode": "secure", "ms mon client mode": "secure"}
# Clients without such an option accept either mode, and get this one.
_DAEMON = {
    **_CLIENT,
    **{f"ms {scope} mode": "secure" for scope in ("cluster", "service", "mon cluster", "mon service")},
    # The first version of the protocol is plain.
    "ms bind msgr1": "false",
}


def ports(spec: CephStorageSpec) -> dict[str, int]:
    """Return the ports of a monitor, by the version of the protocol."""
    return {"v2": V2} if spec.encrypted else {"v2": V2, "v1": V1}


def client_conf(spec: CephStorageSpec, identity: str, monitors: Sequence[str]) -> str:
    """Return ceph.conf of all clients."""
    encrypted = _CLIENT if spec.encrypted else {}
    return _text({"global": {"fsid": identity, "mon host": ",".join(monitors), **encrypted}})


def daemon_conf(ctx: Context[CephStorageSpec], identity: str, monitors: Sequence[str]) -> str:
    """Return ceph.conf of daemons in pods: logs on stderr, and as little memory as they need."""
    logs = {"log to stderr": "true", "err to stderr": "true", "log to file": "false"}
    socket = {"admin socket": "/run/ceph/$name.asok"}
    return _text(
        {
            "global": {
                "fsid": identity,
                "mon host": ",".join(monitors),
                **logs,
                "mon cluster log to file": "false",
                "mon cluster log to stderr": "true",
                "run dir": "/run/ceph",
                "ms bind ipv6": "false",
                **(_DAEMON if ctx.spec.encrypted else {}),
                # A Service's address is translated on the way, and the result is no daemon's address.
                "ms learn addr from peer": "false",
                # Ceph's own pool, made before any of ours, would wait without end for OSDs that do not exist.
                "osd pool default size": str(replica_count(ctx.spec)),
                "mon allow pool size one": "true",
                "mon warn on pool no redundancy": "false",
            },
            "mon": {
                **socket,
                "mon data": f"{STATE}/mon",
                # The volume may share its file system with many others.
                "mon data avail warn": "5",
                "mon data avail crit": "1",
                "auth allow insecure global id reclaim": "false",
            },
            "mgr": {**socket, "mgr data": f"{STATE}/mgr", "mgr initial modules": ""},
            "osd": {**socket, **_osd(mebibytes(ctx.spec.osds.memory))},
        }
    )


def _osd(memory: int) -> dict[str, str]:
    """Return the options of an OSD in a file, on a machine that it shares; `memory` in MiB."""
    return {
        "osd data": f"{STATE}/osd",
        "osd objectstore": "bluestore",
        "bluestore block create": "true",
        "bluestore block wal create": "false",
        "bluestore block db create": "false",
        "osd memory target": str(memory * 1024**2),
        "osd memory target autotune": "false",
        "bluestore cache autotune": "false",
        "bluestore cache size": str(memory * 1024**2 // 8),
        "osd op num shards": "1",
        "osd op num threads per shard": "2",
        # It would write for a minute at every start, to measure a machine that does other work meanwhile.
        "osd mclock skip benchmark": "true",
        "osd max backfills": "1",
    }


def _text(sections: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [line for name, values in sections.items() for line in _section(name, values)]
    return "\n".join(lines)


def _section(name: str, values: Mapping[str, Any]) -> list[str]:
    return [f"[{name}]", *(f"{option} = {value}" for option, value in values.items()), ""]


def client_name(spec: CephStorageSpec, use: str) -> str:
    """Return `client.<user>` of a use."""
    return f"client.{users(spec)[use]}"


def block_bytes(size: str) -> int:
    """Return the bytes of an OSD's file on a volume of that size: a twentieth remains free for other files."""
    return int(kube.amount(size) * 0.95) // 2**20 * 2**20
