"""Fields of a Neutron that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from .model import NeutronSpec


def ignored(ctx: Context[NeutronSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    spec = ctx.spec
    dns = (
        {}
        if spec.external_dns.designate_ref
        else {"externalDns": "it has no effect without DNS; set externalDns.designateRef, or remove it"}
    )
    return dns | ({"ovn.clusterRef": "ovn.nbConnection replaces it; remove it"} if spec.ovn.nb_connection else {})
