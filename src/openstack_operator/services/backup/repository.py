"""The repository of backups, as programs in pods read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ... import kube
from ...api import PUBLIC_KEYS, SecretKeyRef
from ...plan import Context, SpecError, Step
from .model import Repository

REPOSITORY = "repository"
"""End of the name of the Secret."""
FOLDER = "/etc/backup/repository"
_MOUNTED = "/backup"
"""Path of a volume or a share."""


def repository(ctx: Context[Any], login: Mapping[str, SecretKeyRef] | None = None, *, suffix: str = REPOSITORY) -> Step:
    """Return Secret `<owner>-<suffix>`: how restic reaches the repository, and what opens it. A `login` replaces
    accessKey and secretKey of a bucket. Raises SpecError for a password that is none.
    """
    spec: Repository = ctx.spec.repository
    if spec.password_ref.key in PUBLIC_KEYS:
        text = f"{spec.password_ref.key!r} is the key of a certificate, which is no secret; name a key with a password"
        raise SpecError("spec.repository.passwordRef.key", text)
    keys = {"password": spec.password_ref}
    if spec.s3:
        keys |= login or {"accessKey": spec.s3.access_key_ref, "secretKey": spec.s3.secret_key_ref}
    data = {file: ctx.secrets[ref.name][ref.key] for file, ref in keys.items()}
    if spec.s3 and spec.s3.ca_ref:
        data["ca.crt"] = ctx.secrets[spec.s3.ca_ref.name]["ca.crt"]
    data["repository.json"] = json.dumps(_options(ctx, spec), sort_keys=True)
    return Step(name="Repository", objects=(kube.secret(ctx, ctx.name(suffix), data),))


def _options(ctx: Context[Any], spec: Repository) -> dict[str, Any]:
    limits = {"uploadKiB": spec.upload_limit or 0, "downloadKiB": spec.download_limit or 0}
    if not spec.s3:
        return {"url": _MOUNTED, **limits}
    path = "/".join(filter(None, (spec.s3.bucket, spec.s3.folder)))
    url = f"s3:{spec.s3.endpoint}/{path}"
    return {"url": url, "pathStyle": spec.s3.path_style, "region": spec.s3.region, **limits}


def mounts(ctx: Context[Any], suffix: str = REPOSITORY) -> list[kube.Mount]:
    """Return the mounts of the repository in a pod, with the login of a Secret that `repository` returns."""
    spec: Repository = ctx.spec.repository
    mounted = [kube.folder("repository", ctx.name(suffix), FOLDER)]
    if spec.nfs:
        server, _, path = spec.nfs.partition(":")
        mounted.append(kube.Mount(name="storage", path=_MOUNTED, volume={"nfs": {"server": server, "path": path}}))
    if spec.volume:
        claim = {"persistentVolumeClaim": {"claimName": spec.volume.claim_name}}
        mounted.append(kube.Mount(name="storage", path=_MOUNTED, volume=claim))
    return mounted
