"""Who may decide what runs on nodes as root: refused to editors of a namespace, allowed to who has the verb."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.actuators.models import SERVICE
from openstack_operator.admission.policy_names import NODE_AGENTS, OPERATOR
from openstack_operator.api import Resource
from openstack_operator.plan import Transient
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import NotAdmitted
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.services.barbican.model import BARBICAN
from openstack_operator.services.cephstorage.model import CEPH_STORAGE
from openstack_operator.services.cinder.model import CINDER
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.glance.model import GLANCE
from openstack_operator.services.hypervisorcluster.model import HYPERVISOR_CLUSTER
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.ovnnetwork.cluster_model import OVN_CLUSTER
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.yaml_text import load

from .harness import Cluster, eventually
from .rest import Rest
from .test_permissions import ACCOUNT, account

pytestmark = pytest.mark.security

RBAC = "rbac.authorization.k8s.io"
EDITOR, ALLOWED = "editor", "allowed"
OWN = "registry.example.org/own:1"
LVM = {"name": "lvm", "type": "lvm"}
NO_COMPUTE = {"compute": {"enabled": False}}
NO_AGENT = {"metadataAgent": {"enabled": False}}
NO_CHASSIS = {"chassis": {"enabled": False}}
NO_NODES = {"nova": NO_COMPUTE, "neutron": NO_AGENT, "ovn": NO_CHASSIS}
"""A cloud without programs on nodes."""
C5C3_NO_NODES = {
    "infrastructure": {"ovn": NO_CHASSIS},
    "services": {"nova": NO_COMPUTE, "neutron": NO_AGENT},
}
CINDER_ELSEWHERE = {
    "type": "volumev3",
    "name": "cinderv3",
    "endpoints": dict.fromkeys(("public", "internal"), "https://cinder.example.org:8776/v3"),
}
IMAGE = {"image": OWN}
LOGIN = {"secretRef": {"name": "login"}}

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
    (NOVA, {"compute": {"groups": [{"name": "a", "nodeSelector": {"a": "b"}}]}}, "spec.compute.groups[].nodeSelector"),
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
    # Programs on nodes at all.
    (CONTROL_PLANE, {}, "spec.ovn.chassis runs"),
    (CONTROL_PLANE, NO_NODES | {"nova": {}}, "spec.nova.compute runs"),
    (CONTROL_PLANE, NO_NODES | {"neutron": {}}, "spec.neutron.metadataAgent runs"),
    (CONTROL_PLANE, NO_NODES | {"storageBackend": "lvm"}, "spec runs"),
    (CONTROL_PLANE, NO_NODES | {"cinder": {"enabled": True, "backends": [LVM]}}, "spec.cinder.backends[] runs"),
    (CONTROL_PLANE, NO_NODES | {"ceph": {"mode": "rook"}}, "spec.ceph runs"),
    (C5C3_CONTROL_PLANE, {}, "spec.infrastructure.ovn.chassis runs"),
    (NOVA, {}, "spec.compute runs"),
    (NEUTRON, {}, "spec.metadataAgent runs"),
    (OVN_NETWORK, {}, "spec.chassis runs"),
    (OVN_CLUSTER, {}, "spec runs"),
    (HYPERVISOR_CLUSTER, {"controlPlaneSecretRef": {"name": "other"}}, "spec.controlPlaneSecretRef decides"),
    (CINDER, {"backends": [LVM]}, "spec.backends[] runs"),
    (CEPH_STORAGE, {"mode": "rook"}, "spec runs"),
    # What these take orders from.
    (CONTROL_PLANE, NO_NODES | {"keystone": IMAGE}, "spec.keystone.image names the server that controls"),
    (
        CONTROL_PLANE,
        NO_NODES | {"rabbitmq": {"config": {"a": "b"}}},
        ("spec.rabbitmq.config names the server that controls"),
    ),
    (
        CONTROL_PLANE,
        NO_NODES | {"nova": {**NO_COMPUTE, "cells": [{"name": "cell1", "conductor": IMAGE}]}},
        "spec.nova.cells[].conductor.image names the server that controls",
    ),
    (KEYSTONE, {"api": IMAGE}, "spec.api.image names the server that controls"),
    (KEYSTONE, {"config": {"catalog": {"driver": "templated"}}}, "spec.config names the server that controls"),
    (MARIADB, IMAGE, "spec.image names the server that controls"),
    (
        MARIADB,
        {"provider": "external", "external": {"host": "db.example.org", **LOGIN}},
        "spec.external names the server that controls",
    ),
    (RABBITMQ, IMAGE, "spec.image names the server that controls"),
    (MEMCACHED, IMAGE, "spec.image names the server that controls"),
    (NEUTRON, {**NO_AGENT, **IMAGE}, "spec.image names the server that controls"),
    (
        NEUTRON,
        {**NO_AGENT, "ovn": {"nbConnection": "tcp:192.0.2.1:6641", "sbConnection": "tcp:192.0.2.1:6642"}},
        "spec.ovn.nbConnection names the server that controls",
    ),
    (OVN_NETWORK, {**NO_CHASSIS, "southbound": IMAGE}, "spec.southbound.image names the server that controls"),
    (PLACEMENT, {"api": IMAGE}, "spec.api.image names the server that controls"),
    (GLANCE, {"database": LOGIN}, "spec.database.secretRef names the server that controls"),
    (
        GLANCE,
        {"keystone": {"authUrl": "https://id.example.org/v3", "appCredentialRef": {"secretName": "login"}}},
        "spec.keystone.authUrl names the server that controls",
    ),
    (NOVA, {**NO_COMPUTE, "messaging": LOGIN}, "spec.messaging.secretRef names the server that controls"),
    (
        NOVA,
        {**NO_COMPUTE, "cells": [{"name": "cell1", "messaging": {**LOGIN, "hosts": ["mq.example.org"]}}]},
        "spec.cells[].messaging.secretRef names the server that controls",
    ),
    (CINDER, {"api": IMAGE}, "spec.api.image names the server that controls"),
    (BARBICAN, {"worker": IMAGE}, "spec.worker.image names the server that controls"),
    (SERVICE, CINDER_ELSEWHERE, "spec.type lets this service control root"),
    (SERVICE, {**CINDER_ELSEWHERE, "type": "block-storage"}, "spec.type lets this service control root"),
    (SERVICE, {**CINDER_ELSEWHERE, "type": "image"}, "spec.type lets this service control root"),
]

FREE: list[tuple[Resource[Any], dict[str, Any]]] = [
    *((resource, {}) for resource in (KEYSTONE, MARIADB, RABBITMQ, MEMCACHED, PLACEMENT, GLANCE)),
    (CONTROL_PLANE, NO_NODES),
    (CONTROL_PLANE, {"nova": {"enabled": False}, "neutron": {"enabled": False}, "ovn": {"enabled": False}}),
    (CONTROL_PLANE, NO_NODES | {"horizon": {"enabled": True, "image": OWN}}),
    (C5C3_CONTROL_PLANE, C5C3_NO_NODES),
    (NOVA, NO_COMPUTE),
    (NOVA, {"compute": {"enabled": False, "instanceStoragePath": "/var/lib/openstack-operator/nova"}}),
    (NOVA, {"compute": {"enabled": False, "instanceStoragePath": "/var/lib/nova"}, "replicas": 2}),
    (NEUTRON, NO_AGENT),
    (OVN_NETWORK, NO_CHASSIS),
    (CINDER, {"backends": [{"name": "ceph", "type": "ceph"}]}),
    (CEPH_STORAGE, {}),
    (SERVICE, {**CINDER_ELSEWHERE, "type": "object-store", "name": "swift"}),
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
        assert field in message
        assert "run-on-nodes" in message
        assert NODE_AGENTS in message


async def test_an_editor_makes_and_scales_clouds_without_programs_on_nodes(users: Users) -> None:
    for number, (resource, spec) in enumerate(FREE):
        await users.editor.create(Kind.of(resource), users.manifest(resource, spec, f"free{number}"))


async def test_an_existing_cloud_keeps_running_for_an_editor_without_the_verb(users: Users) -> None:
    kind, namespace, edit = Kind.of(CONTROL_PLANE), users.cluster.namespace, users.editor.patch_json
    cinder = {"enabled": True, "backends": [LVM]}
    spec = {"keystone": IMAGE, "neutron": NO_AGENT, "cinder": cinder}
    await users.allowed.create(kind, users.manifest(CONTROL_PLANE, spec))
    for path, value in (
        ("/spec/glance", {"replicas": 2}),
        ("/spec/keystone/replicas", 2),
        ("/spec/nova", {"replicas": 2, "compute": {"virtType": "qemu"}}),
        ("/spec/ovn", NO_CHASSIS),
    ):
        await edit(kind, namespace, "cloud", [{"op": "add", "path": path, "value": value}])
    for path, value in (
        ("/spec/ovn/chassis/enabled", True),
        ("/spec/neutron/metadataAgent/enabled", True),
        ("/spec/keystone/image", "registry.example.org/own:2"),
        ("/spec/cinder/backends/-", {"name": "second", "type": "lvm"}),
    ):
        with pytest.raises(NotAdmitted, match="run-on-nodes"):
            await edit(kind, namespace, "cloud", [{"op": "add", "path": path, "value": value}])
    await edit(kind, namespace, "cloud", [{"op": "remove", "path": "/spec/keystone/image"}])


async def test_the_verb_allows_privileged_fields_and_the_operator_has_it(users: Users) -> None:
    for number, (resource, spec, _) in enumerate(REFUSED):
        kind = Kind.of(resource)
        await users.allowed.create(kind, users.manifest(resource, spec, f"of-user{number}"))
        # What a control plane is made of.
        if resource not in (CONTROL_PLANE, C5C3_CONTROL_PLANE, OVN_CLUSTER, HYPERVISOR_CLUSTER):
            await users.operator.create(kind, users.manifest(resource, spec, f"of-operator{number}"))


async def test_privileged_fields_stay_and_change_only_with_the_verb(users: Users) -> None:
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
