"""A command that talks to a cluster: its connection, its faults, and its exit status."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from lightkube.core.exceptions import ConfigError

from ..plan import SpecError, Transient
from ..runtime.client import Client
from .state import printed

FAULT = 2
"""Exit status: the question could not be answered."""


def run(context: str | None, command: Callable[[Client], Awaitable[int]]) -> int:
    """Run a command with a connection to the cluster that a context names, and return its exit status."""

    async def connected() -> int:
        client = Client.connect(context)
        try:
            return await command(client)
        finally:
            await client.close()

    try:
        return asyncio.run(connected())
    except (ConfigError, SpecError, Transient, LookupError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # A pager was left; Python must not complain about it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAULT
        warn(text_of(error))
        return FAULT
    except KeyboardInterrupt:
        return FAULT


def text_of(error: Exception) -> str:
    """Return what an error says to the user of a command, whose permissions are not those of the operator."""
    text = error if isinstance(error, OSError) or not error.args else error.args[0]
    return str(text).removeprefix("the operator lacks a permission: ")


def warn(text: str) -> None:
    """Print a line on stderr."""
    print(f"openstack-operator: {printed(text)}", file=sys.stderr)
