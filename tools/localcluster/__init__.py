"""A whole Kubernetes on one Linux machine, built from source where nothing can be downloaded ready-made."""

from __future__ import annotations

from .target import Target, target

__all__ = ["Target", "target"]
