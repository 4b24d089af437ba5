"""What follows when a database of OVN was made anew: Neutron writes its networks into it once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...plan import Context, Object, Step
from .config import network
from .model import NeutronSpec

NAME = "ovn-db-sync"
_IDENTITY = "OVN_NORTHBOUND"


def rebuilt(ctx: Context[NeutronSpec]) -> Sequence[str]:
    """Identities of the northbound and the southbound database, each empty where it is still the first one."""
    published: Mapping[str, str] = network(ctx).published
    return [published.get(f"{name}Rebuilt", "") for name in ("northbound", "southbound")]


def remark(ctx: Context[NeutronSpec]) -> str:
    """A line for a configuration file, empty while the databases are the first ones. With it pods start anew: what they
    know of a former database is newer, so they would wait for it for ever (ovs.db.idl).
    """
    known = [identity for identity in rebuilt(ctx) if identity]
    return f"# Databases of OVN that were made anew: {', '.join(known)}\n" if known else ""


def refill(
    ctx: Context[NeutronSpec], conf: parts.Config, *, after: Sequence[Step], mounts: Sequence[kube.Mount]
) -> list[Step]:
    """A Job for each northbound database that was made anew; none for the first one. API pods wait for it: what they
    create meanwhile could look like a leftover and be removed.
    """
    identity = rebuilt(ctx)[0]
    if not identity:
        return []
    step = parts.job(
        ctx,
        NAME,
        parts.program(ctx, "api").commands["repair"],
        conf,
        after=after,
        condition="OVNConnected",
        mounts=mounts,
        env={_IDENTITY: identity},
    )
    done = [job for (kind, _), job in ctx.children.items() if kind == "Job" and _filled(job, identity)]
    return [replace(step, objects=(_same(done[0]),)) if done else step]


def _filled(job: Object, identity: str) -> bool:
    (main,) = job["spec"]["template"]["spec"]["containers"]
    env: Sequence[Mapping[str, Any]] = main.get("env") or ()
    return any(e["name"] == _IDENTITY and e.get("value") == identity for e in env) and kube.judge(job).ready


def _same(job: Object) -> Object:
    """The Job as it is: with another image it would be another one, which runs again beside the API."""
    metadata = {name: job["metadata"][name] for name in ("name", "namespace", "labels")}
    spec = {name: job["spec"][name] for name in ("backoffLimit", "completions", "parallelism", "template")}
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": metadata, "spec": spec}
