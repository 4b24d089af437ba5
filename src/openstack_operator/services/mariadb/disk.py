"""What a member finds on its disk, and leaves there; it runs in the members' pods."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from .galera import Member, Record, View

DATA = Path("/var/lib/mysql")
ENCRYPTED = "sst.cnf"
"""File of the record that is there once every member has a certificate. MariaDB reads it, too: it has the options of
the script that copies all data to another member.
"""
MEMORY = DATA / "member.json"
"""What a member must not forget when its pod ends: its vote, and which orders it knows to be carried out."""


def saved() -> dict[str, str]:
    """What Galera noted when it stopped (grastate.dat); empty where there is nothing."""
    try:
        lines = (DATA / "grastate.dat").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, found, value in (line.partition(":") for line in lines) if found}


def last_view() -> View | None:
    """The view gvwstate.dat tells of."""
    try:
        text = (DATA / "gvwstate.dat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    view = re.search(r"^view_id: *(.+)$", text, re.MULTILINE)
    members = re.findall(r"^member: *(\S+)", text, re.MULTILINE)
    # Half a file, as a power cut may leave it, proves nothing.
    return View(view[1].strip(), frozenset(members)) if view and members and "#vwend" in text else None


def record(directory: Path) -> Record:
    """The record as the operator wrote it; empty where it is not there yet."""

    def read(name: str) -> str:
        try:
            return (directory / name).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    members = tuple(name for name in read("members").split(",") if name)
    encrypted = bool(read(ENCRYPTED))
    return Record(members, read("seed"), read("uuid"), read("force"), read("token"), encrypted)


def room() -> dict[str, int]:
    """Bytes of the volume, and how many of them are free to this process."""
    try:
        found = os.statvfs(DATA)
    except OSError:
        return {}
    return {"bytes": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def has_data() -> bool:
    """Whether there is a database."""
    return (DATA / "mysql").is_dir()


def clear_unfinished() -> bool:
    """Removes what a first start or a state transfer that was cut off left; says whether there was anything.

    A transfer replaces all there was, and begins with the directory `.sst`. `sst_in_progress` alone says nothing: it is
    there during every join, also while the data are whole.
    """
    if not (DATA / ".sst").exists() and not (DATA / ".creating").exists():
        return False
    for path in DATA.iterdir():
        if path != MEMORY:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return True


def allow() -> None:
    """Galera asks for this line before it starts a cluster from these data."""
    path = DATA / "grastate.dat"
    if path.exists():
        text = re.sub(r"(?m)^safe_to_bootstrap:.*$", "safe_to_bootstrap: 1", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")


def remembered(me: Member) -> Member:
    """`me` with what it must not have forgotten."""
    try:
        kept: dict[str, Any] = json.loads(MEMORY.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return me
    return replace(me, **{name: kept[name] for name in ("vote", "vote_mark", "ballot", "seen") if name in kept})


def memorize(me: Member) -> None:
    """What `remembered` reads, on the disk itself: a vote counts from the moment others may read it."""
    new = MEMORY.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({"vote": me.vote, "vote_mark": me.vote_mark, "ballot": me.ballot, "seen": me.seen}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(MEMORY)
