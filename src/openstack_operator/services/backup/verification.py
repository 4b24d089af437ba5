"""Verification of a backup: it is restored into a pod, and Keystone logs in with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import kube
from ...plan import Context, ReleaseEntry, State, Verdict
from . import report
from .databases import server_image
from .model import OpenStackBackupSpec
from .pods import Image, Program, Run

STAGE = "RestoreVerified"
FIELD = "verifications"
_FOLDER = "/var/lib/backup"
_NAME = "verify"
_DEADLINE = 6 * 3600
"""Seconds after which Kubernetes ends the pod."""


def images(ctx: Context[Any]) -> tuple[Image, Image | None] | None:
    """Return the images of a database's server and of the one Keystone of the namespace, if this operator runs one;
    None without a database.
    """
    storage = server_image(ctx.facts.get("databases", ()))
    if storage is None:
        return None
    deployments = [each for fact in ctx.facts["identities"] for each in fact["deployments"]]
    apis = [each for each in deployments if each["metadata"]["labels"].get(kube.COMPONENT) == "api"]
    return storage, Image.of(apis[0]["spec"]["template"]["spec"]) if len(apis) == 1 else None


def runs(ctx: Context[OpenStackBackupSpec], storage: Image, identity: Image | None) -> dict[str, Run]:
    """Return the run that verifies a backup, with these images."""
    shared = kube.scratch(_FOLDER, large=True)
    companion = None
    if identity:
        # As the user of the other program: they share files that nobody else reads, and the socket of the server.
        entry = ReleaseEntry(identity.entry.image, storage.entry.uid, storage.entry.gid)
        companion = Program(name="identity", entry=entry, mounts=shared)
    parameters = {
        "backup": ctx.owner,
        "cloud": ctx.namespace,
        "folder": _FOLDER,
        "identity": companion is not None,
    }
    run = Run(
        component=_NAME,
        program=_NAME,
        parameters=parameters,
        image=storage,
        mounts=shared,
        companion=companion,
        memory="384Mi",
        deadline=_DEADLINE,
    )
    return {_NAME: run}


def verdict(stored: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a backup that was verified, with the number of images that were changed meanwhile."""
    number = report.number(stored.get(FIELD, {}).get(_NAME, {}).get("fleeting"))
    text = f"without {number} images that users changed while the backup ran: the log of its pod names them"
    return Verdict(State.READY, text if number else "")


def duration(stored: Mapping[str, Any]) -> str | None:
    """Return the time that the restore took, None before."""
    seconds = stored.get(FIELD, {}).get(_NAME, {}).get("seconds")
    if not isinstance(seconds, (int, float)):
        return None
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
