"""Neutron's options: the server's, and the few that a metadata agent on a compute node may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import oslo, parts
from ...api import Sections
from ...parts.connect.ovn import OVN_CLIENT, ovn_contract, ovn_options
from ...parts.secrets.tls import trust_of
from ...plan import Context, MissingReference, ResolvedRef, SpecError
from .model import NeutronSpec

DEFAULTS: Sections = {
    "DEFAULT": {
        # Where Neutron serves HTTP itself, as in Kolla's image, it would fork one process a core.
        "api_workers": 1,
        "rpc_workers": 1,
        "rpc_state_report_workers": 0,
        # OVN answers DHCP itself. Where agents may, Neutron warns at each network and subnet that it found none.
        "enable_traditional_dhcp": False,
    },
    # The userspace datapath cannot tell a sender that its packet is too big.
    "ovn": {"ovn_emit_need_to_frag": False},
    "securitygroup": {"enable_security_group": True},
}
SERVICE_PLUGINS = ("ovn-router", "qos", "trunk", "segments", "log", "port_forwarding")
_READS = "(role:reader and project_id:%(project_id)s)"
_OF_ADMINS = (
    "get_port:resource_request",
    "get_network:segments",
    "get_network:provider:network_type",
    "get_network:provider:physical_network",
    "get_network:provider:segmentation_id",
)
POLICIES = {
    **dict.fromkeys(_OF_ADMINS, "rule:admin_only or rule:service_api"),
    "update_port:device_id": "rule:admin_or_owner or rule:service_api",
    "get_floatingip": f"rule:admin_only or {_READS} or rule:service_api",
    "get_subnet": (
        f"rule:admin_only or {_READS} or (role:reader and rule:network_owner)"
        " or rule:shared or rule:external_network or rule:service_api"
    ),
}
"""Rules for requests of nova-compute, as a user with the role `service`, that Neutron's defaults refuse.
Its other rules for ports and networks admit it. `update_port:device_id` has no rule in 2025.1; the others are the
defaults of neutron.conf.policies with that role.
"""


def service_plugins(spec: NeutronSpec) -> list[str]:
    """Return the service plug-ins that the spec asks for."""
    if configured := spec.config.get("DEFAULT", {}).get("service_plugins"):
        words = configured if isinstance(configured, list) else str(configured).split(",")
        return [str(word).strip() for word in words]
    # Neutron does not start with port forwarding, where a node forwards the ports of its servers itself and projects
    # have networks of the data center (neutron.common.ovn.utils.validate_port_forwarding_configuration).
    refused = spec.ovn.distributed_floating_ips and {"vlan", "flat"} & set(spec.ml2.tenant_network_types)
    return [plugin for plugin in SERVICE_PLUGINS if plugin != "port_forwarding" or not refused]


def _extension_drivers(spec: NeutronSpec) -> list[str]:
    """Return the extensions of ML2, with the one that gives networks and ports their QoS if there is any."""
    drivers = list(spec.ml2.extension_drivers)
    return [*drivers, *(["qos"] if "qos" in service_plugins(spec) and "qos" not in drivers else [])]


def network(ctx: Context[NeutronSpec]) -> ResolvedRef:
    """Return the contract of the OVN in use, or one made of the addresses in the spec. Raises MissingReference."""
    ovn = ctx.spec.ovn
    if ovn.network:
        return ovn_contract(ctx, ovn.network)
    if not (ovn.nb_connection and ovn.sb_connection):
        # The API server refuses it; only a spec that is rendered offline comes here.
        raise SpecError("spec.ovn", "Neutron needs both databases of OVN; set nbConnection and sbConnection")
    published = {"northbound": ovn.nb_connection, "southbound": ovn.sb_connection}
    if secret := ovn.tls_secret_ref:
        stored = ctx.secrets.get(secret.name, {})
        if missing := [key for key in ("tls.crt", "tls.key", "ca.crt") if key not in stored]:
            raise MissingReference("spec.ovn.tlsSecretRef", f"Secret {secret.name!r} has no key {missing[0]!r}")
        published[OVN_CLIENT] = secret.name
    return ResolvedRef(published)


def neutron_conf(ctx: Context[NeutronSpec], base: parts.Foundation) -> Sections:
    """Return the options that the operator sets for the API and the workers."""
    # Neutron's own user notifies Nova about ports; Nova's endpoint comes from the catalog.
    peer = {**base.auth, "endpoint_type": "internal"}
    return oslo.merge(
        base.sections,
        {
            "DEFAULT": {
                "core_plugin": "ml2",
                "auth_strategy": "keystone",
                "dns_domain": ctx.spec.dns_domain,
                "notify_nova_on_port_status_changes": True,
                "notify_nova_on_port_data_changes": True,
            },
            "nova": peer,
            "placement": peer,
        },
        _ml2(ctx),
        _external_dns(ctx, base),
    )


def _external_dns(ctx: Context[NeutronSpec], base: parts.Foundation) -> Sections:
    """Return options of names in Designate; none until it publishes its URL. Neutron writes a user's records with the
    user's token, and PTR records as its own user.
    """
    dns = ctx.spec.external_dns
    designate = ctx.refs.get(dns.designate_ref) if dns.enabled and dns.designate_ref else None
    if designate is None or not (url := designate.published.get("internalURL")):
        return {}
    options = {
        **base.auth,
        "url": f"{url}/v2",
        # A request to Neutron waits for that to Designate.
        "timeout": 10,
        "allow_reverse_dns_lookup": dns.reverse_zones,
        # The largest zones of which an operator has a whole one, in most clouds.
        "ipv4_ptr_zone_prefix_size": 24,
        "ipv6_ptr_zone_prefix_size": 116,
    }
    return {"DEFAULT": {"external_dns_driver": "designate"}, "designate": options}


def _ml2(ctx: Context[NeutronSpec]) -> Sections:
    ml2, at = ctx.spec.ml2, network(ctx)
    return {
        "ml2": {
            "mechanism_drivers": ",".join(ml2.mechanism_drivers),
            "type_drivers": ",".join(ml2.type_drivers),
            "tenant_network_types": ",".join(ml2.tenant_network_types),
            "extension_drivers": ",".join(_extension_drivers(ctx.spec)),
            "overlay_ip_version": 4,
        },
        "ml2_type_flat": {"flat_networks": ",".join(ml2.flat_networks)},
        "ml2_type_vlan": {"network_vlan_ranges": ",".join(ml2.network_vlan_ranges)},
        "ml2_type_geneve": {"vni_ranges": ml2.vni_ranges, "max_header_size": ml2.max_header_size},
        "ovn": {
            "ovn_nb_connection": at["northbound"],
            "ovn_sb_connection": at["southbound"],
            **ovn_options(at, "nb", "sb"),
            "ovn_metadata_enabled": True,
            "enable_distributed_floating_ip": ctx.spec.ovn.distributed_floating_ips,
        },
    }


def metadata_api(ctx: Context[NeutronSpec]) -> Mapping[str, Any]:
    """Return options by which the metadata agent calls Nova's metadata API."""
    return {
        "nova_metadata_host": ctx.spec.metadata_host or ctx.host(f"{ctx.spec.metadata_agent.nova_ref.name}-metadata"),
        "nova_metadata_port": 8775,
        **_metadata_tls(ctx),
    }


