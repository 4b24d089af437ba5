"""`backup run` and `backup verify`: a backup now, and its restore as a test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...plan import Object
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.errors import Conflict
from ..inspection.commands import NOT_READY, READY
from ..inspection.session import MANAGER, run, warn
from ..inspection.state import printed, subject
from ..kind_index import KindEntry
from .following import Follower
from .repositories import Repository, find_repository, get_resource
from .state import BACKUP, cause_of, has_failed, status_of

_SCHEDULED = re.compile(r".*-\d{12}")
"""Names of backups that a schedule makes, of which `retention` keeps some and removes the others."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that `run`, `verify` and `restore` share."""

    namespace: str = "openstack"
    context: str | None = None
    name: str | None = None
    """Of the resource; None makes one of the time, where it is to be created."""
    wait: bool = False
    timeout: float = 86400.0
    """Seconds."""


@dataclass(frozen=True, kw_only=True)
class NewBackup(Options):
    """Options of `run`."""

    repository_of: str | None = None
    """`NAME` or `KIND/NAME` of a schedule or a backup."""
    file: str | None = None
    """Manifest with a repository."""
    verify: bool = False
    dry_run: bool = False


def run_backup(options: NewBackup) -> int:
    """Create a backup. Returns 0 if it was created, or with `wait` is complete, 1 if it failed or is not complete in
    time, and 2 if it could not be created.
    """
    return run(options.context, lambda client: _run(client, options))


def verify_backup(options: Options) -> int:
    """Let the operator restore a backup as a test. Returns as `run_backup` does."""
    return run(options.context, lambda client: _verify(client, options))


async def _run(client: Client, options: NewBackup) -> int:
    if options.name and _SCHEDULED.fullmatch(options.name):
        text = "a dash and twelve digits are the end of a name that a schedule gives, whose retention would remove it"
        raise LookupError(f"NAME {options.name}: {text}; choose another name")
    repository = await find_repository(client, options.namespace, options.repository_of, options.file)
    name = options.name or new_name("backup")
    spec = {"repository": repository.spec, **_include(repository), **({"verify": True} if options.verify else {})}
    if options.dry_run:
        print_manifest(manifest(BACKUP, options.namespace, name, spec))
        return READY
    live = await create(client, BACKUP, options.namespace, name, spec, repository)
    return await _follow_backup(client, live, options)


def _include(repository: Repository) -> Object:
    """Return what the backup holds, as the spec of others says, and no other backup needs. Raises LookupError if these
    differ.
    """
    include = next(iter(repository.includes), {})
    if any(each != include for each in repository.includes):
        text = f"{repository.origin} differ in `include`"
        raise LookupError(f"{text}; name the one whose backups to make with --schedule or --repository-of")
    independent = {name: value for name, value in include.items() if name != "incremental"}
    return {"include": independent} if independent else {}


async def _verify(client: Client, options: Options) -> int:
    name = options.name or ""
    live = await get_resource(client, BACKUP, options.namespace, name)
    if live is None:
        text = f"there is no {BACKUP.kind}/{name} in namespace {options.namespace!r}"
        raise LookupError(f"{text}; `openstack-operator backup list -n {options.namespace}` has their names")
    if text := _verification(live):
        print(printed(f"{subject(live)}: {text}"))
        return READY
    if not status_of(live).get("completed") and has_failed(live):
        warn(f"{subject(live)} failed, so that there is nothing to verify: {cause_of(live)}")
        return NOT_READY
    if not live["spec"].get("verify"):
        metadata = {key: live["metadata"][key] for key in ("name", "namespace", "uid")}
        changed = await client.merge(
            BACKUP.as_kind(), {"metadata": metadata, "spec": {"verify": True}}, manager=MANAGER
        )
        live = {**live, **changed}
    moment = "" if status_of(live).get("completed") else " once it is complete"
    print(printed(f"{subject(live)}: the operator restores it in a pod{moment}, and uses it; the cloud stays as it is"))
    return await _follow_backup(client, live, options)


async def _follow_backup(client: Client, live: Object, options: Options) -> int:
    if not options.wait:
        print(f"see how it goes: openstack-operator backup list -n {options.namespace}")
        return READY
    is_verified = bool(live["spec"].get("verify"))
    result = _verification if is_verified else _completion
    follower = Follower(client=client, live=live, context=options.context, timeout=options.timeout, result=result)
    return await follower.run()


def _completion(live: Object) -> str:
    """Return what a complete backup has; empty before it is complete."""
    status = status_of(live)
    if not status.get("completed"):
        return ""
    content = f"{_databases(status.get('databases') or ())}, {status.get('objects')} resources and Secrets"
    text = f"complete at {status['completed']} after {status.get('duration')}: {content}"
    missing = "; ".join(status.get("notIncluded") or ())
    return f"{text}; not in it: {missing}" if missing else text


def _verification(live: Object) -> str:
    """Return what was verified, and how long that took; empty before."""
    status = status_of(live)
    if not status.get("verified"):
        return ""
    content = f"{_databases(status.get('databases') or ())} and the keys of Keystone"
    return f"verified at {status['verified']}: {content}; the restore took {status.get('restoreDuration')}"


def _databases(databases: Sequence[Any]) -> str:
    return ", ".join(f"{each.get('kind')}/{each.get('name')} ({each.get('size')})" for each in databases)


def new_name(word: str) -> str:
    """Return a name with the present time. With seconds, it is none of a schedule."""
    return f"{word}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def manifest(entry: KindEntry, namespace: str, name: str, spec: Object) -> Object:
    """Return a resource."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": entry.api_version, "kind": entry.kind, "metadata": metadata, "spec": spec}


def print_manifest(resource: Object) -> None:
    """Print a resource as YAML."""
    from ...yaml_text import dump  # noqa: PLC0415  (only for this)

    print(dump(resource), end="")


async def create(
    client: Client, entry: KindEntry, namespace: str, name: str, spec: Object, repository: Repository
) -> Object:
    """Create a resource, say so, and return it. Raises LookupError if there is one of the name."""
    resource = manifest(entry, namespace, name, spec)
    try:
        live = await client.create(entry.as_kind(), resource, manager=MANAGER)
    except Conflict:
        raise LookupError(
            f"{subject(resource)} exists already in namespace {namespace!r}; choose another NAME"
        ) from None
    line = f"{subject(resource)} created in namespace {namespace}; {repository.place}, as {repository.origin} has it"
    print(printed(line), flush=True)
    return {**resource, **live}
