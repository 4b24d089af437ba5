"""Backends that a user removed from the list: refused while volumes are on them, then removed from Cinder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import kube, parts
from ...plan import Context, Object, SpecError, Step
from .model import CinderSpec

# A service that still reports would only list itself again: the job waits until it has been silent for
# service_down_time, a minute. Each check starts cinder-manage, which imports half of Cinder: one every five
# seconds is a dozen of them. The job's name has a digest of its command, so that other services get another job.
FORGET = """\
import subprocess, sys, time

def manage(*words):
    command = ["cinder-manage", "--config-file", "/etc/cinder/cinder.conf", *words]
    return subprocess.run(command, capture_output=True, text=True)

cluster, *hosts = sys.argv[1:]
while True:
    listed = manage("service", "list")
    if listed.returncode:
        sys.exit(listed.stderr)
    rows = [line.split() for line in listed.stdout.splitlines()]
    known = {row[1]: ":-)" in row for row in rows if row[:1] == ["cinder-volume"] and row[1] in hosts}
    if not any(known.values()):
        break
    # Cinder calls a service down a minute after its last sign of life; nothing tells of it.
    time.sleep(5)
for host in known:
    removed = manage("service", "remove", "cinder-volume", host)
    print(removed.stdout, end="", flush=True)
    if removed.returncode:
        sys.exit(removed.stderr)
if cluster:
    print(manage("cluster", "remove", "cinder-volume", cluster).stdout, end="")
"""


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
        undo = "put it back, or name it in spec.allowOrphans to leave its volumes behind"
        raise SpecError("spec.backends", f"{'; '.join(obstacles)}; delete or migrate the volumes, {undo}")
    return [step for name, live in sorted(unlisted.items()) for step in _forget(ctx, name, live, conf, after)]


def _obstacle(ctx: Context[CinderSpec], name: str, live: Object) -> str:
    """Return the reason why a backend cannot be removed; empty if it can."""
    if name in ctx.spec.allow_orphans:
        return ""
    volumes = (live.get("status") or {}).get("volumes")
    if volumes is None:
        return f"it is not known yet whether backend {name!r} has volumes"
    return f"backend {name!r} still has {volumes} volume{'s' if volumes > 1 else ''}" if volumes else ""


def _forget(ctx: Context[CinderSpec], name: str, live: Object, conf: parts.Config, after: Sequence[Step]) -> list[Step]:
    spec = live["spec"]
    cluster = f"{spec['cluster']}@{name}" if spec.get("cluster") else ""
    command = ["python3", "-c", FORGET, cluster, *spec["hosts"]]
    job = parts.job(ctx, f"forget-{name}", command, conf, after=after, condition="Backends")
    [manifest] = job.objects
    live_job = ctx.children.get(("Job", manifest["metadata"]["name"]))
    if live_job and kube.judge(live_job).ready:
        return []
    # While this exists, the operator knows that the backend is to be removed, also after a restart.
    resource = parts.remote(ctx, "CinderBackend", live["metadata"]["name"], spec)
    return [Step(name="Backends", objects=(resource,)), job]
