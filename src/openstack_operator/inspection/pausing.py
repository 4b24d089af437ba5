"""`pause` and `resume`: whether the operator works on a resource."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan import PAUSE
from ..registry import RESOURCES
from ..runtime.client import Client
from ..runtime.kinds import Kind
from .selection import PLANES, chosen, kinds_of
from .session import run
from .snapshot import read
from .state import pause_of, subject

_MANAGER = "openstack-operator-cli"
_KINDS = {(each.api_version, each.kind): Kind.of(each) for each in RESOURCES}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    resource: str | None
    """`KIND/NAME`; None stands for every resource of the namespace."""
    namespace: str = "openstack"
    context: str | None = None
    reason: str = ""


def pause(options: Options) -> int:
    """Let the operator leave resources as they are. Returns 0, or 2 if that could not be written."""
    return run(options.context, lambda client: _write(client, options, options.reason))


def resume(options: Options) -> int:
    """Let the operator work on resources again. Returns 0, or 2 if that could not be written."""
    return run(options.context, lambda client: _write(client, options, None))


async def _write(client: Client, options: Options, reason: str | None) -> int:
    """Write the annotation with that value, or remove it for None, where that changes something."""
    kinds = kinds_of(options.resource) if options.resource else RESOURCES
    snapshot = await read(client, options.namespace, kinds, with_workloads=False, with_pods=False)
    if snapshot.unreadable:
        raise LookupError(f"you may not list {'; '.join(snapshot.unreadable)}")
    resources = chosen(snapshot, options.resource, whole=True)
    for live in resources:
        if pause_of(live) == reason:
            print(f"{subject(live)}: {'not paused' if reason is None else 'paused already'}")
            continue
        await client.annotate(_KINDS[live["apiVersion"], live["kind"]], live, {PAUSE: reason}, manager=_MANAGER)
        print(f"{subject(live)}: {'resumed' if reason is None else 'paused'}")
    if options.resource and reason is not None and any(each["kind"] in PLANES for each in resources):
        print("its services are not paused: name each of them, or pause all resources of the namespace with --all")
    return 0
