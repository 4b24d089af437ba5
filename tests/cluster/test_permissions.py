"""The generated permissions are enough for a whole cloud's life, and are all the operator has."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.actuators import CHASSIS
from openstack_operator.admission.policy_names import NAMESPACE, OPERATOR
from openstack_operator.admission.presence import POLICY_KINDS, policies
from openstack_operator.admission.presence import absent as absent_policies
from openstack_operator.kube import conditions
from openstack_operator.kubeconfig import connection
from openstack_operator.plan import Context
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Conflict, Forbidden
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, EVENT, LEASE, NODE, POD, Kind
from openstack_operator.runtime.kubernetes.kinds import NAMESPACE as NAMESPACES
from openstack_operator.runtime.serve.leader import Leader
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.mariadb.roles import ROLE
from openstack_operator.yaml_text import load

from .external_operators import KINDS, external_operators
from .harness import TIMEOUT, Cluster, eventually, running
from .rest import Rest
from .test_controlplane import RESOURCE, SMALL, nothing_left
from .test_pods import made

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"
LEASE_SECONDS, RENEW_SECONDS = 900, 600
"""An operator on a busy machine does not lose such a lease: these tests are about rights."""


def agrees(_: Context[Any]) -> tuple[str, ...]:
    """Nothing had to be changed."""
    return ()


@pytest.fixture(scope="module")
def granted(kubeconfig: Path, root: Path) -> Path:
    """The API server with the generated roles and bindings."""
    rest = Rest(kubeconfig, NAMESPACE)
    deploy = root / "deploy"
    names = "operator.yaml", "rbac.yaml", "admission.yaml"
    for path in (*(deploy / name for name in names), *sorted((deploy / "optional-roles").glob("*.yaml"))):
        for obj in load(path):
            if obj["kind"] != "Deployment":
                assert rest.apply(obj)[0] in (200, 201)
    rest.close()
    return kubeconfig


@asynccontextmanager
async def account(kubeconfig: Path, user: str = ACCOUNT) -> AsyncGenerator[Client]:
    """A connection as an account, the operator's own where none is named."""
    way = connection(files=[kubeconfig])
    client = Client.over(replace(way, headers=(*way.headers, ("Impersonate-User", user))), timeout=TIMEOUT)
    yield client
    await client.close()


@pytest.mark.security
async def test_the_operator_sees_which_of_its_policies_are_absent(granted: Path) -> None:
    async with account(granted) as client:
        assert not await absent_policies(client, policies())
        elsewhere = await absent_policies(client, policies("elsewhere"))
        of_account = ("openstack-operator-pod-endings", "openstack-operator-pods")
        assert sorted(elsewhere) == [f"ValidatingAdmissionPolicy/{name}" for name in of_account]
        with pytest.raises(Forbidden):
            await client.get(POLICY_KINDS[0], None, "of-another-project")


@pytest.mark.security
async def test_the_operator_may_not_change_other_leases(granted: Path) -> None:
    async with account(granted) as client:
        await client.get(LEASE, NAMESPACE, OPERATOR)
        with pytest.raises(Forbidden):
            await client.get(LEASE, NAMESPACE, "kube-scheduler")


@pytest.mark.proves("OpenStackControlPlane", "status.phase", "status.endpoint", "status.conditions[Ready]")
async def test_a_cloud_becomes_ready_and_leaves_nothing_when_deleted(
    granted: Path, cluster: Cluster, root: Path
) -> None:
    remotes = [replace(actuator, ensure=agrees, remove=agrees) for actuator in ACTUATORS]
    async with account(granted) as client, cluster.simulator():
        leader = Leader(client, NAMESPACE, "test", lease=LEASE_SECONDS, renew=RENEW_SECONDS)
        manager = Manager(
            client, SERVICES, remotes, ReleaseFiles(root / "releases"), [cluster.namespace], leader=leader
        )
        async with running(manager.run()):
            await cluster.create(CONTROL_PLANE, "cloud", expose={"type": "ClusterIP"})
            await cluster.ready(CONTROL_PLANE, "cloud")
            assert await cluster.client.get(LEASE, NAMESPACE, OPERATOR)
            live = await cluster.get(CONTROL_PLANE, "cloud") or {}
            assert live["status"]["phase"] == "Ready"
            assert live["status"]["release"] == (await cluster.get(RESOURCE["Nova"], "nova") or {})["status"]["release"]
            assert live["status"]["endpoint"].startswith("https://keystone-api.")
            services = {"MariaDB", "RabbitMQ", "Memcached", "Keystone", "Glance", "Placement", "OVN", "Neutron", "Nova"}
            assert {f"{name}Ready" for name in services} <= set(conditions(live))
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/nova", {"enabled": False})
            await eventually(lambda: absent(cluster, DEPLOYMENT, "nova-api"))
            await cluster.ready(CONTROL_PLANE, "cloud")
            # It is deleted with all of its services.
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/nova", {"enabled": True})
            await eventually(lambda: exists(cluster, DEPLOYMENT, "nova-api"))
            await cluster.ready(CONTROL_PLANE, "cloud")
            await cluster.delete(CONTROL_PLANE, "cloud")
            await nothing_left(cluster)
    assert await cluster.client.get(NAMESPACES, None, cluster.namespace)
    events = json.loads(await cluster.client.page(EVENT, cluster.namespace, {}))["items"]
    assert [event for event in events if event["involvedObject"]["kind"] == CONTROL_PLANE.kind]


