"""Spec of a HypervisorCluster."""

from ...api import (
    REPLACES_PODS,
    AgentSettings,
    ClientSecretRef,
    Column,
    Model,
    OVNNetworkRef,
    ReleaseName,
    Resource,
    Sections,
)
from ..nova.model import ComputeStatus
from ..nova.node_model import Compute


class MetadataAgent(AgentSettings):
    """The agent that gives instances their metadata, on the compute nodes."""

    node_agents = {"enabled": ((True,), True)}

    enabled: bool = True
    """Run the agent."""


class HypervisorClusterSpec(Model, defer_build=True):
    """Compute nodes of a cloud whose control plane runs in another Kubernetes cluster."""

    on_change = REPLACES_PODS
    programs_of = "Nova"
    # The Secret says whose orders the programs on nodes take.
    on_nodes = ("control_plane_secret_ref", "config")

    release: ReleaseName = "2025.1"
    """OpenStack release to run: that of the control plane, or the one before it. It must not be later than that in the
    Secret."""
    control_plane_secret_ref: ClientSecretRef
    """Copy of the Secret `<name>-<cell>-hypervisors` of the control plane's Nova. Copy it with External Secrets or by
    hand, since the operator has no access to the other cluster."""
    ovn_ref: OVNNetworkRef = OVNNetworkRef(name="ovn")
    """OVNNetwork of this namespace with the switches of these nodes, whose databases are in the other cluster
    (`external`)."""
    config: Sections = {}
    """Options for nova-compute, merged over the operator's defaults: section, option, value. An option the operator
    sets itself is refused."""
    compute: Compute = Compute()
    """libvirt and nova-compute on the nodes labeled `openstack-compute-node=enabled`."""
    metadata_agent: MetadataAgent = MetadataAgent()
    """The agent that serves metadata to instances."""


class HypervisorClusterStatus(Model):
    """Observed state of a HypervisorCluster besides its conditions."""

    compute_nodes: int = 0
    """Nodes whose nova-compute is connected to the broker."""
    compute: ComputeStatus | None = None
    """nova-compute on all nodes. Unset without compute nodes."""


HYPERVISOR_CLUSTER = Resource(
    kind="HypervisorCluster",
    plural="hypervisorclusters",
    spec=HypervisorClusterSpec,
    status=HypervisorClusterStatus,
    columns=(
        Column("Secret", ".spec.controlPlaneSecretRef.name"),
        Column("Nodes", ".status.computeNodes", "integer"),
    ),
    nodes=True,
)
