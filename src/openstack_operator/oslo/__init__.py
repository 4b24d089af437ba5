"""Configuration as data: sections, merge, ini, the common option groups."""

from __future__ import annotations

from . import options
from .known import KnownOptions, unknown_options
from .sections import merge, overlap, policy, render

__all__ = ["KnownOptions", "merge", "options", "overlap", "policy", "render", "unknown_options"]
