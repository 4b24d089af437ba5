"""A catalog that K-ORC keeps, against its real definitions; K-ORC itself is played, and needs a Keystone to let go."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.kube import RECREATED, conditions, secret_data
from openstack_operator.registry import EXTERNAL_KINDS
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET
from openstack_operator.runtime.reconcile import finalizers
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .external_operators import external_operators
from .harness import Cluster, eventually
from .test_controlplane import SMALL as PLACEMENT_ALONE
from .test_controlplane import operator
from .test_providers import RESOURCE, made, ours, without

KORC = {kind.kind: kind for kind in EXTERNAL_KINDS if kind.group == "openstack.k-orc.cloud"}
NAMES = {"Domain": {"default"}, "Project": {"admin", "service"}, "Role": set[str]()}
ASKED: dict[str, Any] = {"korc": {"enabled": True, "bootstrapResources": ["domains", "projects"]}}
PLAIN = {"global": {"tls": {"enabled": False}}}
OFF = {"enabled": False}
SMALL = {
    **PLAIN,
    "services": dict.fromkeys(("nova", "neutron", "glance"), OFF),
    "infrastructure": dict.fromkeys(("ovn", "rabbitmq"), OFF),
}
"""A cloud of a quarter of the objects, with Placement in its catalog."""


async def theirs(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Objects of K-ORC by kind and name."""
    return {kind: await made(cluster, each.handle) for kind, each in KORC.items()}


async def _is_any(names: set[str]) -> bool:
    return bool(names)


async def none(cluster: Cluster) -> bool:
    for each in KORC.values():
        if await made(cluster, each.handle):
            return False
    return True


async def check_catalog(cluster: Cluster) -> None:
    """K-ORC keeps the catalog of a whole cloud with Cinder, that of test_doors.py."""
    services = ("glance", "placement", "neutron", "nova", "cinder")
    live = await cluster.get(C5C3_CONTROL_PLANE, "cloud") or {}
    assert conditions(live)["KORCReady"]["status"] == "True"
    found = await theirs(cluster)
    assert {kind: set(found[kind]) for kind in NAMES} == NAMES
    assert set(found["User"]) == {f"{name}-user" for name in (*services, "nova-compute")}
    assert set(found["Service"]) == {f"{name}-catalog" for name in (*services, "keystone")} | {
        "cinder-catalog-official"
    }
    assert all(each["spec"]["provider"] == "k-orc" for each in await ours(cluster, "KeystoneUser"))
    secret = secret_data(await cluster.get(SECRET, "k-orc-clouds-yaml"))
    assert secret == secret_data(await cluster.get(SECRET, "keystone-app-credential"))
    assert "application_credential_secret" in secret["clouds.yaml"]
    assert secret["cacert"].startswith("-----BEGIN CERTIFICATE-----")
    user = found["User"]["glance-user"]["spec"]["resource"]
    password = secret_data(await cluster.get(SECRET, user["passwordRef"]))["password"]
    assert password == secret_data(await cluster.get(SECRET, "glance-credentials"))["identity"]


async def test_the_other_door_asks_for_it_as_plainly(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root), external_operators(cluster):
        await cluster.create(CONTROL_PLANE, "cloud", korc={"enabled": True}, tls=OFF, **PLACEMENT_ALONE)
        await cluster.ready(CONTROL_PLANE, "cloud")
        assert "placement-user" in (await theirs(cluster))["User"]
        keystone = await cluster.get(RESOURCE["Keystone"], "keystone") or {}
        assert keystone["spec"]["catalog"]["provider"] == "k-orc"
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/korc/enabled", value=False)
        condition = await cluster.ready(CONTROL_PLANE, "cloud", "InvalidSpec")
        assert (
            "spec.keystone.catalog.provider: k-orc manages the users and services of this Keystone"
            in condition["message"]
        )
        assert "korc.enabled true" in condition["message"]


async def test_without_k_orc_the_operator_keeps_them_and_says_so(cluster: Cluster, root: Path) -> None:
    async with without(cluster, "domains.openstack.k-orc.cloud"), operator(cluster, root), external_operators(cluster):
        await cluster.create(C5C3_CONTROL_PLANE, "cloud", **ASKED, **SMALL)
        await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
        live = await cluster.get(C5C3_CONTROL_PLANE, "cloud") or {}
        told = conditions(live)["KORCReady"]["message"]
        assert "this cluster serves no domains of openstack.k-orc.cloud/v1alpha1" in told
        for kind in KORC.keys() - {"Domain"}:
            assert not await made(cluster, KORC[kind].handle)


