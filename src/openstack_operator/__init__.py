"""Installs, runs and heals OpenStack clouds on Kubernetes from custom resources."""

from __future__ import annotations

__version__ = "0.1.0"
