"""Spec of a Placement."""

from ...api import (
    Column,
    HttpApi,
    Resource,
    Scale,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesLogging,
    UsesPolicies,
)


class PlacementSpec(ServiceSpec, UsesPolicies, UsesLogging, UsesDatabase, UsesCache, UsesIdentity):
    """OpenStack Placement: inventories of resources, and who has claimed them."""

    api: HttpApi = HttpApi()
    """Pods of the Placement API."""


PLACEMENT = Resource(
    kind="Placement",
    plural="placements",
    spec=PlacementSpec,
    scale=Scale("api"),
    columns=(Column("Endpoint", ".status.endpoint"),),
)
