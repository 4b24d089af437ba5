"""Rights to the kinds of others are roles of their own: what is not bound is said, and keeps nothing else waiting."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from openstack_operator.admission.policy_names import NAMESPACE
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.kinds import SECRET
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.secretaggregate.model import SECRET_AGGREGATE
from openstack_operator.yaml_text import load

from .external_operators import KINDS
from .harness import TIMEOUT, Cluster, eventually, running
from .rest import Rest
from .test_permissions import account, agrees

MEMCACHED = next(resource for resource in RESOURCES if resource.handle == "Memcached")
THEIRS = KINDS["Memcached.memcached.c5c3.io"]


def bind(kubeconfig: Path, cluster: Cluster, user: str, *manifests: str) -> None:
    """Grants an account what manifests of an operator of one namespace grant to the operator's own."""
    for manifest in manifests:
        in_namespace = manifest != "rbac.yaml"
        rest = Rest(kubeconfig, cluster.namespace if in_namespace else NAMESPACE)
        for obj in load(Path(__file__).parent.parent.parent / "deploy" / "namespaced" / manifest):
            if "subjects" in obj:
                obj["metadata"]["name"] = f"{user}-{obj['metadata']['name']}"
                obj["subjects"] = [{"kind": "ServiceAccount", "name": user, "namespace": NAMESPACE}]
            if obj["kind"] != "ServiceAccount" and (in_namespace or obj["kind"].startswith("Cluster")):
                assert rest.apply(obj)[0] in (200, 201)
        rest.close()


@pytest.mark.security
async def test_the_operator_runs_without_rights_to_the_kinds_of_others(
    kubeconfig: Path, cluster: Cluster, root: Path
) -> None:
    """They are installed here, all of them. The first list of each is refused."""
    user = f"least-{cluster.namespace}"
    bind(kubeconfig, cluster, user, "rbac.yaml", "rbac-of-namespace.yaml")
    remotes = [replace(actuator, ensure=agrees, remove=agrees) for actuator in ACTUATORS]
    patience = Patience(initial=0.2, later=0.2, retrying=0.5, missing=0.2)
    source = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta("source"), "stringData": {"key": "value"}}
    await cluster.client.create(SECRET, source)
    async with account(kubeconfig, f"system:serviceaccount:{NAMESPACE}:{user}") as client, cluster.simulator():
        releases = ReleaseFiles(root / "releases")
        manager = Manager(client, SERVICES, remotes, releases, [cluster.namespace], patience=patience)
        async with running(manager.run()):
            await asyncio.wait_for(manager.world.wait_until_synced(), TIMEOUT)
            await cluster.create(MEMCACHED, "ours", provider="builtin", tls=None)
            await cluster.ready(MEMCACHED, "ours")
            await cluster.create(MEMCACHED, "theirs", provider="memcached-operator", tls=None)
            condition = await cluster.ready(MEMCACHED, "theirs", "Retrying")
            assert "memcacheds.memcached.c5c3.io" in condition["message"]
            assert "openstack-operator-memcached-operator" in condition["message"]
            assert await cluster.get(THEIRS, "theirs") is None
            # A kind of our own that is optional, too.
            await cluster.create(SECRET_AGGREGATE, "target", sources=[{"secretRef": {"name": "source"}}])
            assert SECRET_AGGREGATE.handle not in manager.world.installed_kinds
            # The roles come, and the operator is not started anew.
            roles = "memcached-operator", "c5c3"
            bind(kubeconfig, cluster, user, *(f"optional-roles/{name}.yaml" for name in roles))
            await eventually(lambda: cluster.get(THEIRS, "theirs"))
            await cluster.ready(SECRET_AGGREGATE, "target")
