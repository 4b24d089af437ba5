"""A command that talks to a cluster: its connection, its faults, and its exit status."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from ...kubeconfig import KubeconfigError, connection
from ...plan import SpecError, Transient
from ...runtime.kubernetes.client import Client
from .state import printed

CLOUD = "openstack"
"""Namespace of a cloud, if nothing says another one."""
MANAGER = "openstack-operator-cli"
"""Name under which a command writes fields."""
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
    except BrokenPipeError:
        # Whoever read it has gone.
        raise
    except (SpecError, Transient, LookupError, OSError) as error:
        warn(text_of(error))
        return FAULT
    except KeyboardInterrupt:
        return FAULT


def namespace_of(context: str | None) -> str:
    """Return the namespace to look at if none is named: that of the context, or `openstack`."""
    try:
        return cloud_namespace(connection(context).namespace)
    except KubeconfigError:
        # Whoever connects says it.
        return CLOUD


def cloud_namespace(context_namespace: str) -> str:
    """Return the namespace of a context; `openstack` if it names none, or `default`."""
    return CLOUD if context_namespace in {"", "default"} else context_namespace


def text_of(error: Exception) -> str:
    """Return what an error says to the user of a command, whose permissions are not those of the operator."""
    text = error if isinstance(error, OSError) or not error.args else error.args[0]
    return str(text).removeprefix("the operator lacks a permission: ")


def warn(text: str) -> None:
    """Print a line on stderr."""
    print(f"openstack-operator: {printed(text)}", file=sys.stderr)
