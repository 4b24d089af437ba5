"""`support-bundle`: the state of a cloud as one archive, for an expert without access to the cluster."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ... import __version__
from ...kube import MANAGED_BY, NAME
from ...kube.masking import Mask
from ...kube.quotes import plain
from ...plan import Object, SpecError, Transient
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.errors import Forbidden
from ...runtime.kubernetes.kinds import DEPLOYMENT, EVENT, NODE, POD, SECRET, Kind
from ...yaml_text import dump
from ..kind_index import KINDS
from .commands import explanation
from .logs import containers_of
from .redaction import masked_values, redacted
from .selection import chosen
from .session import run, text_of
from .snapshot import Snapshot, list_objects, read
from .state import printed
from .table import overview

_LINES, _OPERATOR_LINES = 300, 3000
"""Last lines of the log of each container."""
_MOST_CONTAINERS = 400
"""Containers with a log in the archive; those of pods that are not ready come first."""
_CONCURRENCY = 8
_OPERATOR = f"{NAME}={MANAGED_BY}"
_ABOUT = """Support bundle of the OpenStack in namespace {namespace}, made at {time} by openstack-operator {version}.

It has no data of Secrets. Replaced by *** are, in specs, pods, Events and logs:

- what a name calls a secret: passwords in URLs, values behind settings and options (`db_password = X`, `DB_PASS=X`,
  `ADMIN_PW: X`, `--password X`), HTTP's Authorization, fields and variables with such a name
{known}
Not replaced are: secrets that are in no Secret of the namespace and have no such name; values of 1 or 2 characters, and
short ones that are words of names of objects; parts of a value that somebody cut; values that are compressed,
encrypted, or encoded otherwise; values of less than 5 bytes within longer base64 or hexadecimal text. Names of hosts,
users and servers are not hidden. Read it before you share it.

Letters that a terminal takes for orders, or that change the direction of text, are replaced by a question mark.

status.txt, why.txt    output of `openstack-operator status` and `why`
versions.txt           of the operator, Kubernetes and all images
resources/             resources of the operator, with their conditions
workloads/, pods/      objects the operator created, and their pods
events.txt             Events of the namespace and of the operator's, the last ones at the end
logs/                  ends of the logs of all containers, .previous before their last restart
operator/              the operator's Deployment, pods and logs
nodes.yaml             labels, taints, conditions and versions of the nodes
secrets.txt            names and types of Secrets
files.txt              all these files, with their sizes

{notes}"""

_OF_SECRETS = """\
- each value of the namespace's Secrets, of 3 characters or more: as it is, each line of it, each value in it if it is
  JSON or has lines of `name: value`. A value of less than 8 characters is replaced where it is a word of its own
- the same values percent-encoded, with escapes of JSON (`\\u0041`), shells or HTML, in base64 of any kind (also of
  `user:password`, or wrapped), in hexadecimal digits, and one encoding in another, three times
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    namespace: str = "openstack"
    context: str | None = None
    operator_namespace: str = MANAGED_BY
    file: Path | None = None
    """None takes a name with the namespace and the time, in the present folder."""


def support_bundle(options: Options) -> int:
    """Write the archive, and print what is in it. Returns 0, or 2 if it could not be written."""
    return run(options.context, lambda client: _write(client, options))


async def _write(client: Client, options: Options) -> int:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    file = options.file or Path(f"openstack-support-{options.namespace}-{stamp}.tar.gz")
    # Before the work, so that a wrong name costs no time. A file that exists, or a link to one, is not replaced.
    try:
        number = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise LookupError(f"{file} exists; name another file with -o") from None
    with ExitStack() as stack:
        stack.callback(file.unlink)
        archive = stack.enter_context(os.fdopen(number, "wb"))
        contents = await _Collector(client, options, stamp).collect()
        archive.write(archive_of(contents, file.name.removesuffix(".tar.gz")))
        archive.flush()
        stack.pop_all()
        archive.close()
    print("\n".join(_summary(contents)))
    print(f"\n{file} has no data of Secrets; read it before you share it")
    return 0


