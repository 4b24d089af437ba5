"""Seconds of each step, as a table for the reader and as JSON for machines."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


class Stopwatch:
    """Named durations in seconds, in the order they were taken."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.steps: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Measure what runs inside, and print that before and after."""
        self.console.print(f"[bold]==>[/bold] {name}")
        started = time.monotonic()
        try:
            yield
        finally:
            self.steps[name] = round(time.monotonic() - started, 1)
            self.console.print(f"    {self.steps[name]:.1f} s", style="dim")

    def table(self) -> Table:
        """Return a table of every step and the sum."""
        table = Table("step", "seconds", title="How long it took")
        table.columns[1].justify = "right"
        for name, seconds in self.steps.items():
            table.add_row(name, f"{seconds:.1f}")
        table.add_row("[bold]all[/bold]", f"[bold]{sum(self.steps.values()):.1f}[/bold]")
        return table

    def write(self, path: Path, **facts: Any) -> None:
        """Write `steps` (seconds by name) and the other values as JSON, merged into what the file holds."""
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**stored, "steps": self.steps, **facts}, indent=2) + "\n")
