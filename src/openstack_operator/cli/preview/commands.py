"""`plan`: what it prints, and its exit status."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from ... import __version__
from ...api import handle
from ...cluster_domain import USUAL
from ...kube import FIELD, MANAGED_BY, conditions
from ...plan import NO_PERMISSIONS, Object, Permissions, SpecError, Transient
from ...registry import ACTUATORS, RESOURCES, SERVICES
from ...release_files import ReleaseFiles, packaged
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.errors import Forbidden, Missing
from ...runtime.kubernetes.kinds import JOB, NODE, SECRET, Kind
from ..inspection.redaction import masked_values
from ..inspection.session import cloud_namespace
from ..inspection.state import is_ready, printed, reason_of, remarks, subject
from ..offline.documents import Document
from ..offline.documents import read as read_documents
from ..offline.manifest import metadata_problems
from .changes import ObjectChange, changes
from .client import DryRunClient
from .definitions import outdated
from .edit import LastApply, apply_note, conflict_note
from .images import fields_of_images, missing_images
from .outage import REPLICA_SET, last_durations, outages
from .previewed_cluster import Preview, PreviewError
from .running import RunningOperator, read, write_releases
from .text import as_json, lines

SAME, FAULT, DIFFERENT = 0, 1, 2
"""Exit statuses: nothing would change, the question could not be answered or something is refused, something would."""
_KINDS = {resource.handle: resource for resource in RESOURCES}


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    """Options of the operator in the cluster, as far as plans depend on them."""

    cluster_domain: str = ""
    releases: Path | None = None
    """Folder in its container."""
    permissions: Permissions = NO_PERMISSIONS


Parse = Callable[[Sequence[str], Mapping[str, str]], OperatorSettings]
"""Returns settings of `run` from its arguments and its environment. Exits for an unknown option."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    parse: Parse
    files: Sequence[str] = ()
    """Manifests to apply; with none, the plan is what this program would change of the cloud as it is."""
    recursive: bool = False
    namespace: str | None = None
    """None takes that of the manifests, then that of the context, or `openstack`."""
    context: str | None = None
    operator_namespace: str = MANAGED_BY
    releases: Path | None = None
    cluster_domain: str = ""
    as_json: bool = False


@dataclass
class _Manifests:
    """The objects of the files that the operator looks at."""

    namespace: str
    """Empty if neither the manifests nor the user name one."""
    resources: list[tuple[Kind, Object]] = field(default_factory=list[tuple[Kind, Object]])
    secrets: list[Object] = field(default_factory=list[Object])


class _Foreseen(NamedTuple):
    """Result of the passes: differences, what would not be done, and definitions to apply before."""

    differences: Sequence[ObjectChange]
    problems: Sequence[str]
    definitions: Sequence[str]


def plan(options: Options) -> int:
    """Print what applying manifests would change, without changing anything."""
    documents, unreadable = read_documents(options.files, recursive=options.recursive)
    if unreadable:
        return _fault(*map(str, unreadable))
    try:
        return asyncio.run(_plan(options, _sort(documents, options.namespace)))
    except SpecError as error:
        return _fault(*(": ".join(part for part in problem if part) for problem in error.problems))
    except BrokenPipeError:
        # Whoever read it has gone.
        raise
    except (Transient, Missing, LookupError, OSError, PreviewError) as error:
        return _fault(str(error.args[0] if error.args else error))
    except KeyboardInterrupt:
        return FAULT


def _sort(documents: Sequence[Document], namespace: str | None) -> _Manifests:
    """Return the manifests of one namespace. Raises LookupError if they are of several, or one has no name."""
    readable = [each for each in documents if _is_known(each.value)]
    for each in documents:
        if each not in readable:
            print(
                printed(
                    f"left out, because it is not a resource of this operator: "
                    f"{each.resource or 'a document without a kind'} ({each.file})"
                ),
                file=sys.stderr,
            )
    for each in readable:
        metadata = each.value.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(cast("Object", metadata).get("name"), str):
            raise LookupError(str(each.finding("needs a name", "metadata.name")))
        for problem in metadata_problems(metadata):
            raise LookupError(str(each.finding(problem.message, problem.path)))
    names = {each.value["metadata"].get("namespace") for each in readable} | {namespace}
    names = {str(each) for each in names if each}
    if len(names) > 1:
        raise LookupError(f"the manifests and -n name the namespaces {', '.join(sorted(names))}; plan one at a time")
    manifests = _Manifests(next(iter(names), ""))
    for each in readable:
        if each.value["kind"] == "Secret":
            manifests.secrets.append(each.value)
        else:
            resource = _KINDS[handle(each.value["apiVersion"], each.value["kind"])]
            manifests.resources.append((Kind.of(resource), each.value))
    return manifests


def _is_known(value: Any) -> bool:
    """Return True for a manifest of a Secret, or of a kind of this operator."""
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return False
    return (api_version, kind) == ("v1", "Secret") or handle(api_version, kind) in _KINDS


async def _plan(options: Options, manifests: _Manifests) -> int:
    async with AsyncExitStack() as stack:
        client = DryRunClient.connect(options.context)
        stack.push_async_callback(client.close)
        manifests.namespace = manifests.namespace or cloud_namespace(client.namespace)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="releases-")))
        operator = await read(client, options.operator_namespace)
        settings = _settings(options, operator)
        preview = Preview(
            client,
            SERVICES,
            ACTUATORS,
            ReleaseFiles(*_release_folders(options, operator, settings, folder), packaged()),
            manifests.namespace,
            domain=options.cluster_domain or settings.cluster_domain or USUAL,
            operator_namespace=options.operator_namespace,
            permissions=settings.permissions,
        )
        await preview.load()
        for note in preview.notes:
            _warn(note)
        if not manifests.resources and not preview.resources():
            raise LookupError(
                f"namespace {manifests.namespace!r} has no resource of this operator; name another with -n"
            )
        refused = await _apply(preview, manifests)
        await preview.settle()
        differences = changes(client.written, await _secret_values(preview, client))
        for remark in _remarks(preview):
            _warn(remark)
        problems = [*refused, *_problems(preview)]
        definitions = [] if options.files else await _definitions(client)
        await _print(options, client, manifests.namespace, _Foreseen(differences, problems, definitions))
        if problems:
            return FAULT
        return DIFFERENT if differences or definitions else SAME


