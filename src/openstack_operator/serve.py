"""The operator as a process: connected, watched over, stopped in good order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from . import __version__
from .catalogue import ACTUATORS, SERVICES
from .release_files import ReleaseFiles, packaged
from .runtime.client import Client
from .runtime.leader import Leader
from .runtime.logs import configure
from .runtime.manager import Manager

_log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the command line decides."""

    namespaces: tuple[str, ...] = ()
    """Served; empty serves all."""
    lease_namespace: str | None = None
    """Where the lease lies; None acts without one."""
    health_port: int = 8080
    """0 serves no health."""
    releases: Path | None = None
    """Folder of release files that win over the packaged ones."""
    json_logs: bool = True
    debug: bool = False


def serve(settings: Settings) -> int:
    """Runs the operator until SIGTERM or SIGINT; returns the exit status."""
    configure(json=settings.json_logs, debug=settings.debug)
    _log.info("starting", version=__version__, namespaces=settings.namespaces or "all")
    asyncio.run(_serve(settings))
    _log.info("stopped")
    return 0


async def _serve(settings: Settings) -> None:
    client = Client.connect()
    leader = (
        Leader(client, settings.lease_namespace, f"{socket.gethostname()}-{os.getpid()}")
        if settings.lease_namespace
        else None
    )
    folders = [folder for folder in (settings.releases, packaged()) if folder]
    manager = Manager(client, SERVICES, ACTUATORS, ReleaseFiles(*folders), settings.namespaces, leader=leader)
    work = asyncio.create_task(manager.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await work
    finally:
        await client.close()
