"""Pools that a user removes from the list: only once Designate has forgotten them, since their zones would be lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ... import kube
from ...plan import Context, Object, SpecError
from .config import ServerPool
from .model import DesignateSpec

FILE = "pools.json"
DIGEST = "POOLS_DIGEST"
"""Variable of jobs that differs with the files of the pools."""
_FILES = (FILE, "tsig.json")


def digest(data: Mapping[str, str]) -> str:
    """Return the value of `DIGEST` for these files."""
    return kube.digest(json.dumps({name: data.get(name, "") for name in _FILES}))


def check_removed(ctx: Context[DesignateSpec], pools: Sequence[ServerPool]) -> None:
    """Raise SpecError for a pool that Designate may still know, and the spec does not: its servers would go, and its
    zones with them.
    """
    stored = ctx.secret("pools", or_deleted=True)
    listed = {pool.id for pool in pools}
    for entry in json.loads(stored.get(FILE) or "[]"):
        if entry["id"] in listed:
            continue
        name = entry["name"]
        if not entry.get("retired"):
            text = (
                f"pool {name!r} may have zones: restore it with retired: true, and remove it once "
                f"RetiredPoolsReady is True"
            )
            raise SpecError("spec.pools", text)
        if digest(stored) not in _finished(ctx):
            text = f"pool {name!r} is still in use: restore it, and remove it once RetiredPoolsReady is True"
            raise SpecError("spec.pools", text)


def _finished(ctx: Context[DesignateSpec]) -> Iterator[str]:
    """Yield the files with which a job has removed all retired pools."""
    for (kind, name), live in ctx.children.items():
        if kind == "Job" and name.startswith(ctx.name("retired-")) and kube.judge(live).ready:
            yield from (each["value"] for each in _env(live) if each["name"] == DIGEST)


def _env(job: Object) -> Sequence[Mapping[str, Any]]:
    return job["spec"]["template"]["spec"]["containers"][0].get("env") or ()
