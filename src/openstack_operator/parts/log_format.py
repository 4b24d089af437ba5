"""The format in which programs write their logs."""

from __future__ import annotations

from typing import Any

from ..api import Logging
from ..plan import Context


def logs_json(ctx: Context[Any]) -> bool:
    """Return True if programs are to log objects of JSON."""
    logging: Logging | None = getattr(ctx.spec, "logging", None)
    return logging is not None and logging.format == "json"
