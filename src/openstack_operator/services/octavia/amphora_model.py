"""The part of an Octavia's spec for its provider amphora."""

from typing import Annotated, Literal

from pydantic import Field

from ...api import (
    AGENT,
    AgentSettings,
    Labels,
    MessagingSource,
    Model,
    Name,
    Sections,
    bounded,
    rule,
    validated,
)

ManagementCidr = Annotated[
    str,
    Field(max_length=18),
    validated(
        rule(
            "isCIDR(self) && !self.contains(':')",
            "not a network of IPv4; write an address and a prefix length, such as 10.254.0.0/20",
        ),
        rule(
            "!isCIDR(self) || string(cidr(self).masked()) == self",
            "is the address of a host; write the network's first address, such as 10.254.0.0/20",
        ),
        rule(
            "self == oldSelf",
            "the management network cannot change its addresses; remove amphora, delete the subnet lb-mgmt-subnet, "
            "then set amphora again",
        ),
    ),
]
"""A network of IPv4, which stays while there is one."""

Size = Annotated[str, Field(max_length=16, pattern=r"^[1-9][0-9]*[MG]i$")]


class AmphoraFlavor(Model):
    """Size of the server of a load balancer. If you change it, the operator makes another flavor, for new servers."""

    vcpus: Annotated[int, Field(ge=1, le=128)] = 1
    """Number of virtual CPUs of an amphora."""
    memory: Size = "1Gi"
    """Memory of an amphora."""
    disk: Size = "2Gi"
    """Disk of an amphora, in whole GiB. It needs at least the virtual size of the image."""


class Controllers(AgentSettings):
    """Pods with the worker, the health manager and the housekeeper, one on each node that the nodeSelector takes. A
    container of theirs is root on the node while a pod starts, to connect the pod with the management network. So the
    nodes have to be chassis of OVN. The pod settings of the service do not apply to them.
    """

    on_nodes = (*AGENT, "config")

    node_selector: Labels | None = Field(
        default={"openstack-control-plane": "enabled", "openvswitch": "enabled"}, validate_default=True
    )
    """Labels of the nodes to run on: by default control plane nodes that are chassis of OVN."""
    config: Sections = {}
    """Options of these programs: section, option, value. The service's config is for the API alone."""


class Amphora(Model):
    """The provider amphora, which runs a server (an amphora) for each load balancer."""

    # No controller runs without it.
    on_nodes = ("management_cidr",)

    management_cidr: ManagementCidr = Field(alias="managementCIDR")
    """Network of IPv4 of the amphorae and their controllers, which the operator makes in the project of the services.
    It has an address for each amphora and each controller, and must not overlap with a network that pods reach."""
    image_tag: Name = "amphora"
    """Tag of the image in Glance from which amphorae boot. They take the newest image with it that belongs to the
    project of the services."""
    flavor: AmphoraFlavor = AmphoraFlavor()
    """Size of an amphora: CPUs, memory and disk."""
    topology: Literal["SINGLE", "ACTIVE_STANDBY"] = "SINGLE"
    """Default number of amphorae of a load balancer: one, or an active/standby pair on different hypervisors."""
    ssh_key: (
        Annotated[str, bounded(1024), Field(pattern=r"^(ssh-(rsa|ed25519)|ecdsa-sha2-nistp[0-9]+) [ -~]+$")] | None
    ) = None
    """SSH public key for logins to amphorae through the management network; if unset, no one can log in."""
    messaging: MessagingSource = MessagingSource()
    """Broker between the API and the workers."""
    controllers: Controllers = Controllers()
    """The pods that manage amphorae."""
