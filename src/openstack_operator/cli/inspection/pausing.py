"""`pause` and `resume`: whether the operator works on a resource."""

from __future__ import annotations

from dataclasses import dataclass

from ...plan import PAUSE, Object, SpecError
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.errors import Conflict, Forbidden, Missing
from ..kind_index import BY_TYPE, KINDS
from .selection import PLANES, chosen, kinds_of
from .session import FAULT, MANAGER, run, text_of, warn
from .snapshot import read
from .state import pause_of, subject


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    resource: str | None
    """`KIND/NAME`; None stands for every resource of the namespace."""
    namespace: str = "openstack"
    context: str | None = None
    reason: str | None = None
    """Of a pause; None keeps that of a resource that is paused already."""


def pause(options: Options) -> int:
    """Let the operator leave resources as they are. Returns 0, or 2 if that could not be written for all of them."""
    return run(options.context, lambda client: _write(client, options, is_pause=True))


def resume(options: Options) -> int:
    """Let the operator work on resources again. Returns 0, or 2 if that could not be written for all of them."""
    return run(options.context, lambda client: _write(client, options, is_pause=False))


async def _write(client: Client, options: Options, *, is_pause: bool) -> int:
    """Write the annotation, or remove it, where that changes something."""
    kinds = kinds_of(options.resource) if options.resource else KINDS
    snapshot = await read(client, options.namespace, kinds, with_workloads=False, with_pods=False)
    snapshot.check_complete()
    resources = chosen(snapshot, options.resource, whole=True)
    failed: list[str] = []
    for live in resources:
        reason = _reason(live, options) if is_pause else None
        if pause_of(live) == reason:
            print(f"{subject(live)}: {'paused already' if is_pause else 'not paused'}")
            continue
        kind = BY_TYPE[live["apiVersion"], live["kind"]].as_kind()
        try:
            await client.annotate(kind, live, {PAUSE: reason}, manager=MANAGER)
        except (Conflict, Missing, Forbidden, SpecError) as error:
            # A fault of one resource is none of the others, which the user wants to be paused, too.
            failed.append(subject(live))
            warn(f"{subject(live)}: {text_of(error)}")
            continue
        print(f"{subject(live)}: {'paused' if is_pause else 'resumed'}")
    if failed:
        warn(f"not {'paused' if is_pause else 'resumed'}: {', '.join(failed)}; run the command again")
        return FAULT
    if options.resource and is_pause and any(each["kind"] in PLANES for each in resources):
        print("its services are not paused: name each one, or use --all for the namespace")
    return 0


def _reason(live: Object, options: Options) -> str:
    """Return the reason that a pause is to have."""
    return (pause_of(live) or "") if options.reason is None else options.reason
