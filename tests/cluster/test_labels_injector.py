"""The labels injector over a real API server: asked by it, with the rights of its manifest and no others."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.generate.injector import labels_injector, webhook
from openstack_operator.injector.certificate import certify
from openstack_operator.injector.injector import Injector
from openstack_operator.injector.object_names import CERTIFIER, CONFIGURATION, INJECTOR
from openstack_operator.injector.review import Binding
from openstack_operator.injector.serve import inject
from openstack_operator.injector.webhook import Webhook
from openstack_operator.kube import secret_data
from openstack_operator.plan import SpecError
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Forbidden
from openstack_operator.runtime.kubernetes.kinds import LEASE, NODE, POD, SECRET, Kind
from openstack_operator.runtime.process import any_of
from tools.localcluster.ports import free_port

from .harness import Cluster, eventually, running
from .rest import Rest
from .test_permissions import account
from .test_pods import made

BB, ZONE = "kubernetes.metal.cloud.sap/bb", "topology.kubernetes.io/zone"
NAME = "kubernetes.metal.cloud.sap/name"
HOST = "127.0.0.1"


def user(name: str) -> str:
    return f"system:serviceaccount:{INJECTOR}:{name}"


@dataclass
class Site:
    """A namespace with pods to bind, and the injector's manifest around it."""

    cluster: Cluster
    rest: Rest
    kubeconfig: Path
    folder: Path
    port: int

    async def node(self, name: str, **labels: str) -> str:
        """A node of that name, with short names of labels; its name there."""
        whole = f"{self.cluster.namespace}-{name}"
        borne = {{"bb": BB, "zone": ZONE}[key]: value for key, value in labels.items()}
        meta = {"name": whole, "namespace": None, "labels": borne}
        await self.cluster.client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        return whole

    async def relabel(self, node: str, changes: dict[str, str | None]) -> None:
        await self.cluster.client.patch(NODE, None, node, {"metadata": {"labels": changes}}, manager="admin")

    async def pod(self, name: str, node: str | None = None, *, dry: bool = False) -> str:
        """A pod, bound where a node is named; its uid."""
        uid = (await made(self.cluster, name))["metadata"]["uid"]
        if node:
            assert await asyncio.to_thread(self.rest.bind, name, uid, node, dry=dry) == 201
        return uid

    async def labels(self, pod: str) -> dict[str, str]:
        """Labels of a pod that come from its node."""
        live = await self.cluster.get(POD, pod)
        assert live
        return {key: value for key, value in live["metadata"]["labels"].items() if key in (BB, ZONE, NAME)}

    async def labeled(self, pod: str, **wanted: str) -> None:
        """Waits until the pod bears these and no others; the name is that of its node."""

        async def so() -> bool:
            found = await self.labels(pod)
            return {**found, NAME: ""} == {NAME: "", **{{"bb": BB, "zone": ZONE}[k]: v for k, v in wanted.items()}}

        await eventually(so)

    @asynccontextmanager
    async def injector(self) -> AsyncGenerator[Injector]:
        """What runs in the pod, with its rights, once it is ready; without its port for health."""
        async with account(self.kubeconfig, user(INJECTOR)) as client:
            injector = Injector(client)
            # How long a binding waits at most is shown elsewhere; here it is as long as the API server allows.
            hook = Webhook(injector.bind, self.folder, budget=29)
            async with running(any_of(injector.run(), hook.serve((HOST, self.port)))):

                async def ready() -> bool:
                    return injector.synced and hook.serving

                await eventually(ready)
                yield injector

    async def asked(self, node: str) -> None:
        """Waits until the API server asks the webhook, which it does some time after it was told to."""
        numbers = iter(range(1000))

        async def so() -> bool:
            name = f"asked-{next(numbers)}"
            await self.pod(name, node)
            return bool(await self.labels(name))

        await eventually(so)


@pytest.fixture(scope="module")
def manifest(kubeconfig: Path) -> Iterator[int]:
    """The manifest, but for the address of the webhook: a port on loopback, which is returned. Tests of the manifest
    itself apply that configuration, too, and a webhook has one address.
    """
    port = free_port()
    rest = Rest(kubeconfig, INJECTOR)
    for obj in labels_injector():
        assert rest.apply(obj)[0] in (200, 201)
        if obj["kind"] == CONFIGURATION.kind:
            here = webhook({"url": f"https://{HOST}:{port}/"})
            here["webhooks"][0]["timeoutSeconds"] = 30
            assert rest.apply(here)[0] == 200
    yield port
    assert rest.delete(webhook({})) == 200
    rest.close()


