"""A kubeconfig as kubectl reads it: which server, and as whom."""

from __future__ import annotations

from .contexts import Connection, connection
from .credentials import Credentials, Login
from .errors import KubeconfigError

__all__ = ["Connection", "Credentials", "KubeconfigError", "Login", "connection"]
