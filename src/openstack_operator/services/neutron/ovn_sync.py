"""Synchronization after a database of OVN was rebuilt: Neutron writes its networks into it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...parts.connect.ovn import rebuilt_databases
from ...plan import RELEASE_ANNOTATION, Context, Object, Step
from .config import network
from .model import NeutronSpec

NAME = "ovn-db-sync"
_IDENTITY = "OVN_NORTHBOUND"


def remark(ctx: Context[NeutronSpec]) -> str:
    """Return a line for a configuration file, empty while the databases are the first ones. It makes pods restart:
    their copy of a former database is newer, so they would wait for it without end (ovs.db.idl).
    """
    identities = [identity for identity in rebuilt_databases(network(ctx)) if identity]
    return f"# Databases of OVN that were made anew: {', '.join(identities)}\n" if identities else ""


def db_resync(
    ctx: Context[NeutronSpec], conf: parts.Config, *, after: Sequence[Step], mounts: Sequence[kube.Mount]
) -> list[Step]:
    """Return a Job for each northbound database that was rebuilt; none for the first one. API pods wait for it:
    resources they create meanwhile could look like leftovers and be removed.
    """
    identity = rebuilt_databases(network(ctx))[0]
    if not identity:
        return []
    command = parts.release_entry(ctx, "api").commands["repair"]
    program = parts.ProgramSettings(mounts=mounts, env={_IDENTITY: identity})
    step = parts.job(ctx, NAME, command, conf, after=after, condition="OVNConnected", program=program)
    finished_jobs = [job for (kind, _), job in ctx.children.items() if kind == "Job" and _has_resynced(job, identity)]
    return [replace(step, objects=(_unchanged(finished_jobs[0]),)) if finished_jobs else step]


def _has_resynced(job: Object, identity: str) -> bool:
    (main,) = job["spec"]["template"]["spec"]["containers"]
    env: Sequence[Mapping[str, Any]] = main.get("env") or ()
    return any(e["name"] == _IDENTITY and e.get("value") == identity for e in env) and kube.judge(job).ready


def _unchanged(job: Object) -> Object:
    """Return the Job unchanged: with another image it would be another Job, which runs again beside the API."""
    metadata: Object = {name: job["metadata"][name] for name in ("name", "namespace", "labels")}
    if release := (job["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION):
        metadata["annotations"] = {RELEASE_ANNOTATION: release}
    spec = {name: job["spec"][name] for name in ("backoffLimit", "completions", "parallelism", "template")}
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": metadata, "spec": spec}
