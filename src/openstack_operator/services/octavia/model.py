"""Spec of an Octavia."""

from typing import Annotated

from pydantic import Field

from ...api import (
    Column,
    HttpApi,
    Model,
    OVNNetworkRef,
    Purge,
    Resource,
    Scale,
    Schedule,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesLogging,
    UsesPolicies,
)
from .amphora_model import Amphora

Limit = Annotated[int, Field(ge=-1, le=2**31 - 1)]


class Quotas(Model):
    """Limits of a project without quotas of its own; -1 means no limit, as does an unset field."""

    load_balancers: Limit | None = None
    """Maximum number of load balancers."""
    listeners: Limit | None = None
    """Maximum number of listeners."""
    pools: Limit | None = None
    """Maximum number of pools."""
    members: Limit | None = None
    """Maximum number of members of pools."""
    health_monitors: Limit | None = None
    """Maximum number of health monitors."""


class LoadBalancerPurge(Purge):
    """Removal of the database rows of deleted load balancers."""

    schedule: Schedule = "30 3 * * *"
    """Time of the removal, as a cron expression in UTC."""


class OctaviaSpec(ServiceSpec, UsesPolicies, UsesLogging, UsesDatabase, UsesCache, UsesIdentity):
    """OpenStack Octavia: load balancers for TCP, UDP and SCTP. OVN carries them out on the nodes, so no servers run for
    them. For HTTP and TLS, there is the provider amphora, with a server for each load balancer. Members of a project
    may create and change its load balancers, readers may look at them.
    """

    api: HttpApi = HttpApi()
    """Pods of the Load Balancer API. Each of them has a driver agent, too. One agent processes OVN's events, and
    another takes over if it fails."""
    ovn_network_ref: OVNNetworkRef = OVNNetworkRef(name="ovn")
    """OVNNetwork that implements the load balancers, the one of this cloud's Neutron."""
    amphora: Amphora | None = None
    """Settings of the provider amphora, for load balancers whose users choose it. If unset, OVN is the only
    provider."""
    quotas: Quotas = Quotas()
    """Limits of a project without quotas of its own. -1 is no limit, and so is unset."""
    purge: LoadBalancerPurge = LoadBalancerPurge()
    """Removal of deleted load balancers from the database. With the provider amphora, its controllers remove them, and
    deleted amphorae, at the age `keep`, too; `enabled: false` keeps all of them."""


OCTAVIA = Resource(
    kind="Octavia",
    plural="octavias",
    spec=OctaviaSpec,
    nodes=True,
    scale=Scale("api"),
    columns=(Column("Endpoint", ".status.endpoint"),),
)
