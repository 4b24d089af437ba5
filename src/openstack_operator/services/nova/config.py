"""Nova's options: those of the control plane's processes, a cell's own, and the few that a compute node may know."""

from __future__ import annotations

from collections.abc import Mapping

from ... import oslo, parts
from ...api import Sections
from ...parts.connect import caches, sources
from ...parts.connect.caches import keystone_authtoken
from ...parts.connect.key_manager import key_manager
from ...parts.run.config import layered
from ...parts.run.config_check import known_options
from ...parts.secrets.one_line import one_line
from ...plan import Context, MissingReference
from . import volumes
from .model import NovaSpec

SERVICE_TYPE = "compute"

# Programs of the new release call nova-compute as the oldest one understands it, while nodes get the new release.
_SKEW: Sections = {"upgrade_levels": {"compute": "auto"}}

# A node with room for both may keep its server; a cloud of one node could not resize at all. Nova's API and its
# nova-compute have to agree. A cold migration goes to another node all the same.
_RESIZE: Sections = {"DEFAULT": {"allow_resize_to_same_host": True}}

DEFAULTS: Sections = {
    **_SKEW,
    **_RESIZE,
    "conductor": {"workers": 1},
    # A job discovers new nodes; this discovers those that were added while no operator ran.
    "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 30},
}

COMPUTE_DEFAULTS: Sections = {
    **_SKEW,
    "DEFAULT": {
        **_RESIZE["DEFAULT"],
        "reserved_host_memory_mb": 512,
        "resume_guests_state_on_host_boot": True,
        # Neutron reports every change of a port.
        "heal_instance_info_cache_interval": -1,
    },
    # Only emulated guests have this cache of translated code; the default is a fifth of their memory footprint.
    "libvirt": {"tb_cache_size": 32},
}


_OF_NODES = (
    "os_compute_api:os-migrations:index",
    "os_compute_api:os-services:list",
    "os_compute_api:os-hypervisors:list-detail",
    "os_compute_api:servers:detail:get_all_tenants",
    "os_compute_api:servers:allow_all_filters",
)
POLICIES: Mapping[str, str] = dict.fromkeys(_OF_NODES, "rule:context_is_admin or role:service")
"""Rules of Nova's API by which the user of compute nodes asks what is under way on a node before nova-compute
ends there, and which hypervisor a node with a new disk was.
"""


def database(connection: str) -> Sections:
    """Return the options of the schema of a process's own cell."""
    return {"database": oslo.options.database(connection)}


def api_database(connection: str) -> Sections:
    """Return the options of the schema that knows all cells."""
    return {"api_database": oslo.options.database(connection)}


def clients(ctx: Context[NovaSpec], user: sources.Identity) -> Sections:
    """Return the options by which a Nova process calls other services: as that user, at their internal endpoints."""
    internal = {"region_name": ctx.spec.region, "valid_interfaces": user.interface, **user.trust}
    client = {**user.options, **internal}
    return {
        "service_user": {**user.options, "send_service_user_token": True},
        "placement": client,
        "neutron": client,
        "glance": internal,
        "keystone": internal,
        **volumes.client(ctx, user),
        **key_manager(ctx, user.options),
        # A cell cannot reach the schema above it, which this check would need.
        "workarounds": {"disable_group_policy_check_upcall": True},
    }


def control(ctx: Context[NovaSpec], user: sources.Identity, credentials: parts.Credentials) -> Sections:
    """Return the options that only APIs and the scheduler need."""
    return {
        **keystone_authtoken(ctx, user.options, credentials, SERVICE_TYPE),
        **caches.cache(ctx),
        "neutron": {"service_metadata_proxy": True, "metadata_proxy_shared_secret": oslo.Verbatim(shared_secret(ctx))},
    }


def shared_secret(ctx: Context[NovaSpec]) -> str:
    """Return the secret with which Neutron's metadata agents sign their requests."""
    secret = ctx.refs[ctx.spec.neutron_ref]["metadataSecret"]
    try:
        metadata = ctx.secrets[secret]["metadata"]
    except KeyError:
        raise MissingReference("spec.neutronRef", f"Secret {secret} of that Neutron has no key 'metadata'") from None
    return one_line(metadata, "spec.neutronRef", secret, "metadata")


def novncproxy(any_address: str) -> Sections:
    """Return the options of the proxy, which listens for every client and checks tokens in the cell's schema."""
    return {"vnc": {"novncproxy_host": any_address, "novncproxy_port": 6080}}


def compute(
    ctx: Context[NovaSpec],
    bus: sources.Messaging,
    notifications: sources.Messaging | None,
    user: sources.Identity,
    console: str,
    disks: Sections,
    layers: Mapping[str, Sections],
) -> Sections:
    """Return all options of nova-compute: no schema, only its cell's broker. `console` is the base URL of the cell's
    proxy, `disks` are the options for the place of servers' disks, and `layers` those of the user by their field.
    """
    virt_type = ctx.spec.compute.virt_type
    fixed_options = oslo.merge(
        bus.options(notifications),
        clients(ctx, user),
        {
            "DEFAULT": {"compute_driver": "libvirt.LibvirtDriver", "state_path": parts.state(ctx)},
            # For auto, nova-compute-start puts what libvirt found on its node over this.
            "libvirt": {"connection_uri": "qemu:///system", "virt_type": "kvm" if virt_type == "auto" else virt_type},
            "vnc": {"enabled": True, "novncproxy_base_url": f"{console}/vnc_lite.html"},
            "os_vif_ovs": {"ovsdb_connection": "tcp:127.0.0.1:6640"},
        },
        disks,
    )
    sections = parts.options(ctx, fixed_options, defaults=COMPUTE_DEFAULTS)
    for path, options in layers.items():
        sections = layered(sections, options, fixed_options, path, catalog=known_options(ctx))
    return sections