@pytest.mark.security
async def test_rights_in_one_namespace_are_enough_for_an_operator_of_that_one(
    granted: Path, cluster: Cluster, root: Path
) -> None:
    user = f"of-{cluster.namespace}"
    for namespace, name in ((NAMESPACE, "rbac"), (cluster.namespace, "rbac-of-namespace")):
        rest = Rest(granted, namespace)
        for obj in load(root / "deploy" / "namespaced" / f"{name}.yaml"):
            if "subjects" in obj:
                # The operator's own account has rights everywhere here.
                obj["metadata"]["name"] = f"{user}-{obj['metadata']['name']}"
                obj["subjects"] = [{"kind": "ServiceAccount", "name": user, "namespace": NAMESPACE}]
            assert rest.apply(obj)[0] in (200, 201)
        rest.close()
    remotes = [replace(actuator, ensure=agrees, remove=agrees) for actuator in ACTUATORS]
    account_name = f"system:serviceaccount:{NAMESPACE}:{user}"
    async with account(granted, account_name) as client, cluster.simulator():
        leader = Leader(client, NAMESPACE, "test", lease=LEASE_SECONDS, renew=RENEW_SECONDS)
        manager = Manager(
            client, SERVICES, remotes, ReleaseFiles(root / "releases"), [cluster.namespace], leader=leader
        )
        async with running(manager.run()):
            # The rules are those of all namespaces, for which a test of a whole cloud is above.
            await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
            await cluster.ready(CONTROL_PLANE, "cloud")
            await cluster.delete(CONTROL_PLANE, "cloud")
            await eventually(lambda: absent(cluster, Kind.of(CONTROL_PLANE), "cloud"))
        with pytest.raises(Forbidden):
            await client.page(POD, "default", {})


async def test_servers_of_others_may_be_asked_for_and_go(granted: Path, cluster: Cluster, root: Path) -> None:
    """With what is made on them: a broker's users, and the teardown of the broker."""
    remotes = [replace(actuator, ensure=agrees, remove=agrees) for actuator in ACTUATORS]
    async with account(granted) as client, cluster.simulator(), external_operators(cluster):
        manager = Manager(client, SERVICES, remotes, ReleaseFiles(root / "releases"), [cluster.namespace])
        async with running(manager.run()):
            template = {"provider": "auto"}
            named = dict.fromkeys(("mariadb", "rabbitmq", "memcached"), template)
            # Neutron has users of the broker, as Nova has.
            off: dict[str, Any] = {name: {"enabled": False} for name in ("nova", "glance")}
            await cluster.create(CONTROL_PLANE, "cloud", **named, **off, tls={"enabled": False})
            await cluster.ready(CONTROL_PLANE, "cloud")
            for handle in ("Grant.k8s.mariadb.com", "Permission.rabbitmq.com", "Memcached.memcached.c5c3.io"):
                assert json.loads(await cluster.client.page(KINDS[handle], cluster.namespace, {}))["items"]
            await cluster.delete(CONTROL_PLANE, "cloud")
            await eventually(lambda: absent(cluster, Kind.of(CONTROL_PLANE), "cloud"))


async def absent(cluster: Cluster, kind: Kind, name: str) -> bool:
    return not await exists(cluster, kind, name)


async def exists(cluster: Cluster, kind: Kind, name: str) -> bool:
    return await cluster.client.get(kind, cluster.namespace, name) is not None


async def test_a_failed_jobs_pods_may_be_read(granted: Path, cluster: Cluster) -> None:
    async with account(granted) as client:
        assert json.loads(await client.page(POD, cluster.namespace, {}))["items"] == []


async def test_a_pod_is_labeled_only_while_it_is_there(granted: Path, cluster: Cluster) -> None:
    live = await made(cluster, "server-db-0")
    pod = kube.labeled_pod(live, {ROLE: "primary"})
    async with account(granted) as client:
        assert (await client.apply(POD, pod))["metadata"]["labels"][ROLE] == "primary"
        await cluster.client.delete(POD, cluster.namespace, "server-db-0", live["metadata"]["uid"], "Background")
        with pytest.raises(Conflict):
            await client.apply(POD, pod)


@pytest.mark.security
@pytest.mark.parametrize(
    "kind",
    [
        Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
        Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ],
    ids=lambda kind: kind.plural,
)
async def test_the_operator_is_refused_what_its_role_does_not_grant(granted: Path, kind: Kind) -> None:
    async with account(granted) as client:
        with pytest.raises(Forbidden):
            await client.page(kind, None, {})


async def test_nodes_are_read_and_what_is_made_for_each_is_written(granted: Path, cluster: Cluster) -> None:
    name = f"{cluster.namespace}.example.org"
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "namespace": None}}
    uid = (await cluster.client.create(NODE, node))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    meta = {**cluster.meta(name), "ownerReferences": [owner]}
    async with account(granted) as client:
        assert await client.page(NODE, None, {}, metadata_only=True)
        for refused in (client.apply(NODE, node), client.delete(NODE, "", name, uid, "Background")):
            with pytest.raises(Forbidden):
                await refused
        chassis = {"apiVersion": CHASSIS.api_version, "kind": CHASSIS.kind, "metadata": meta}
        made = await client.apply(Kind.of(CHASSIS), chassis)
        await client.delete(Kind.of(CHASSIS), cluster.namespace, name, made["metadata"]["uid"], "Foreground")


def test_every_kind_is_served(granted: Path) -> None:
    rest = Rest(granted, "default")
    for resource in RESOURCES:
        status, _ = rest.create({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}})
        assert status in (201, 422), resource.kind
    rest.close()
