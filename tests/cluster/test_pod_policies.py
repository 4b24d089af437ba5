"""Who may patch pods may change the labels it is for, of the pods it is for, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.generate.injector import labels_injector
from openstack_operator.injector.object_names import INJECTOR
from openstack_operator.plan import Object
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import NotAdmitted
from openstack_operator.runtime.kubernetes.kinds import POD
from openstack_operator.runtime.reconcile.apply import APPLIED
from openstack_operator.services.mariadb.galera import POD_ANNOTATIONS
from openstack_operator.services.mariadb.roles import ROLE
from openstack_operator.yaml_text import load

from .harness import Cluster, eventually
from .rest import Rest
from .test_permissions import ACCOUNT, account
from .test_pods import made

ZONE = "topology.kubernetes.io/zone"
ACCOUNTS = {"operator": ACCOUNT, "injector": f"system:serviceaccount:{INJECTOR}:{INJECTOR}"}
LABEL = {"operator": ROLE, "injector": ZONE}


def labels(**changes: str | None) -> Object:
    return {"metadata": {"labels": changes}}


class Writer:
    """A program with a right to patch pods, and a pod of a cluster's member."""

    def __init__(self, client: Client, cluster: Cluster, label: str) -> None:
        self._client, self._cluster, self._label = client, cluster, label

    async def patch(self, changes: Object, pod: str = "server-db-0") -> Object:
        return await self._client.patch(POD, self._cluster.namespace, pod, changes, manager="test")

    async def label(self, value: str) -> Mapping[str, str]:
        return (await self.patch(labels(**{self._label: value})))["metadata"]["labels"]

    async def refusal(self, changes: Object, pod: str = "server-db-0") -> str:
        with pytest.raises(NotAdmitted) as refused:
            await self.patch(changes, pod)
        return str(refused.value)


@pytest.fixture(params=ACCOUNTS)
async def writer(
    request: pytest.FixtureRequest, kubeconfig: Path, cluster: Cluster, root: Path
) -> AsyncGenerator[Writer]:
    name: str = request.param
    rest = Rest(kubeconfig, cluster.namespace)
    roles = [obj for obj in load(root / "deploy/rbac.yaml") if obj["metadata"].get("namespace") is None]
    policies = [obj for obj in load(root / "deploy/admission.yaml") if obj["metadata"]["name"].endswith("-pods")]
    cluster_wide = "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
    policies += [obj for obj in labels_injector() if obj["kind"] in cluster_wide]
    for obj in (*roles, *policies):
        assert rest.apply(obj)[0] in (200, 201)
    rest.close()
    await made(cluster, "server-db-0")
    async with account(kubeconfig, ACCOUNTS[name]) as client:
        found = Writer(client, cluster, LABEL[name])

        count = itertools.count()

        async def enforced() -> bool:
            # The API server takes a policy up some time after it was written. Each patch changes something: a policy
            # that came up after the first has nothing against a label that stays as it is.
            try:
                await found.patch(labels(other=str(next(count))))
            except NotAdmitted:
                return True
            return False

        await eventually(enforced)
        yield found


ATTACKS: dict[str, Any] = {
    "image": {"spec": {"containers": [{"name": "main", "image": "evil"}]}},
    "deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "another label": labels(app="bank"),
    "a label that somebody set": labels(**{kube.INSTANCE: None}),
    "annotation": {"metadata": {"annotations": {"kubernetes.io/egress-bandwidth": "1"}}},
    "an annotation that somebody set": {"metadata": {"annotations": {"mine": None}}},
    "finalizer": {"metadata": {"finalizers": ["example.org/stays"]}},
    "owner": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "0-0-0-0"}]}
    },
}


@pytest.mark.security
@pytest.mark.parametrize("attack", ATTACKS)
async def test_nothing_else_of_a_pod_may_be_changed(writer: Writer, attack: str) -> None:
    assert "may not change" in await writer.refusal(ATTACKS[attack])


