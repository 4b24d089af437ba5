"""The repository that a command uses: of a schedule or a backup in the cluster, or of a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...plan import Object
from ...runtime.kubernetes.client import Client
from ..inspection.selection import kinds_of
from ..inspection.snapshot import check_complete, list_objects
from ..inspection.state import subject
from ..kind_index import KindEntry
from .state import BACKUP, RESTORE, SCHEDULE


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository, as `spec.repository` has it."""

    spec: Object
    origin: str
    """`Kind/name`, or the file."""
    schedules: Sequence[Object] = ()
    """Schedules of the cluster that use it."""
    includes: Sequence[Object] = ()
    """`spec.include` of the resources that have it: which images, volumes and disks a backup holds."""

    @property
    def place(self) -> str:
        """The bucket, the folder or the volume."""
        bucket: Object = self.spec.get("s3") or {}
        folder = f"/{bucket['folder']}" if bucket.get("folder") else ""
        if bucket:
            return f"bucket {bucket['bucket']}{folder} at {bucket['endpoint']}"
        volume: Object = self.spec.get("volume") or {}
        return f"volume {volume['claimName']}" if volume else f"NFS folder {self.spec.get('nfs')}"


async def find_repository(client: Client, namespace: str, name: str | None, file: str | None) -> Repository:
    """Return the repository of the file, of the resource `NAME` or `KIND/NAME`, or without either that of all schedules
    of the namespace. Raises LookupError if there is none, or if schedules differ.
    """
    if file:
        return _of_file(file)
    if name is None:
        return await _of_schedules(client, namespace)
    kinds = [each for each in kinds_of(name) if each in (SCHEDULE, BACKUP)] if "/" in name else [SCHEDULE, BACKUP]
    if not kinds:
        raise LookupError(
            f"--repository-of {name}: name a schedule or a backup: osbackupschedule/NAME or osbackup/NAME"
        )
    own_name = name.rpartition("/")[2]
    resources = [live for kind in kinds if (live := await get_resource(client, kind, namespace, own_name))]
    if not resources:
        text = f"--repository-of {name}: there is no such schedule or backup in namespace {namespace!r}"
        raise LookupError(f"{text}; name another one, or a file with -f")
    if len(resources) > 1 and resources[0]["spec"]["repository"] != resources[1]["spec"]["repository"]:
        text = f"--repository-of {name}: a schedule and a backup have this name, and other repositories"
        raise LookupError(f"{text}; write osbackupschedule/{own_name} or osbackup/{own_name}")
    return await repository_of(client, resources[0])


async def get_resource(client: Client, entry: KindEntry, namespace: str, name: str) -> Object | None:
    """Return a resource; None if there is none."""
    live = await client.get(entry.as_kind(), namespace, name)
    return live and {"apiVersion": entry.api_version, "kind": entry.kind, **live}


async def repository_of(client: Client, live: Object) -> Repository:
    """Return the repository of a resource of the cluster, with the schedules beside it as far as they may be listed."""
    spec: Object = live["spec"]["repository"]
    schedules = await list_objects(client, SCHEDULE.as_kind(), live["metadata"]["namespace"], {}, [])
    same = [each for each in schedules if each["spec"].get("repository") == spec]
    return Repository(spec=spec, origin=subject(live), schedules=same, includes=[live["spec"].get("include") or {}])


async def _of_schedules(client: Client, namespace: str) -> Repository:
    refusals: list[str] = []
    schedules = await list_objects(client, SCHEDULE.as_kind(), namespace, {}, refusals)
    check_complete(refusals)
    if not schedules:
        text = f"there is no {SCHEDULE.kind} in namespace {namespace!r} to take the repository from"
        raise LookupError(f"{text}; name a schedule or a backup with --repository-of, or a manifest with -f")
    spec: Object = schedules[0]["spec"]["repository"]
    if any(each["spec"]["repository"] != spec for each in schedules):
        names = ", ".join(sorted(each["metadata"]["name"] for each in schedules))
        raise LookupError(f"schedules have several repositories; name one of {names} with --repository-of")
    origin = ", ".join(sorted(map(subject, schedules)))
    includes = [each["spec"].get("include") or {} for each in schedules]
    return Repository(spec=spec, origin=origin, schedules=schedules, includes=includes)


def _of_file(file: str) -> Repository:
    """Return the repository of the one manifest with a repository in a file."""
    from ..offline.documents import read  # noqa: PLC0415  (only for files)

    documents, unreadable = read([file])
    if unreadable:
        raise LookupError(f"-f {unreadable[0]}")
    kinds = {each.kind for each in (BACKUP, SCHEDULE, RESTORE)}
    specs: list[Any] = [each.value.get("spec") for each in documents if each.value.get("kind") in kinds]
    specs = [each for each in specs if isinstance(each, dict) and "repository" in each]
    repositories = [each["repository"] for each in specs]
    if not repositories or not isinstance(repositories[0], dict):
        raise LookupError(f"-f {file}: there is no {', '.join(sorted(kinds))} with spec.repository; add one")
    if any(each != repositories[0] for each in repositories):
        raise LookupError(f"-f {file}: its resources have several repositories; write the right one into a file")
    return Repository(spec=repositories[0], origin=file, includes=[each.get("include") or {} for each in specs])