@pytest.fixture
async def site(cluster: Cluster, kubeconfig: Path, manifest: int, tmp_path: Path) -> AsyncIterator[Site]:
    async with account(kubeconfig, user(CERTIFIER)) as client:
        await certify(client, HOST)
    held = await cluster.client.get(SECRET, INJECTOR, INJECTOR)
    for name, text in secret_data(held).items():
        (tmp_path / name).write_text(text)
    rest = Rest(kubeconfig, cluster.namespace)
    yield Site(cluster, rest, kubeconfig, tmp_path, manifest)
    rest.close()


async def test_a_pod_has_its_labels_when_it_is_bound(site: Site) -> None:
    node = await site.node("a", zone="z1", bb="bb7")
    async with site.injector():
        await site.asked(node)
        for number in range(5):
            name = f"bound-{number}"
            await site.pod(name, node)
            # At once: the API server has bound it only after the webhook labeled it.
            assert await site.labels(name) == {BB: "bb7", ZONE: "z1", NAME: node}


async def test_a_dry_run_leaves_everything_as_it_is(site: Site) -> None:
    node = await site.node("a", zone="z1")
    async with site.injector():
        await site.asked(node)
        await site.pod("tried", node, dry=True)
        # What came later is done, and so is what the trial might have begun.
        await site.pod("later", node)
        await site.relabel(node, {ZONE: "z2"})
        await site.labeled("later", zone="z2")
        assert await site.labels("tried") == {}


async def test_pods_are_bound_without_the_webhook_and_labeled_by_who_comes_later(site: Site) -> None:
    node = await site.node("a", zone="z1")
    await site.pod("alone", node)
    assert await site.labels("alone") == {}
    async with site.injector():
        await site.labeled("alone", zone="z1")


async def test_missing_labels_of_a_pod_are_restored(site: Site) -> None:
    node = await site.node("a", zone="z1", bb="bb7")
    async with site.injector():
        await site.asked(node)
        await site.pod("pod", node)
        spoilt = {"metadata": {"labels": {ZONE: "wrong", BB: None, "app": "kept"}}}
        await site.cluster.client.patch(POD, site.cluster.namespace, "pod", spoilt, manager="somebody")
        await site.labeled("pod", zone="z1", bb="bb7")
        live = await site.cluster.get(POD, "pod")
        assert live
        assert live["metadata"]["labels"]["app"] == "kept"


async def test_pods_follow_their_node(site: Site) -> None:
    node, other = await site.node("a", zone="z1", bb="bb7"), await site.node("b", zone="z1", bb="bb7")
    async with site.injector():
        await site.asked(node)
        await site.pod("here", node)
        await site.pod("there", other)
        await site.relabel(node, {ZONE: "z2", BB: None, NAME: "metal-7"})
        await site.labeled("here", zone="z2")
        assert (await site.labels("here"))[NAME] == "metal-7"
        assert await site.labels("there") == {ZONE: "z1", BB: "bb7", NAME: other}


async def test_a_label_of_the_users_own_stays_where_the_node_has_none(site: Site) -> None:
    node = await site.node("a", zone="z1")
    async with site.injector():
        await site.asked(node)
        await site.pod("pod")
        mine = {"metadata": {"labels": {BB: "mine", ZONE: "mine"}}}
        await site.cluster.client.patch(POD, site.cluster.namespace, "pod", mine, manager="somebody")
        live = await site.cluster.get(POD, "pod")
        assert live
        assert await asyncio.to_thread(site.rest.bind, "pod", live["metadata"]["uid"], node) == 201
        assert await site.labels("pod") == {BB: "mine", ZONE: "z1", NAME: node}
        await site.relabel(node, {ZONE: None})
        await site.labeled("pod", bb="mine")


@pytest.mark.security
async def test_a_binding_to_a_wrong_node_is_refused(site: Site) -> None:
    node, other = await site.node("a", zone="z1"), await site.node("b", zone="z2")
    async with site.injector() as injector:
        await site.asked(node)
        uid = await site.pod("pod", node)

        async def refused() -> bool:
            await injector.bind(Binding((site.cluster.namespace, "pod"), uid, other))
            return (await site.labels("pod"))[ZONE] == "z1"

        # Until the watch has told where it is, nobody can know better.
        await eventually(refused)
        # One of that name that was there before.
        with pytest.raises(SpecError, match="uid"):
            await injector.bind(Binding((site.cluster.namespace, "pod"), "another", other))


