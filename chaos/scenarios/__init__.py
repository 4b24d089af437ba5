"""What goes wrong, by the part of the cloud it happens to; importing this registers all of it."""

from ..scenario import SCENARIOS
from . import changes, controllers, databases, networks, nodes, objects, pods

__all__ = ["SCENARIOS", "changes", "controllers", "databases", "networks", "nodes", "objects", "pods"]