def _summary(contents: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each file, and for each folder with its number of files, with the sizes in bytes."""
    sizes: dict[str, list[int]] = {}
    for name, text in contents.items():
        top, slash, _ = name.partition("/")
        sizes.setdefault(f"{top}{slash}", []).append(len(text.encode()))
    for name, each in sizes.items():
        count = f" ({len(each)} file{'s' * (len(each) > 1)})" if name.endswith("/") else ""
        yield f"{sum(each):>9}  {name}{count}"


def archive_of(contents: Mapping[str, str], folder: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in contents.items():
            entry, data = tarfile.TarInfo(f"{folder}/{_entry_name(name)}"), text.encode(errors="replace")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _entry_name(path: str) -> str:
    """Return the path of a file in the archive, which stays in its folder, whatever names a server answers with."""
    return "/".join(part for part in printed(path).split("/") if part not in {"", ".", ".."})


@dataclass
class _Collector:
    client: Client
    options: Options
    stamp: str
    refusals: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    async def collect(self) -> dict[str, str]:
        """Return the files of the archive, by name."""
        namespace = self.options.namespace
        snapshot = await read(self.client, namespace)
        self.refusals += snapshot.unreadable
        secrets = await self._list(SECRET, namespace)
        mask = Mask(masked_values(secrets), _names(snapshot, secrets))
        operators = self.options.operator_namespace
        operator = await self._list(POD, operators, labelSelector=_OPERATOR)
        deployments = await self._list(DEPLOYMENT, operators, labelSelector=_OPERATOR)
        events = [each for place in (namespace, operators) for each in await self._list(EVENT, place)]
        files = {
            **await self._state(snapshot, mask),
            "versions.txt": await self._versions(snapshot, deployments),
            "nodes.yaml": _yaml(map(_node, await self._list(NODE, "")), mask),
            "events.txt": mask.over("".join(map(_event, sorted(events, key=_last)))),
            "secrets.txt": "".join(f"{each['metadata']['name']} ({each.get('type', '')})\n" for each in secrets),
            **_manifests("resources", snapshot.resources, mask),
            **_manifests("workloads", snapshot.workloads, mask),
            **_manifests("pods", snapshot.pods, mask),
            **_manifests("operator", [*deployments, *operator], mask),
            **await self._logs("logs", namespace, snapshot.pods, _LINES, mask),
            **await self._logs("operator/logs", operators, operator, _OPERATOR_LINES, mask),
        }
        contents = {"about.txt": self._about(has_secrets=bool(secrets)), **files}
        contents = {name: plain(text) for name, text in contents.items()}
        listing = "".join(f"{len(text.encode()):>9}  {printed(name)}\n" for name, text in contents.items())
        return {**contents, "files.txt": listing}

    async def _list(self, kind: Kind, namespace: str, **params: str) -> list[Object]:
        return await list_objects(self.client, kind, namespace, params, self.refusals)

    def _about(self, *, has_secrets: bool) -> str:
        masked_too = _OF_SECRETS if has_secrets else "- no value by itself: the Secrets could not be read\n"
        notes = [*self.notes, *(f"not readable: {each}" for each in sorted(set(self.refusals)))]
        text = "".join(f"{printed(each)}\n" for each in notes)
        return _ABOUT.format(
            namespace=self.options.namespace, time=self.stamp, version=__version__, known=masked_too, notes=text
        )

    async def _state(self, snapshot: Snapshot, mask: Mask) -> dict[str, str]:
        """Return what `status` and `why` print."""
        try:
            lines = await explanation(self.client, snapshot, chosen(snapshot, None, whole=False))
            status = overview(snapshot, chosen(snapshot, None, whole=True), every=True)
        except LookupError as error:
            lines, status = [], str(error.args[0])
        why = "\n".join(lines) or "no cause found"
        return {"status.txt": f"{mask.over(status)}\n", "why.txt": f"{mask.over(why)}\n"}

    async def _versions(self, snapshot: Snapshot, deployments: Sequence[Object]) -> str:
        images = sorted({each["image"] for pod in snapshot.pods for each in pod.get("spec", {}).get("containers", ())})
        operator = [each["image"] for live in deployments for each in live["spec"]["template"]["spec"]["containers"]]
        last = sorted({(each.get("status") or {}).get("operatorVersion", "") for each in snapshot.resources} - {""})
        try:
            kubernetes = await self.client.server_version()
        except Transient as error:
            kubernetes = f"unknown ({text_of(error)})"
        lines = [
            f"this program: {__version__}",
            f"Kubernetes: {kubernetes}",
            f"operator: {', '.join(operator) or 'unknown'}",
            f"last passes by operator: {', '.join(last) or 'none'}",
            *(f"image: {image}" for image in images),
        ]
        return "".join(f"{printed(line)}\n" for line in lines)

    async def _logs(
        self, folder: str, namespace: str, pods: Sequence[Object], lines: int, mask: Mask
    ) -> dict[str, str]:
        """Return the ends of logs, also of the containers before the last restart."""
        containers = containers_of(sorted(pods, key=_is_ready))
        if len(containers) > _MOST_CONTAINERS:
            self.notes.append(f"logs of {len(containers) - _MOST_CONTAINERS} containers are left out")
        limit = asyncio.Semaphore(_CONCURRENCY)

        async def read_log(pod: str, container: str, *, previous: bool) -> tuple[str, str]:
            name = f"{folder}/{pod}/{container}{'.previous' if previous else ''}.log"
            async with limit:
                try:
                    text = await self.client.log(namespace, pod, container, lines=lines, previous=previous)
                except Forbidden as error:
                    self.refusals.append(text_of(error))
                    return name, ""
                except (SpecError, Transient):
                    # The API server answers 400 for a container that has not begun.
                    return name, ""
            return name, "".join(f"{printed(line)}\n" for line in mask.over(text).splitlines())

        reads = [(each, False) for each in containers] + [(each, True) for each in containers if each.restarts]
        texts = await asyncio.gather(
            *(
                read_log(each.pod, each.name, previous=previous)
                for each, previous in reads
                if each in containers[:_MOST_CONTAINERS]
            )
        )
        return {name: text for name, text in texts if text}


def _names(snapshot: Snapshot, secrets: Iterable[Object]) -> set[str]:
    """Return names of objects, which are no secrets though a short value of a Secret may be one of them."""
    objects = [*snapshot.resources, *snapshot.workloads, *snapshot.pods, *secrets]
    kinds = {live.get("kind", "") for live in objects}
    return {snapshot.namespace, *(live["metadata"]["name"] for live in objects), *kinds}


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _manifests(folder: str, objects: Iterable[Object], mask: Mask) -> dict[str, str]:
    """Return a file for each object."""
    return {f"{folder}/{_type_name(live)}/{live['metadata']['name']}.yaml": _yaml([live], mask) for live in objects}


def _type_name(live: Object) -> str:
    """Return the kind, with its group where another group has a kind of that name, too."""
    groups = {each.group for each in KINDS if each.kind == live["kind"]}
    return f"{live['kind']}.{live['apiVersion'].partition('/')[0]}" if len(groups) > 1 else live["kind"]


def _yaml(objects: Iterable[Object], mask: Mask) -> str:
    return "---\n".join(dump(redacted(each, mask)) for each in objects)


def _node(live: Object) -> Object:
    """Return what is worth knowing of a Node; not its images and addresses."""
    status, metadata = live.get("status") or {}, live["metadata"]
    return {
        "metadata": {"name": metadata["name"], "labels": metadata.get("labels") or {}},
        "taints": (live.get("spec") or {}).get("taints") or [],
        **{name: status.get(name) for name in ("allocatable", "conditions", "nodeInfo")},
    }


def _last(event: Object) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or ""


def _event(event: Object) -> str:
    subject, count = event.get("involvedObject") or {}, event.get("count") or 1
    about = f"{subject.get('kind', '')}/{subject.get('name', '')}"
    parts = (_last(event), event.get("type"), event.get("reason"), about, event.get("message"))
    # `printed` leaves parts of escape sequences, which would hide a password from the mask.
    return printed(f"{plain(' '.join(part or '-' for part in parts))}{f' (x{count})' if count > 1 else ''}") + "\n"
