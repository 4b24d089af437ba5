"""Kinds of c5c3's groups: an API has the name of its resource, and the certificate of the namespace's PKI."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any

from ...api import CLOUD_PKI, CertificateSource, PKIRef, UsesTLS
from ...plan import Context, Plan, Planner


def with_short_name(plan: Planner) -> Planner:
    """Return the planner of a service whose API has a second Service, with the name of its resource: manifests that
    were written for c5c3 say `https://keystone.openstack.svc:5000`. The status has that address, and the catalog the
    one that it had before.
    """

    @wraps(plan)
    def planner(ctx: Context[Any]) -> Plan:
        planned = plan(with_cloud_pki(replace(ctx, api_service=ctx.owner)))
        endpoint = planned.outcome.endpoint
        if endpoint:
            service, name = (f"//{ctx.host(each)}:" for each in (ctx.name("api"), ctx.owner))
            planned = copy(planned)
            planned.outcome = replace(planned.outcome, endpoint=endpoint.replace(service, name))
        return planned

    return planner


def with_cloud_pki(ctx: Context[Any]) -> Context[Any]:
    """Return the context of a spec whose certificate is by the PKI of the cloud, if it does not say otherwise, and
    there is one.
    """
    spec, contract = ctx.spec, ctx.refs.get(CLOUD_PKI)
    if not isinstance(spec, UsesTLS) or spec.tls is not None or contract is None or not contract.published:
        return ctx
    ref = PKIRef(name=CLOUD_PKI.name)
    certified_spec = spec.model_copy(update={"tls": CertificateSource(pki_ref=ref)})
    contracts = [*ctx.refs.items(), (ref, contract)]
    return replace(ctx, spec=certified_spec, refs=dict(contracts))
