"""Faults, by the part of the cloud they happen to; importing this registers all of them."""

from ..scenario import SCENARIOS
from . import changes, controllers, databases, networks, nodes, objects, pod_ends

__all__ = ["SCENARIOS", "changes", "controllers", "databases", "networks", "nodes", "objects", "pod_ends"]
