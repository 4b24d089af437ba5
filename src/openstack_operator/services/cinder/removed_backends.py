"""Backends that a user removed from the list: refused while volumes are on them, then removed from Cinder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import agents, kube, parts
from ...plan import Context, Object, SpecError, Step
from . import config
from .model import CinderSpec


def live_backends(ctx: Context[Any]) -> dict[str, Object]:
    """Return the existing CinderBackends, by the name of their backend."""
    return {live["spec"]["backend"]: live for (kind, _), live in ctx.children.items() if kind == "CinderBackend"}


def removed_backends(ctx: Context[CinderSpec], conf: parts.Config, *, after: Sequence[Step]) -> list[Step]:
    """Return the steps that remove backends that are no longer in the list from Cinder; none once they are removed.

    Raise SpecError for a backend that has volumes, or whose volumes are unknown.
    """
    listed = {backend.name for backend in ctx.spec.backends}
    unlisted = {name: live for name, live in live_backends(ctx).items() if name not in listed}
    if obstacles := [text for name, live in sorted(unlisted.items()) if (text := _obstacle(ctx, name, live))]:
        undo = "restore it, or list it in spec.allowOrphans to abandon its volumes"
        raise SpecError("spec.backends", f"{'; '.join(obstacles)}; delete or migrate the volumes, {undo}")
    return [step for name, live in sorted(unlisted.items()) for step in _forget(ctx, name, live, conf, after)]


def _obstacle(ctx: Context[CinderSpec], name: str, live: Object) -> str:
    """Return the reason why a backend cannot be removed; empty if it can."""
    if name in ctx.spec.allow_orphans:
        return ""
    volumes = (live.get("status") or {}).get("volumes")
    if volumes is None:
        return f"the volumes of backend {name!r} are not counted yet"
    return f"backend {name!r} still has {volumes} volume{'s' if volumes > 1 else ''}" if volumes else ""


def _forget(ctx: Context[CinderSpec], name: str, live: Object, conf: parts.Config, after: Sequence[Step]) -> list[Step]:
    spec = live["spec"]
    cluster = f"{spec['cluster']}@{name}" if spec.get("cluster") else ""
    # The job's name has a digest of its command, so that other services get another job.
    command = ["python3", "-c", agents.text("cinder/forget_backend.py"), cluster, *spec["hosts"]]
    program = parts.ProgramSettings(env={"CONFIG_FILE": f"{conf.directory}/{config.FILE}"})
    job = parts.job(ctx, f"forget-{name}", command, conf, after=after, condition="Backends", program=program)
    [manifest] = job.objects
    live_job = ctx.children.get(("Job", manifest["metadata"]["name"]))
    if live_job and kube.judge(live_job).ready:
        return []
    # While this exists, the operator knows that the backend is to be removed, also after a restart.
    resource = parts.remote(ctx, "CinderBackend", live["metadata"]["name"], spec)
    return [Step(name="Backends", objects=(resource,)), job]
