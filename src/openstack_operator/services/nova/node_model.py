"""Part of a Nova's spec for programs on compute nodes."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ...api import AgentSettings, CephSource, Labels, Model, NodeNetwork, Sections, Share, immutable, validated


class Canaries(Model):
    """Nodes that get a new nova-compute before all others."""

    node_selector: Annotated[Labels, Field(min_length=1)]
    """Labels of these nodes; `kubernetes.io/hostname` selects one. If no node has them, no node gets a change."""
    only: bool = False
    """Change only the canaries until this is false."""


class ComputeRollout(Model):
    """Nodes that get a new nova-compute at a time, in an upgrade to another release and for each other change of its
    image, options or size. The operator ends the pod of a node, which waits for work on the node that is under way
    (half an hour at most), and goes on when the next pod there is Ready. It begins once all other programs of Nova have
    the change. If a new nova-compute is not Ready for ten minutes, no other node gets the change, and the condition
    ComputeRolloutReady names the node.
    """

    max_unavailable: Share = "1"
    """Maximum number of nodes without a ready nova-compute at a time, over all cells: a number, or a percentage such as
    `10%`, rounded up. Nodes that cannot be reached do not count, unless they are lost while their new nova-compute
    starts. They get the change when they are back."""
    canaries: Canaries | None = None
    """Nodes to change first, none if unset. The others follow once nova-compute is Ready on all canaries."""
    paused: bool = False
    """Stop changing further nodes; changed nodes keep the change. New nodes get the newest nova-compute, and so does a
    node whose pod you delete."""


class ComputeGroup(Model):
    """Compute nodes with options of their own: those with a GPU, with pinned CPUs or with huge pages."""

    on_nodes = ("node_selector", "config")

    name: Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    """Name of the group. nova-compute of its nodes is in DaemonSet `<name>-<cell>-<group>-compute`."""
    node_selector: Annotated[Labels, Field(min_length=1, max_length=4)]
    """Labels of these nodes, besides those of `compute.nodeSelector`. A node with the labels of several groups is in
    the first of these."""
    config: Sections = {}
    """Options for nova-compute on these nodes, over `compute.config`. A change replaces it in waves
    (`compute.rollout`)."""


class Compute(AgentSettings):
    """libvirt and nova-compute on every compute node; the service's own pod settings do not apply to them."""

    on_nodes = ("config", "rbd")
    node_folders = ("instance_storage_path",)
    node_agents = {"enabled": ((True,), True)}

    enabled: bool = True
    """Run nova-compute and libvirt on nodes. Set false for a cloud without compute nodes."""
    virt_type: Literal["auto", "kvm", "qemu"] = "auto"
    """Virtualization of instances (`libvirt.virt_type`). `auto` is kvm on nodes that support it, else qemu."""
    instance_storage_path: Annotated[
        str, Field(max_length=255, pattern=r"^/[^:\s]+$"), validated(immutable("the folder of the instances' disks"))
    ] = "/var/lib/nova"
    """Folder of each node that holds the instances' disks and the node's identity. It must outlive reboots. Cannot be
    changed."""
    storage_type: Annotated[Literal["local", "ceph"], validated(immutable("where servers' disks are"))] = "local"
    """Storage of servers' disks: `local` is the folder `instanceStoragePath`; `ceph` is a Ceph cluster, where disks are
    clones of images in the same cluster. Cannot be changed, since disks do not move by themselves."""
    rbd: CephSource | None = None
    """Ceph cluster and pool for storageType ceph, those of the CephStorage `ceph` if unset."""
    live_migration: bool = True
    """Allow live migration over TLS (ports 16514 and 49152 to 49215 of the nodes). Kolla's images do not support it."""
    migration_network: NodeNetwork | None = None
    """Network of the nodes' addresses for live migration, that of the nodes if unset."""
    console_network: NodeNetwork | None = None
    """Network of the nodes' addresses for consoles, that of the nodes if unset."""
    config: Sections = {}
    """Options for nova-compute alone, over the service's `config`. A change replaces it in waves (`rollout`)."""
    groups: Annotated[
        list[ComputeGroup],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = []
    """Groups of compute nodes with separate options. All other nodes use `config`. Add a group before you label its
    nodes: nova-compute restarts when a node changes its group."""
    rollout: ComputeRollout = ComputeRollout()
    """Order and batch size of changes of nova-compute."""
    libvirt: AgentSettings = AgentSettings()
    """Image and resources of libvirt. It runs on the nodes of nova-compute."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default CephStorage if the spec names none."""
        return {"rbd": CephSource()} if self.enabled and self.storage_type == "ceph" and not self.rbd else {}