async def test_two_injectors_agree(site: Site) -> None:
    node = await site.node("a", zone="z1")
    await site.pod("pod", node)
    async with site.injector(), account(site.kubeconfig, user(INJECTOR)) as client, running(Injector(client).run()):
        await site.relabel(node, {ZONE: "z2"})
        await site.labeled("pod", zone="z2")
        version = await _version(site, "pod")
        # Both have seen what came later, each by a watch that tells of changes in their order.
        await site.relabel(node, {BB: "bb1"})
        await site.labeled("pod", zone="z2", bb="bb1")
        await site.relabel(node, {BB: "bb2"})
        await site.labeled("pod", zone="z2", bb="bb2")
        version = await _version(site, "pod")
        # Both have work of other pods meanwhile, and turns to undo what the other one did.
        other = await site.node("b", zone="z1")
        await site.pod("other", other)
        for zone in ("z2", "z3", "z4"):
            await site.relabel(other, {ZONE: zone})
            await site.labeled("other", zone=zone)
        assert await _version(site, "pod") == version, "they change it in turn"


async def _version(site: Site, pod: str) -> str:
    return ((await site.cluster.get(POD, pod)) or {})["metadata"]["resourceVersion"]


async def test_the_program_as_a_whole(site: Site) -> None:
    async with account(site.kubeconfig, user(INJECTOR)) as client:
        program = inject(client, certificate=site.folder, port=site.port, health_port=0)
        async with running(program):
            await site.asked(await site.node("a", zone="z1"))


async def test_a_certificate_is_renewed_before_the_old_one_is_no_good(site: Site) -> None:
    client = site.cluster.client
    before = secret_data(await client.get(SECRET, INJECTOR, INJECTOR))
    async with account(site.kubeconfig, user(CERTIFIER)) as certifier:
        await certify(certifier, HOST)
        assert secret_data(await client.get(SECRET, INJECTOR, INJECTOR)) == before
        await certify(certifier, HOST, lambda: datetime.now(UTC) + timedelta(days=61))
    after = secret_data(await client.get(SECRET, INJECTOR, INJECTOR))
    assert after["tls.crt"] != before["tls.crt"]
    assert after["ca.crt"] == (await _told(client))
    assert before["ca.crt"] in after["ca.crt"]
    # Until its pods have the next one, the old one is good: that is the one in this folder.
    node = await site.node("a", zone="z1")
    async with site.injector():
        await site.asked(node)


async def test_an_interrupted_renewal_is_taken_up(site: Site) -> None:
    client = site.cluster.client
    changes = {"webhooks": [{"name": "labels-injector.openstack.k8s.io", "clientConfig": {"caBundle": ""}}]}
    await client.patch(CONFIGURATION, None, INJECTOR, changes, manager="somebody")
    async with account(site.kubeconfig, user(CERTIFIER)) as certifier:
        await certify(certifier, HOST)
    assert await _told(client) == secret_data(await client.get(SECRET, INJECTOR, INJECTOR))["ca.crt"]


async def _told(client: Client) -> str:
    live = await client.get(CONFIGURATION, None, INJECTOR)
    assert live
    return base64.b64decode(live["webhooks"][0]["clientConfig"]["caBundle"]).decode()


SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")


@pytest.mark.security
@pytest.mark.parametrize("kind", [SECRET, CONFIGURATION, LEASE, SERVICE_ACCOUNT], ids=lambda kind: kind.plural)
@pytest.mark.parametrize("name", [INJECTOR, CERTIFIER])
async def test_an_injector_without_the_right_is_refused(site: Site, kind: Kind, name: str) -> None:
    async with account(site.kubeconfig, user(name)) as client:
        with pytest.raises(Forbidden):
            await client.page(kind, None, {})


@pytest.mark.security
async def test_the_injector_sees_no_secret_and_the_certifier_no_pod(site: Site) -> None:
    async with account(site.kubeconfig, user(INJECTOR)) as client:
        with pytest.raises(Forbidden):
            await client.get(SECRET, INJECTOR, INJECTOR)
        assert json.loads(await client.page(POD, None, {}))["kind"] == "PodList"
    async with account(site.kubeconfig, user(CERTIFIER)) as client:
        with pytest.raises(Forbidden):
            await client.page(POD, None, {})
        with pytest.raises(Forbidden):
            await client.get(SECRET, INJECTOR, "another")


@pytest.mark.security
def test_the_injector_may_read_nodes_and_patch_pods_and_nothing_else() -> None:
    found: list[Any] = [
        rule
        for obj in labels_injector()
        if obj["kind"] in ("ClusterRole", "Role") and obj["metadata"]["name"] == INJECTOR
        for rule in obj["rules"]
    ]
    assert found == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    ]
