"""A live view of a control plane while it converges."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ..localcluster.kubernetes import KubeError, Kubernetes, ours
from . import deploy

_LOOK = 1.0
"""Seconds between two looks at a cloud that becomes Ready, each a start of kubectl; what is shown counts seconds."""
_MARKS = {"True": "[green]✔[/green]", "False": "[yellow]…[/yellow]", "Unknown": "[red]?[/red]"}


def conditions(plane: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the conditions of an object by type."""
    return {c["type"]: c for c in plane.get("status", {}).get("conditions", [])}


def ready(plane: dict[str, Any], version: str = "") -> bool:
    """Return True if Ready is True for the present spec, and no change is under way; with a version, by an operator of
    that version.
    """
    by_type, status = conditions(plane), plane.get("status", {})
    condition = by_type.get("Ready", {})
    current = condition.get("observedGeneration") == plane["metadata"].get("generation")
    # Absent where an operator of an earlier version wrote the status.
    is_done = by_type.get("Progressing", {}).get("reason", "Complete") == "Complete"
    return condition.get("status") == "True" and current and is_done and version in {"", status.get("operatorVersion")}


def wait(
    cluster: Kubernetes,
    namespace: str,
    name: str,
    console: Console,
    timeout: float,
    in_vain: Callable[[], str] = str,
) -> float:
    """Return the seconds until the installed operator reports the control plane Ready, which it does once it has looked
    at all parts of the cloud; show them meanwhile. Raises KubeError with what it waits for, as soon as `in_vain` says
    why it will not come.
    """
    started, last_line, plane = time.monotonic(), "", dict[str, Any]()
    version = deploy.version(cluster)
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while (elapsed := time.monotonic() - started) < timeout:
            plane = cluster.get(ours("openstackcontrolplane"), name, "-n", namespace)
            if ready(plane, version):
                return elapsed
            if reason := in_vain():
                raise KubeError(f"{namespace}/{name} will not be Ready, given up after {elapsed:.0f} s: {reason}")
            live.update(_table(plane, elapsed))
            line = _line(plane)
            if not console.is_terminal and line != last_line:
                console.print(f"    {elapsed:5.1f} s  {line}")
                last_line = line
            time.sleep(_LOOK)
    message = conditions(plane).get("Ready", {}).get("message", "nothing reported; does the operator run?")
    if ready(plane):
        message = f"its Ready was written by operator {plane['status'].get('operatorVersion')}, not by {version}"
    raise KubeError(f"{namespace}/{name} was not Ready after {timeout:.0f} s: {message}")


def _line(plane: dict[str, Any]) -> str:
    parts = [
        t.removesuffix("Ready") for t, c in conditions(plane).items() if c["status"] == "True" and t.endswith("Ready")
    ]
    return f"{plane.get('status', {}).get('phase', 'new')}: ready {', '.join(sorted(parts)) or 'nothing yet'}"


def _table(plane: dict[str, Any], elapsed: float) -> Table:
    phase = plane.get("status", {}).get("phase", "new")
    table = Table(
        "", "what", "message", title=f"{plane['metadata']['name']}: {phase}, {elapsed:.0f} s", title_justify="left"
    )
    for type_, condition in conditions(plane).items():
        table.add_row(_MARKS.get(condition["status"], "?"), type_, condition.get("message", "")[:100])
    return table
