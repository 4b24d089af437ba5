"""Backends that were taken out of the list: refused while there are volumes on them, then forgotten by Cinder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import kube, parts
from ...plan import Context, Object, SpecError, Step
from .model import CinderSpec

# A service that still reports would only list itself again: it is waited for until it has been silent for
# service_down_time, a minute. Each look is a start of cinder-manage, which imports half of Cinder: every five seconds
# there are a dozen of them. The numbers come from the job's name: it is made anew for other services.
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


def seen(ctx: Context[Any]) -> dict[str, Object]:
    """The CinderBackends there are, by the name of their backend."""
    return {live["spec"]["backend"]: live for (kind, _), live in ctx.children.items() if kind == "CinderBackend"}


def leaving(ctx: Context[CinderSpec], conf: parts.Config, *, after: Sequence[Step]) -> list[Step]:
    """What has to be done about backends that are not in the list anymore; nothing once Cinder has forgotten them.

    Raises SpecError for one that has volumes, or of which nobody knows.
    """
    listed = {backend.name for backend in ctx.spec.backends}
    gone = {name: live for name, live in seen(ctx).items() if name not in listed}
    if held := [text for name, live in sorted(gone.items()) if (text := _held(ctx, name, live))]:
        undo = "put it back, or name it in spec.allowOrphans to leave its volumes behind"
        raise SpecError("spec.backends", f"{'; '.join(held)}; delete or migrate the volumes, {undo}")
    return [step for name, live in sorted(gone.items()) for step in _forgotten(ctx, name, live, conf, after)]


def _held(ctx: Context[CinderSpec], name: str, live: Object) -> str:
    """Why a backend cannot go; empty where it can."""
    if name in ctx.spec.allow_orphans:
        return ""
    volumes = (live.get("status") or {}).get("volumes")
    if volumes is None:
        return f"it is not known yet whether backend {name!r} has volumes"
    return f"backend {name!r} still has {volumes} volume{'s' if volumes > 1 else ''}" if volumes else ""


def _forgotten(
    ctx: Context[CinderSpec], name: str, live: Object, conf: parts.Config, after: Sequence[Step]
) -> list[Step]:
    spec = live["spec"]
    cluster = f"{spec['cluster']}@{name}" if spec.get("cluster") else ""
    command = ["python3", "-c", FORGET, cluster, *spec["hosts"]]
    job = parts.job(ctx, f"forget-{name}", command, conf, after=after, condition="Backends")
    [wanted] = job.objects
    done = ctx.children.get(("Job", wanted["metadata"]["name"]))
    if done and kube.judge(done).ready:
        return []
    # As long as this is there, the backend is known to be on its way out, also after a restart.
    kept = parts.remote(ctx, "CinderBackend", live["metadata"]["name"], spec)
    return [Step(name="Backends", objects=(kept,)), job]
