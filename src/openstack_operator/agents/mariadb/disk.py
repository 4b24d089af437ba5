"""Files that a member reads and writes on its disk; the module runs in the members' pods."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .galera import ORDER_KEY, PRIMARY, SST_CONF, Member, Record, View, is_bootstrap

DATA = Path("/var/lib/mysql")
MEMORY = DATA / "member.json"
"""State that a member must not forget when its pod ends: its vote, which orders it knows to be carried out, and which
bootstraps of its cluster it knows. Galera's script removes it with all data that it replaces."""

BOOTSTRAPS = 20
"""Bootstraps that a member remembers."""


def grastate() -> dict[str, str]:
    """Return what Galera noted when it stopped (grastate.dat); empty if there is no such file."""
    try:
        lines = (DATA / "grastate.dat").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def last_view() -> View | None:
    """Return the view in gvwstate.dat; None without a complete one."""
    try:
        text = (DATA / "gvwstate.dat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    view = re.search(r"^view_id: *(.+)$", text, re.MULTILINE)
    members = re.findall(r"^member: *(\S+)", text, re.MULTILINE)
    # Half a file, as a power cut may leave it, proves nothing.
    return View(view[1].strip(), frozenset(members)) if view and members and "#vwend" in text else None


def read_record(directory: Path) -> Record:
    """Return the record as the operator wrote it; empty as long as there is none."""

    def read(name: str) -> str:
        try:
            return (directory / name).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    members = tuple(name for name in read("members").split(",") if name)
    encrypted = bool(read(SST_CONF))
    return Record(members, read("seed"), read("uuid"), read("force"), read("token"), encrypted)


def volume_space() -> dict[str, int]:
    """Return the bytes of the volume, and how many of them are free to this process."""
    try:
        stats = os.statvfs(DATA)
    except OSError:
        return {}
    return {"bytes": stats.f_blocks * stats.f_frsize, "free": stats.f_bavail * stats.f_frsize}


def has_data() -> bool:
    """Return True if there is a database."""
    return (DATA / "mysql").is_dir()


def clear_unfinished() -> bool:
    """Remove what an interrupted first start or state transfer left; return True if there was anything.

    A transfer replaces all data, and begins with the directory `.sst`. `sst_in_progress` alone says nothing: it exists
    during every join, also while the data are whole.
    """
    if not (DATA / ".sst").exists() and not (DATA / ".creating").exists():
        return False
    for path in DATA.iterdir():
        if path != MEMORY:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return True


def allow_bootstrap() -> None:
    """Write the line that Galera demands before it starts a cluster from these data."""
    path = DATA / "grastate.dat"
    if path.exists():
        text = re.sub(r"(?m)^safe_to_bootstrap:.*$", "safe_to_bootstrap: 1", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")


def with_bootstrap(me: Member) -> tuple[str, ...]:
    """Return the bootstraps that a member knows once it has started the cluster with its data."""
    return _latest({*(me.bootstraps or ()), f"{me.seqno}@{secrets.token_hex(4)}"})


def merged_bootstraps(me: Member, peers: Iterable[Member]) -> tuple[str, ...] | None:
    """Return the bootstraps that a member knows once it is part of the primary component of its peers; None if no
    member knows any. Where it is part of one without them, there is nothing to learn.
    """
    lists = [member.bootstraps for member in (me, *_in_primary(peers)) if member.bootstraps is not None]
    return _latest({bootstrap for each in lists for bootstrap in each}) if lists else None


def has_strayed(me: Member, peers: Iterable[Member]) -> bool:
    """Return True if the primary component of these peers may have other transactions than the last ones of `me`, since
    it began without `me` from a point before. Galera would send what came later, and leave these as they are.
    """
    if me.bootstraps is None or not me.data:
        return False
    forgotten = min(map(_position, me.bootstraps)) if len(me.bootstraps) >= BOOTSTRAPS else -2
    bootstraps = {bootstrap for member in _in_primary(peers) for bootstrap in member.bootstraps or ()}
    return any(forgotten < _position(bootstrap) < me.seqno for bootstrap in bootstraps - set(me.bootstraps))


def _in_primary(peers: Iterable[Member]) -> list[Member]:
    return [member for member in peers if member.status == PRIMARY]


def _position(bootstrap: str) -> int:
    return int(bootstrap.partition("@")[0])


def _latest(bootstraps: Iterable[str]) -> tuple[str, ...]:
    # In one order everywhere, so that all members forget the same ones.
    return tuple(sorted(bootstraps, key=lambda bootstrap: (_position(bootstrap), bootstrap))[-BOOTSTRAPS:])


def forget_position() -> None:
    """Remove what Galera knows of the data, so that they are replaced by those of another member."""
    for name in ("grastate.dat", "gvwstate.dat"):
        (DATA / name).unlink(missing_ok=True)


def recall(me: Member) -> Member:
    """Return `me` with what it must not have forgotten."""
    try:
        memory: dict[str, Any] = json.loads(MEMORY.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return me
    votes = {name: memory[name] for name in ("vote", "vote_mark", "ballot") if name in memory}
    entries = memory.get("bootstraps")
    bootstraps = tuple(str(each) for each in entries if is_bootstrap(each)) if isinstance(entries, list) else None
    return replace(me, **votes, last_order=memory.get(ORDER_KEY, ""), bootstraps=bootstraps)


def memorize(me: Member) -> None:
    """Write what `recall` reads to the disk itself: a vote counts from the moment other members may read it."""
    new = MEMORY.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        votes = {"vote": me.vote, "vote_mark": me.vote_mark, "ballot": me.ballot}
        json.dump({**votes, ORDER_KEY: me.last_order, "bootstraps": me.bootstraps}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(MEMORY)