async def test_missing_k_orc_is_reported_only_to_clouds_that_use_it(cluster: Cluster, root: Path) -> None:
    async with without(cluster, "domains.openstack.k-orc.cloud"), operator(cluster, root), external_operators(cluster):
        await cluster.create(CONTROL_PLANE, "cloud", korc={"enabled": True}, tls=OFF, **PLACEMENT_ALONE)
        condition = await cluster.ready(CONTROL_PLANE, "cloud", "InvalidSpec")
        what = (
            "spec.keystone.catalog.provider: this cluster serves no domains.openstack.k-orc.cloud of version v1alpha1"
        )
        assert f"{what}; install k-orc, or choose builtin" in condition["message"]


async def test_the_login_of_k_orc_is_replaced_when_ordered(cluster: Cluster, root: Path) -> None:
    rotation = RESOURCE["CredentialRotation.c5c3.io"]
    async with operator(cluster, root), external_operators(cluster):
        await cluster.create(C5C3_CONTROL_PLANE, "cloud", **ASKED, **SMALL)
        await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
        before = secret_data(await cluster.get(SECRET, "k-orc-clouds-yaml"))["clouds.yaml"]
        await cluster.create(rotation, "login", target="adminApplicationCredential", reMint=True)

        async def done() -> bool:
            status = (await cluster.get(rotation, "login") or {}).get("status") or {}
            return status.get("phase") == "Idle" and "lastRotation" in status

        await eventually(done)
        after = secret_data(await cluster.get(SECRET, "k-orc-clouds-yaml"))["clouds.yaml"]
        assert "openstack-operator_B" in after
        assert "openstack-operator_B" not in before
        names = [each["metadata"]["name"] for each in await ours(cluster, "KeystoneApplicationCredential")]
        assert names == ["keystone-app-credential--b"]


async def test_k_orc_login_goes_through_a_secret_store_and_is_rotated_there(cluster: Cluster, root: Path) -> None:
    rotation = RESOURCE["CredentialRotation.c5c3.io"]
    store = {"korc": {**ASKED["korc"], "secretStoreRef": {"name": "openbao"}}}
    async with operator(cluster, root), external_operators(cluster) as stuck:
        await cluster.create(C5C3_CONTROL_PLANE, "cloud", **store, **SMALL)
        await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
        (owner,) = (await cluster.get(SECRET, "k-orc-clouds-yaml") or {})["metadata"]["ownerReferences"]
        assert owner["kind"] == "ExternalSecret"
        await cluster.create(rotation, "login", target="adminApplicationCredential", reMint=True)

        async def done() -> bool:
            status = (await cluster.get(rotation, "login") or {}).get("status") or {}
            return status.get("phase") == "Idle" and "lastRotation" in status

        await eventually(done)
        after = secret_data(await cluster.get(SECRET, "k-orc-clouds-yaml"))["clouds.yaml"]
        assert "openstack-operator_B" in after
        assert len(await made(cluster, "PushSecret.external-secrets.io")) == 1
        await cluster.delete(C5C3_CONTROL_PLANE, "cloud", "Background")
        await eventually(lambda: none(cluster))
        assert not stuck


async def test_a_deletion_does_not_wait_for_a_keystone_that_is_gone(
    cluster: Cluster, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector takes all of it at once, and K-ORC has nobody to ask."""
    async with external_operators(cluster) as stuck:
        async with operator(cluster, root):
            await cluster.create(C5C3_CONTROL_PLANE, "cloud", **ASKED, **SMALL)
            await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
        # Without an operator, which would make Keystone again before it hears of the end of the cloud.
        keystone = next(each for each in RESOURCE.values() if each.handle == "Keystone.keystone.openstack.c5c3.io")
        await cluster.delete(keystone, "keystone", "Foreground")
        await cluster.delete(C5C3_CONTROL_PLANE, "cloud", "Background")

        async def alone() -> bool:
            live = await cluster.get(DEPLOYMENT, "keystone-api")
            if live and "deletionTimestamp" in live["metadata"]:
                # It waits for an operator; whoever knows that there is none lets it go.
                left = [name for name in live["metadata"].get("finalizers", []) if name != RECREATED]
                await cluster.change(DEPLOYMENT, "keystone-api", "/metadata/finalizers", left)
            return live is None

        await eventually(alone)
        async with operator(cluster, root):
            await eventually(lambda: _is_any(stuck))
            # The usual twenty seconds are for K-ORC to ask, and it has asked.
            monkeypatch.setattr(finalizers, "PATIENCE", timedelta(0))
            await eventually(lambda: none(cluster))
        assert await cluster.get(DEPLOYMENT, "keystone-api") is None


async def test_a_user_that_somebody_deletes_alone_stays_in_keystone(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root), external_operators(cluster):
        await cluster.create(C5C3_CONTROL_PLANE, "cloud", **ASKED, **SMALL)
        await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
        kind = KORC["User"]
        before = (await made(cluster, kind.handle))["placement-user"]
        assert before["spec"]["managedOptions"] == {"onDelete": "detach"}
        await cluster.delete(kind, "placement-user")

        async def back() -> bool:
            found = (await made(cluster, kind.handle)).get("placement-user")
            return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

        await eventually(back)
        await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