def agent_conf(ctx: Context[NeutronSpec], secret: str, api: Mapping[str, Any]) -> Sections:
    """Return options of the metadata agent: no database, no broker, no password except the `secret` that it shares with
    the metadata `api`, which is known by its options.
    """
    at = network(ctx)
    return {
        "DEFAULT": {
            **api,
            "metadata_proxy_shared_secret": oslo.Verbatim(secret),
            "metadata_workers": 0,
        },
        "agent": {"root_helper": "sudo neutron-rootwrap /etc/neutron/rootwrap.conf"},
        "ovs": {"ovsdb_connection": "unix:/run/openvswitch/db.sock"},
        # As the node's controller does; an OVNNetwork of an earlier version does not publish it separately.
        "ovn": {
            "ovn_sb_connection": at.published.get("southboundForNodes", at["southbound"]),
            **ovn_options(at, "sb"),
        },
    }


def _metadata_tls(ctx: Context[NeutronSpec]) -> Mapping[str, str]:
    """Return options that verify the metadata API, once it presents a certificate."""
    nova = ctx.refs.get(ctx.spec.metadata_agent.nova_ref)
    if ctx.spec.metadata_host or nova is None or nova.published.get("metadataProtocol") != "https":
        return {}
    return {"nova_metadata_protocol": "https", "auth_ca_cert": trust_of(nova.published)}
