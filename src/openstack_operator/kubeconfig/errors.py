"""The error of a kubeconfig that cannot be used."""

from __future__ import annotations

from ..plan import Transient


class KubeconfigError(Transient):
    """A kubeconfig that names no server or no user, or a login that does not succeed; says which field to change."""
