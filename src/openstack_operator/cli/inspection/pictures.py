"""`graph` and `timeline`: what they print, and their exit status."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...plan import Object
from ...runtime.kubernetes.client import Client
from . import graph, timeline
from .commands import report_unreadable
from .selection import chosen
from .session import FAULT, run
from .snapshot import Snapshot, read

_DONE = 0
_FORMATS: Mapping[str, Callable[[Sequence[Object]], str]] = {
    "text": graph.as_text,
    "mermaid": graph.as_mermaid,
    "svg": graph.as_svg,
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    namespace: str = "openstack"
    context: str | None = None
    format: str = "text"


def draw_graph(options: Options) -> int:
    """Print which resources of a namespace need which."""

    async def draw(client: Client) -> int:
        snapshot = await read(client, options.namespace, with_workloads=False, with_pods=False)
        report_unreadable(snapshot)
        print(_FORMATS[options.format](chosen(snapshot, None, whole=True)), flush=True)
        return _exit(snapshot)

    return run(options.context, draw)


def draw_timeline(options: Options) -> int:
    """Print when each part of a cloud was done since the cloud was changed last, and what it waited for."""

    async def draw(client: Client) -> int:
        snapshot = await read(client, options.namespace, with_pods=False)
        report_unreadable(snapshot)
        chosen(snapshot, None, whole=False)
        last = timeline.timeline(snapshot)
        if last is None:
            raise LookupError("no part is done since the last change of the cloud")
        match options.format:
            case "svg":
                print(timeline.as_svg(last), flush=True)
            case "json":
                print(json.dumps(timeline.as_json(last), indent=2), flush=True)
            case _:
                print(timeline.as_text(last), flush=True)
        return _exit(snapshot)

    return run(options.context, draw)


def _exit(snapshot: Snapshot) -> int:
    """Return the exit status: a picture without what may not be read is another one."""
    return FAULT if snapshot.unreadable else _DONE
