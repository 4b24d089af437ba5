"""Removes load balancers from Octavia's database that were deleted long ago: the part of octavia-housekeeping that a
cloud without amphorae needs.
"""

from octavia.common import service  # pyright: ignore[reportMissingImports]
from octavia.controller.housekeeping import house_keeping  # pyright: ignore[reportMissingImports]

service.prepare_service()
house_keeping.DatabaseCleanup().cleanup_load_balancers()