async def _definitions(client: Client) -> list[str]:
    """Return the definitions that have to be applied before this version of the operator; none, with a warning, without
    the right to read them.
    """
    try:
        return await outdated(client, RESOURCES)
    except Forbidden as error:
        _warn(f"{error}; changed definitions of version {__version__} are not shown")
        return []


def _settings(options: Options, operator: RunningOperator | None) -> OperatorSettings:
    """Return the settings of the running operator; the usual ones, with a warning, if they are not known."""
    if operator is None:
        _warn(
            f"there is no operator in namespace {options.operator_namespace!r}, or you may not read its "
            "Deployment: default options are assumed; name its namespace with --operator-namespace"
        )
        return OperatorSettings()
    try:
        return options.parse(operator.arguments, operator.environment)
    except SystemExit:
        _warn(f"the operator has options unknown to version {__version__} of this program; they are ignored")
        return OperatorSettings()


def _release_folders(
    options: Options, operator: RunningOperator | None, settings: OperatorSettings, folder: Path
) -> list[Path]:
    """Return the folders of release files that win over the packaged ones, and say which files these are."""
    if options.releases:
        _warn(f"release files: those of {options.releases}, then of version {__version__} of this program")
        return [options.releases]
    written = write_releases(operator, settings.releases, folder) if operator and settings.releases else None
    if written:
        _warn("release files: those of the running operator")
        return [written]
    _warn(
        f"release files: those of version {__version__} of this program; the running operator has none of its own, or"
        " you may not read its Deployment and its ConfigMaps"
    )
    return []


async def _apply(preview: Preview, manifests: _Manifests) -> list[str]:
    """Apply the manifests as a user would, and say how. Returns what the API server refuses."""
    refused: list[str] = []
    names: dict[LastApply, list[str]] = {}
    for kind, manifest in [*((SECRET, each) for each in manifests.secrets), *manifests.resources]:
        name = subject(manifest)
        try:
            last_apply, conflict = await preview.apply(kind, manifest)
        except (SpecError, Missing) as error:
            refused.append(f"{name}: {error}")
            continue
        if last_apply:
            names.setdefault(last_apply, []).append(name)
        if conflict:
            _warn(f"{name}: {conflict_note(conflict, last_apply)}")
    for last_apply, subjects in names.items():
        _warn(apply_note(last_apply, subjects))
    return refused


async def _secret_values(preview: Preview, client: Client) -> list[str]:
    """Return what the Secrets of the namespace hold, those of users included, so that it is shown nowhere."""
    secrets = [each.decode() for each in preview.world.stores[SECRET]]
    return list(masked_values([*secrets, *await _list(client, SECRET, preview.namespace)]))


def _problems(preview: Preview) -> list[str]:
    """Return what keeps resources from being ready once all that can be done is done."""
    problems: list[str] = []
    for live in preview.resources():
        if not is_ready(live) and "deletionTimestamp" not in live["metadata"]:
            message = conditions(live).get("Ready", {}).get("message", "")
            problems.append(f"{subject(live)}: {reason_of(live)}: {message}")
    return problems


def _remarks(preview: Preview) -> Iterator[str]:
    """Yield what would have no effect in resources. A cloud says it of those that it made."""
    for live in preview.resources():
        if FIELD not in (live["metadata"].get("annotations") or {}):
            for remark in remarks(live):
                yield f"{subject(live)}: {remark}"


async def _print(options: Options, client: DryRunClient, namespace: str, foreseen: _Foreseen) -> None:
    differences, problems, definitions = foreseen
    stops = outages(differences, client.written)
    problems = [*problems, *missing_images(client.written, await _nodes(client), fields_of_images(client.written))]
    replica_sets, jobs = [await _list(client, kind, namespace) for kind in (REPLICA_SET, JOB)]
    durations = last_durations(differences, client.written, replica_sets, jobs)
    if options.as_json:
        whole = as_json(differences, stops, problems, durations) | {"definitions": list(definitions)}
        print(json.dumps(whole, indent=2), flush=True)
        return
    print("\n".join(lines(differences, stops, problems, durations)), flush=True)
    if definitions:
        print(
            "\n".join(
                ("", f"Definitions to apply before version {__version__}:", *(f"  {each}" for each in definitions))
            )
        )


async def _nodes(client: Client) -> list[Object]:
    """Return the nodes; none without the right to them."""
    try:
        answer = msgspec.json.decode(await client.page(NODE, None, {}))
    except (Forbidden, Transient):
        return []
    return answer.get("items") or []


async def _list(client: Client, kind: Kind, namespace: str) -> list[Object]:
    """Return the first objects of a kind, which only add how long something took; none without the right to them."""
    try:
        answer = msgspec.json.decode(await client.page(kind, namespace, {}))
    except (Forbidden, Transient):
        return []
    return answer.get("items") or []


def _warn(text: str) -> None:
    print(f"openstack-operator plan: {printed(text)}", file=sys.stderr)


def _fault(*texts: str) -> int:
    for text in texts:
        _warn(text)
    return FAULT
