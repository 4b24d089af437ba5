"""Configuration as data: sections, merge, ini, the common option groups, and what programs know."""

from __future__ import annotations

from . import options, policies
from .known import Finding, NearestNames, examine
from .sections import KnownOptions, Verbatim, merge, overlap, policy, render, value_text
from .values import has_gap

__all__ = [
    "Finding",
    "KnownOptions",
    "NearestNames",
    "Verbatim",
    "examine",
    "has_gap",
    "merge",
    "options",
    "overlap",
    "policies",
    "policy",
    "render",
    "value_text",
]
