"""The injector as a process, and what it shares with the process that certifies it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog

from .. import __version__
from ..runtime import metrics
from ..runtime.kubernetes.client import Client
from ..runtime.logs import configure
from ..runtime.process import any_of, until_stopped
from ..runtime.serve.health import Health
from .injector import Injector
from .webhook import Webhook

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

Program = Callable[[Client], Coroutine[Any, Any, None]]

# All addresses of each family that the kernel has: the API server and the kubelet ask from outside the pod.
_ANY = ""


async def inject(client: Client, *, certificate: Path, port: int, health_port: int) -> None:
    """Label pods until canceled. `certificate` is a folder with tls.crt and tls.key; health port 0 serves no health.
    Raises OSError where a port is taken.
    """
    injector = Injector(client)
    webhook = Webhook(injector.bind, certificate)
    # Counters of this process alone, and nothing about pods or nodes: they need no protection.
    health = Health(lambda: injector.synced and webhook.serving, metrics.exposition())
    served = [health.serve((_ANY, health_port))] if health_port else []
    await any_of(injector.run(), webhook.serve((_ANY, port)), *served)


def serve(program: Program, *, json_logs: bool = True, debug: bool = False) -> int:
    """Run a program until SIGTERM or SIGINT, and return the exit status."""
    configure(json=json_logs, debug=debug)
    _log.info("starting", version=__version__)
    asyncio.run(_connected(program))
    return 0


async def _connected(program: Program) -> None:
    client = Client.connect()
    try:
        await until_stopped(program(client))
    finally:
        await client.close()
