"""Verification of a backup: it is restored into a pod, and Keystone logs in with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ... import kube
from ...plan import Context, ReleaseEntry
from .model import OpenStackBackupSpec
from .pods import Image, Program, Run

STAGE = "RestoreVerified"
FIELD = "verifications"
_FOLDER = "/var/lib/backup"
_NAME = "verify"
_DEADLINE = 6 * 3600
"""Seconds after which Kubernetes ends the pod."""


def observed(facts: Sequence[Mapping[str, Any]]) -> Image | None:
    """Return the image of the one Keystone of the namespace; None if this operator runs none, or several."""
    deployments = [each for fact in facts for each in fact["deployments"]]
    apis = [each for each in deployments if each["metadata"]["labels"].get(kube.COMPONENT) == "api"]
    return Image.of(apis[0]["spec"]["template"]["spec"]) if len(apis) == 1 else None


def dump(image: Image | None) -> str:
    """Return JSON for `load`."""
    return json.dumps(image.dump()) if image else ""


def load(text: str) -> Image | None:
    """Return what `dump` returned."""
    return Image.load(json.loads(text)) if text else None


def images(storage: Image, identity: Image | None) -> dict[str, Any]:
    """Return what the record knows of the images of a verification: those that the cloud had."""
    return {"storage": storage.dump(), **({"identity": identity.dump()} if identity else {})}


def runs(ctx: Context[OpenStackBackupSpec], recorded: Mapping[str, Any]) -> dict[str, Run]:
    """Return the run that verifies a backup, with the images of its record."""
    storage = Image.load(recorded["storage"])
    shared = kube.scratch(_FOLDER, large=True)
    companion = None
    if "identity" in recorded:
        # As the user of the other program: they share files that nobody else reads, and the socket of the server.
        image = Image.load(recorded["identity"]).entry.image
        entry = ReleaseEntry(image, storage.entry.uid, storage.entry.gid)
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


def duration(stored: Mapping[str, Any]) -> str | None:
    """Return the time that the restore took, None before."""
    seconds = stored.get(FIELD, {}).get(_NAME, {}).get("seconds")
    if not isinstance(seconds, (int, float)):
        return None
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
