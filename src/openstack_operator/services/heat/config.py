"""Heat's options: those that all of its programs read, and those of the engine, which has the secrets of stacks."""

from __future__ import annotations

from collections.abc import Mapping

from ... import oslo, parts
from ...api import KEYSTONE, Sections
from ...parts.run.workloads import Api
from ...plan import Context
from .model import HeatSpec

API_PORT, CFN_PORT = 8004, 8000
CFN = "api-cfn"
"""Component of the CloudFormation API."""

GRACE = 300
"""Seconds in which an engine that ends completes what it has begun: no other engine continues a resource that is being
created."""
_MARGIN = 10

# One process serves many stacks at once, in greenthreads; more pods serve more.
DEFAULTS: Sections = {"DEFAULT": {"num_engine_workers": 1}}

# Heat's own, which the option replaces.
_PLUGINS = ("/usr/lib64/heat", "/usr/lib/heat", "/usr/local/lib/heat", "/usr/local/lib64/heat")


def shared_options(ctx: Context[HeatSpec], base: parts.Foundation) -> Sections:
    """Return the options of all programs."""
    ref = ctx.spec.keystone.keystone_ref or KEYSTONE
    keystone = ctx.refs[ref]["internalURL"]
    ca_file = {"ca_file": trust} if (trust := base.auth.get("cafile")) else {}
    return oslo.merge(
        base.sections,
        {
            "DEFAULT": {"region_name_for_services": ctx.spec.region},
            "clients": {"endpoint_type": "internalURL", **ca_file},
            "clients_keystone": {"auth_uri": keystone},
            # Keystone checks the signatures of servers for services alone (OSSA-2025-002), hence the login.
            # Later versions add a path with the version of the API to the endpoint, which the catalog has as well.
            "ec2authtoken": {
                "auth_uri": keystone,
                "endpoint_override": keystone.removesuffix("/v3"),
                **ca_file,
                **base.auth,
            },
        },
    )


def engine_options(
    ctx: Context[HeatSpec], cfn: Api, trustee: Mapping[str, str], stack_domain: Mapping[str, str], key: str
) -> Sections:
    """Return the further options of the engine. `trustee` is the login of the user to whom the owners of stacks give
    trusts, `stack_domain` are the options of the domain for users of stacks, and `key` encrypts what is stored.
    """
    plugins = {"plugin_dirs": ",".join((*_PLUGINS, *ctx.spec.plugins))} if ctx.spec.plugins else {}
    return {
        "DEFAULT": {
            **stack_domain,
            **plugins,
            "auth_encryption_key": key,
            "convergence_engine": True,
            "deferred_auth_method": "trusts",
            "graceful_shutdown_timeout": GRACE - _MARGIN,
            # Servers call them, from the networks of tenants.
            "heat_metadata_server_url": cfn.public,
            "heat_waitcondition_server_url": f"{cfn.public}/v1/waitcondition",
            "server_keystone_endpoint_type": "public",
        },
        "clients_heat": {"endpoint_type": "publicURL"},
        "trustee": {name: trustee[name] for name in _OF_TRUSTEE},
    }


# Without a project: a token for a trust is for the project of the trust.
_OF_TRUSTEE = ("auth_type", "auth_url", "username", "password", "user_domain_name")