async def test_the_label_it_is_for_may_be_changed(writer: Writer) -> None:
    for value in ("one", "two"):
        assert value in (await writer.label(value)).values()


@pytest.mark.security
async def test_the_operator_labels_members_alone(writer: Writer, cluster: Cluster, kubeconfig: Path) -> None:
    async with account(kubeconfig) as client:
        operator = Writer(client, cluster, ROLE)
        await made(cluster, "stranger", watched=False)
        assert "pods without the labels" in await operator.refusal(labels(**{ROLE: "primary"}), "stranger")
        live = await cluster.get(POD, "server-db-0")
        assert live
        annotations: dict[str, str] = dict.fromkeys((APPLIED, *POD_ANNOTATIONS), "1")
        member = kube.labeled_pod(live, {ROLE: "primary"}, annotations)
        assert (await client.apply(POD, member))["metadata"]["labels"][ROLE] == "primary"
        # As a plan that has no role for it anymore.
        assert ROLE not in (await client.apply(POD, kube.labeled_pod(live, {})))["metadata"]["labels"]


def compute(cluster: Cluster, **changes: Any) -> Object:
    """Return a pod of nova-compute as its DaemonSet makes it, or a similar one."""
    name = "nova-cell1-compute"
    own = {"app.kubernetes.io/managed-by": kube.MANAGED_BY, "app.kubernetes.io/name": name}
    own |= {kube.KIND: "nova", kube.INSTANCE: "nova", kube.COMPONENT: "cell1-compute"}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "0-0-0-0"}
    metadata = {
        **cluster.meta("compute"),
        "labels": own | changes.get("labels", {}),
        "ownerReferences": [{**owner, "controller": True, **changes.get("owner", {})}],
    }
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


OTHERS: dict[str, Any] = {
    "of another program": {"labels": {kube.COMPONENT: "api"}},
    "of another kind": {"labels": {kube.KIND: "neutron"}},
    "of another DaemonSet": {"owner": {"name": "fluentd"}},
    "of another DaemonSet, with a long name": {"labels": {kube.INSTANCE: "n" * 60}, "owner": {"name": "fluentd-node"}},
    "of another API's DaemonSet": {"owner": {"apiVersion": "example.org/v1"}},
    "of another operator": {"labels": {"app.kubernetes.io/managed-by": "helm"}},
    "of a Deployment": {"owner": {"kind": "ReplicaSet"}},
    "of a user, for a DaemonSet": {"owner": {"controller": False}},
}


@pytest.mark.security
async def test_the_operator_deletes_pods_of_nova_compute_alone(kubeconfig: Path, cluster: Cluster, root: Path) -> None:
    rest = Rest(kubeconfig, cluster.namespace)
    roles = [obj for obj in load(root / "deploy/rbac.yaml") if obj["metadata"].get("namespace") is None]
    policies = [obj for obj in load(root / "deploy/admission.yaml") if obj["metadata"]["name"].endswith("-endings")]
    assert len(policies) == 2
    for obj in (*roles, *policies):
        assert rest.apply(obj)[0] in (200, 201)
    rest.close()
    await made(cluster, "any")

    async with account(kubeconfig) as client:

        async def refusal(**changes: Any) -> str:
            live = await cluster.client.create(POD, compute(cluster, **changes))
            uid = live["metadata"]["uid"]
            try:
                await client.delete(POD, cluster.namespace, "compute", uid, "Background")
            except NotAdmitted as error:
                await cluster.client.delete(POD, cluster.namespace, "compute", uid, "Background")
                return str(error)
            return ""

        async def enforced() -> bool:
            return bool(await refusal(**OTHERS["of another program"]))

        await eventually(enforced)
        for changes in OTHERS.values():
            # A policy that another test applied again is not in force for a moment.
            said = await eventually(lambda changes=changes: refusal(**changes))
            assert "may not delete pods other than those of nova-compute" in said
        assert await refusal() == ""
        assert await cluster.get(POD, "compute") is None
