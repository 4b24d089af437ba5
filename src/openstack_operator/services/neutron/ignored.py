"""Fields of a Neutron that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from .model import NeutronSpec


def ignored(ctx: Context[NeutronSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    spec = ctx.spec
    dns = {} if spec.external_dns.designate_ref else {"externalDns": "it writes no names; set externalDns.designateRef"}
    return dns | ({"ovn.clusterRef": "ovn.nbConnection takes its place; remove it"} if spec.ovn.nb_connection else {})
