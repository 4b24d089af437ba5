"""Who may decide what runs on nodes as root: refused to editors of a namespace, allowed to who has the verb."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.admission.names import NODE_AGENTS, OPERATOR
from openstack_operator.api import Resource
from openstack_operator.manifests import load
from openstack_operator.plan import Transient
from openstack_operator.runtime.client import Client
from openstack_operator.runtime.errors import NotAdmitted
from openstack_operator.runtime.kinds import Kind
from openstack_operator.services.cephstorage.model import CEPH_STORAGE
from openstack_operator.services.cinder.model import CINDER
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.ovnnetwork.cluster_model import OVN_CLUSTER
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK

from .harness import Cluster, eventually
from .rest import Rest
from .test_permissions import ACCOUNT, account

pytestmark = pytest.mark.security

RBAC = "rbac.authorization.k8s.io"
EDITOR, ALLOWED = "editor", "allowed"
OWN = "registry.example.org/own:1"
LVM = {"name": "lvm", "type": "lvm"}

REFUSED: list[tuple[Resource[Any], dict[str, Any], str]] = [
    (CONTROL_PLANE, {"nova": {"compute": {"libvirt": {"image": OWN}}}}, "spec.nova.compute.libvirt.image"),
    (CONTROL_PLANE, {"nova": {"compute": {"nodeSelector": {}}}}, "spec.nova.compute.nodeSelector"),
    (CONTROL_PLANE, {"ovn": {"externalBridge": {"interface": "eth0"}}}, "spec.ovn.externalBridge.interface"),
    (
        CONTROL_PLANE,
        {"cinder": {"enabled": True, "backends": [{**LVM, "lvm": {"device": "/dev/sda"}}]}},
        "spec.cinder.backends[].lvm.device",
    ),
    (
        C5C3_CONTROL_PLANE,
        {"services": {"nova": {"compute": {"image": {"repository": "own", "tag": "1"}}}}},
        "spec.services.nova.compute.image",
    ),
    (NOVA, {"compute": {"instanceStoragePath": "/etc"}}, "spec.compute.instanceStoragePath"),
    (
        NOVA,
        {"compute": {"instanceStoragePath": "/var/lib/openstack-operator/../../../etc"}},
        "spec.compute.instanceStoragePath",
    ),
    (NOVA, {"config": {"privsep_osbrick": {"helper_command": "sh"}}}, "spec.config"),
    (NEUTRON, {"metadataAgent": {"tolerations": [{"operator": "Exists"}]}}, "spec.metadataAgent.tolerations"),
    (OVN_NETWORK, {"chassis": {"controller": {"image": OWN}}}, "spec.chassis.controller.image"),
    (OVN_CLUSTER, {"ovs": {"nodeSelector": {"any": "node"}}}, "spec.ovs.nodeSelector"),
    (CINDER, {"backends": [{"name": "own", "driver": "own.Driver", "hostAccess": True}]}, "spec.backends[].driver"),
    (
        CINDER,
        {"backends": [{**LVM, "lvm": {"loopFile": {"path": "/root"}}}]},
        "spec.backends[].lvm.loopFile.path",
    ),
    (CEPH_STORAGE, {"mode": "rook", "rook": {"dataDirHostPath": "/etc"}}, "spec.rook.dataDirHostPath"),
]
FREE: list[tuple[Resource[Any], dict[str, Any]]] = [
    *((resource, {}) for resource in (CONTROL_PLANE, C5C3_CONTROL_PLANE, NOVA, NEUTRON, OVN_NETWORK, OVN_CLUSTER)),
    (CINDER, {"backends": [{**LVM, "lvm": {"loopFile": {"size": "1Gi"}}}, {"name": "ceph", "type": "ceph"}]}),
    (CEPH_STORAGE, {"mode": "rook"}),
    (CONTROL_PLANE, {"nova": {"image": OWN, "compute": {"instanceStoragePath": "/var/lib/nova"}}}),
    (NOVA, {"compute": {"instanceStoragePath": "/var/lib/openstack-operator/nova"}}),
]


@dataclass(frozen=True)
class Users:
    """The API as different users of one namespace have it."""

    cluster: Cluster
    editor: Client
    """Bound to the role to edit alone."""
    allowed: Client
    """Bound to the one of node agents besides."""
    operator: Client

    def manifest(self, resource: Resource[Any], spec: dict[str, Any], name: str = "cloud") -> dict[str, Any]:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": self.cluster.meta(name),
            "spec": spec,
        }

    async def refusal(self, resource: Resource[Any], spec: dict[str, Any]) -> str:
        """What the editor is told."""
        with pytest.raises(NotAdmitted) as refused:
            await self.editor.create(Kind.of(resource), self.manifest(resource, spec))
        return str(refused.value)


@pytest.fixture
async def users(kubeconfig: Path, cluster: Cluster, root: Path) -> AsyncGenerator[Users]:
    rest = Rest(kubeconfig, cluster.namespace)
    for name in ("rbac", "optional-roles/c5c3", "roles", "admission"):
        for obj in load(root / "deploy" / f"{name}.yaml"):
            if obj["metadata"].get("namespace") is None:
                status, answer = rest.apply(obj)
                assert status in (200, 201), answer
    for user, role in ((EDITOR, f"{OPERATOR}-edit"), (ALLOWED, f"{OPERATOR}-edit"), (ALLOWED, NODE_AGENTS)):
        status, answer = rest.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"{user}-{role}"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            }
        )
        assert status in (200, 201), answer
    rest.close()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(account(kubeconfig, user)) for user in (EDITOR, ALLOWED, ACCOUNT)]
        found = Users(cluster, *clients)
        await eventually(lambda: _in_force(found))
        yield found


async def _in_force(users: Users) -> bool:
    """Each policy is looked up by the API server some time after it is made."""
    return all([await _is_refused(users, resource, spec) for resource, spec, _ in REFUSED])


async def _is_refused(users: Users, resource: Resource[Any], spec: dict[str, Any]) -> bool:
    try:
        live = await users.editor.create(Kind.of(resource), users.manifest(resource, spec, "try"))
    except NotAdmitted:
        return True
    except Transient:
        # The role is not seen yet, or an earlier attempt went through.
        return False
    await users.cluster.client.delete(
        Kind.of(resource), users.cluster.namespace, "try", live["metadata"]["uid"], "Background"
    )
    return False


async def test_an_editor_decides_nothing_that_runs_on_nodes_as_root(users: Users) -> None:
    for resource, spec, field in REFUSED:
        message = await users.refusal(resource, spec)
        assert f"{field} decides what runs on nodes as root" in message
        assert "run-on-nodes" in message
        assert NODE_AGENTS in message


async def test_an_editor_makes_and_scales_plain_clouds(users: Users) -> None:
    for number, (resource, spec) in enumerate(FREE):
        await users.editor.create(Kind.of(resource), users.manifest(resource, spec, f"free{number}"))
    kind = Kind.of(CONTROL_PLANE)
    await users.editor.patch_json(
        kind, users.cluster.namespace, "free0", [{"op": "add", "path": "/spec/keystone", "value": {"replicas": 2}}]
    )


async def test_who_has_the_verb_decides_and_so_does_the_operator(users: Users) -> None:
    for number, (resource, spec, _) in enumerate(REFUSED):
        kind = Kind.of(resource)
        await users.allowed.create(kind, users.manifest(resource, spec, f"of-user{number}"))
        # What a control plane is made of.
        if resource in (NOVA, NEUTRON, OVN_NETWORK, CINDER, CEPH_STORAGE):
            await users.operator.create(kind, users.manifest(resource, spec, f"of-operator{number}"))


async def test_what_is_there_stays_and_is_changed_by_nobody_else(users: Users) -> None:
    backends = [{**LVM, "lvm": {"device": "/dev/vdb"}}]
    kind, namespace = Kind.of(CINDER), users.cluster.namespace
    await users.allowed.create(kind, users.manifest(CINDER, {"backends": backends, "config": {"a": {"b": "c"}}}))
    edit = users.editor.patch_json
    await edit(kind, namespace, "cloud", [{"op": "add", "path": "/spec/replicas", "value": 2}])
    for path, value in (
        ("/spec/config/a/b", "d"),
        ("/spec/backends/-", {"name": "other", "type": "lvm", "lvm": {"device": "/dev/vdb"}}),
    ):
        with pytest.raises(NotAdmitted, match="run-on-nodes"):
            await edit(kind, namespace, "cloud", [{"op": "add", "path": path, "value": value}])
    await edit(kind, namespace, "cloud", [{"op": "remove", "path": "/spec/config"}])
