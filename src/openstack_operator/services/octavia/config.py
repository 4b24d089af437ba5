"""Octavia's options, which its API and its driver agent share."""

from __future__ import annotations

from ... import oslo, parts
from ...api import Sections
from ...parts.connect.ovn import ovn_defaults, ovn_options
from ...plan import Context, ResolvedRef
from .amphora import Provider, api_options
from .model import OctaviaSpec

PORT = 9876
SOCKETS = "/var/run/octavia"
"""Folder of the sockets between the API and its driver agent; the provider knows no other. /var/run is /run."""

# The numbers of processes are maxima; each one is forked for a request, and takes memory.
_MAX_PROCESSES = {f"{name}_max_processes": 8 for name in ("status", "stats", "get")}


def network(ctx: Context[OctaviaSpec]) -> ResolvedRef:
    """Return the contract of the OVN in use."""
    return ctx.refs[ctx.spec.ovn_network_ref]


def defaults(ctx: Context[OctaviaSpec]) -> Sections:
    """Return options that users may change."""
    return oslo.merge(
        ovn_defaults(network(ctx)),
        {
            # The roles that every Keystone has: a member writes, a reader reads. Without it, Octavia's own roles
            # (load-balancer_member) would be wanted, too.
            "oslo_policy": {"enforce_new_defaults": True, "enforce_scope": True},
            "driver_agent": {**_MAX_PROCESSES, "provider_agent_shutdown_timeout": 10},
        },
    )


def octavia_conf(ctx: Context[OctaviaSpec], base: parts.Foundation, amphora: Provider | None) -> Sections:
    """Return the options that the operator sets, with those of the provider amphora, if there is one."""
    ovn = network(ctx)
    login = {**base.auth, "valid_interfaces": "internal"}
    quotas = ctx.spec.quotas.model_dump(exclude_none=True)
    return oslo.merge(
        base.sections,
        {
            # Nothing sends messages: the OVN provider runs inside the API. This one reaches nobody.
            "DEFAULT": {"transport_url": "fake:/"},
            "oslo_messaging_notifications": {"driver": "noop"},
            "api_settings": {
                "auth_strategy": "keystone",
                "enabled_provider_drivers": "ovn:Open Virtual Network"
                + (",amphora:Octavia amphora" if amphora else ""),
                "default_provider_driver": "ovn",
                # Probes ask for it. Debian's Octavia answers without it, and no other does.
                "healthcheck_enabled": True,
            },
            # It would be a client of Nova and Glance, which only servers as load balancers need.
            "controller_worker": {"compute_driver": "compute_noop_driver"},
            "driver_agent": {
                "enabled_provider_agents": "ovn",
                **{f"{name}_socket_path": f"{SOCKETS}/{name}.sock" for name in ("status", "stats", "get")},
            },
            "house_keeping": {"load_balancer_expiry_age": ctx.spec.purge.days * 24 * 60 * 60},
            "service_auth": login,
            "neutron": login,
            "ovn": {
                "ovn_nb_connection": ovn["northbound"],
                "ovn_sb_connection": ovn["southbound"],
                **ovn_options(ovn, "nb", "sb"),
            },
            **(
                {"quotas": {f"default_{_singular(name)}_quota": limit for name, limit in quotas.items()}}
                if quotas
                else {}
            ),
        },
        api_options(ctx, amphora) if amphora else {},
    )


def _singular(name: str) -> str:
    return name.removesuffix("s")
