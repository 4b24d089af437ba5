"""What Ceph's daemons and clients are told: addresses, keys, and what each key is good for."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ... import kube
from ...api import mebibytes
from ...parts.ceph import name_uuid
from ...plan import Context
from .model import CephStorageSpec, Pool, pools, users

V2, V1 = 3300, 6789
"""Ports of a monitor."""
STATE = "/var/lib/ceph"

MON = {"mon": "allow *"}
ADMIN = {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"}
MGR = {"mon": "profile mgr", "osd": "allow *", "mds": "allow *"}
OSD = {
    # Makes OSDs, and tells that one is gone whose volume was lost.
    "mon": "profile bootstrap-osd, allow r, allow command 'osd down'",
    "mgr": "allow command 'osd destroy'",
}


def cephx(drawn: str) -> str:
    """A key of Ceph's kind (AES, 128 bits) from a drawn password; when it was made is of no interest to anybody."""
    header = b"\x01\x00" + bytes(8) + b"\x10\x00"
    return base64.b64encode(header + hashlib.sha256(drawn.encode()).digest()[:16]).decode()


def fsid(drawn: str) -> str:
    """The identity of a cluster of ours."""
    return name_uuid("ceph", drawn)


def names(spec: CephStorageSpec) -> dict[str, str]:
    """Name of the pool of each use."""
    return {use: pool.name or use for use, pool in pools(spec).items()}


def copies(spec: CephStorageSpec, pool: Pool | None = None) -> int:
    """How many copies of an object a new pool gets; without one, whatever Ceph keeps for itself."""
    asked = pool.size if pool else None
    return asked or (min(3, spec.osds.replicas) if spec.mode == "local" else 3)


def caps(spec: CephStorageSpec, use: str) -> dict[str, str]:
    """The least that the client of a use can do its work with. Volumes and disks are cloned from images; an image is
    made of a server's disk by a clone as well, so that Nova writes both.
    """
    pool = names(spec)
    writes = {"vms": ("vms", "images")}.get(use, (use,))
    reads = {"volumes": ("images",)}.get(use, ())
    osd = [f"profile rbd pool={pool[each]}" for each in writes]
    osd += [f"profile rbd-read-only pool={pool[each]}" for each in reads]
    mgr = [f"profile rbd pool={pool[each]}" for each in writes]
    return {"mon": "profile rbd", "osd": ", ".join(osd), "mgr": ", ".join(mgr)}


_CLIENT = {"ms client mode": "secure", "ms mon client mode": "secure"}
# Whoever has no such option takes either mode, and is given this one.
_DAEMON = {
    **_CLIENT,
    **{f"ms {what} mode": "secure" for what in ("cluster", "service", "mon cluster", "mon service")},
    # The first version of the protocol is plain.
    "ms bind msgr1": "false",
}


def ports(spec: CephStorageSpec) -> dict[str, int]:
    """Those of a monitor, by the version of the protocol."""
    return {"v2": V2} if spec.encrypted else {"v2": V2, "v1": V1}


def client_conf(spec: CephStorageSpec, identity: str, monitors: Sequence[str]) -> str:
    """ceph.conf of everybody who logs in."""
    encrypted = _CLIENT if spec.encrypted else {}
    return _text({"global": {"fsid": identity, "mon host": ",".join(monitors), **encrypted}})


def daemon_conf(ctx: Context[CephStorageSpec], identity: str, monitors: Sequence[str]) -> str:
    """ceph.conf of daemons in pods: logs on stderr, and as little memory as they take."""
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
                # What a Service's address is turned into on the way is nobody's address.
                "ms learn addr from peer": "false",
                # Ceph's own pool, made before any of ours, would wait for ever for OSDs that do not exist.
                "osd pool default size": str(copies(ctx.spec)),
                "mon allow pool size one": "true",
                "mon warn on pool no redundancy": "false",
            },
            "mon": {
                **socket,
                "mon data": f"{STATE}/mon",
                # The volume's file system may be one with many others in it.
                "mon data avail warn": "5",
                "mon data avail crit": "1",
                "auth allow insecure global id reclaim": "false",
            },
            "mgr": {**socket, "mgr data": f"{STATE}/mgr", "mgr initial modules": ""},
            "osd": {**socket, **_osd(mebibytes(ctx.spec.osds.memory))},
        }
    )


def _osd(memory: int) -> dict[str, str]:
    """Options of an OSD in a file, on a machine it has not to itself; `memory` in MiB."""
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
        # It would write for a minute at every start, to learn what the machine can do while others work on it.
        "osd mclock skip benchmark": "true",
        "osd max backfills": "1",
    }


def _text(sections: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [line for name, values in sections.items() for line in _section(name, values)]
    return "\n".join(lines)


def _section(name: str, values: Mapping[str, Any]) -> list[str]:
    return [f"[{name}]", *(f"{option} = {value}" for option, value in values.items()), ""]


def client_name(spec: CephStorageSpec, use: str) -> str:
    """`client.<user>` of a use."""
    return f"client.{users(spec)[use]}"


def block_bytes(size: str) -> int:
    """Bytes of an OSD's file on a volume of that size: a twentieth is left for what lies beside it."""
    return int(kube.amount(size) * 0.95) // 2**20 * 2**20
