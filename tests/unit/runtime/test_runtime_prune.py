"""What a pass deletes because its plan no longer has it, and what waits until no pod needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openstack_operator.kube.pod_inputs import pod_inputs, pod_template
from openstack_operator.plan import Object, Plan, Step
from openstack_operator.runtime.cache.entries import Cached, Request, entry
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET, Catalog, Kind
from openstack_operator.runtime.reconcile.prune import prune

REQUEST = Request("Glance", "x", "glance")
CATALOG = Catalog([])
CONFIG_MAP, SERVICE = (CATALOG.of({"apiVersion": "v1", "kind": kind}) for kind in ("ConfigMap", "Service"))
CRON_JOB = CATALOG.of({"apiVersion": "batch/v1", "kind": "CronJob"})
DONE = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
STUCK = {**DONE, "replicas": 2, "updatedReplicas": 1, "unavailableReplicas": 1}


def made(kind: Kind, name: str, **content: Any) -> Cached:
    owner = {"apiVersion": "v1", "kind": "Glance", "name": "glance", "uid": "g", "controller": True}
    meta = {"name": name, "namespace": "x", "uid": name, "resourceVersion": "1", "generation": 1}
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**meta, "ownerReferences": [owner]}}
    return entry({**obj, **content}, kind)


def deployment(status: Mapping[str, Any], *secrets: str) -> Cached:
    volumes = [{"name": name, "secret": {"secretName": name}} for name in secrets]
    template = {"spec": {"containers": [{"name": "api"}], "volumes": volumes}}
    return made(DEPLOYMENT, "glance-api", spec={"replicas": 1, "template": template}, status=dict(status))


class Deleting:
    """A client that deletes at once."""

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, policy: str) -> None:
        """Delete it."""


async def pruned(
    workload: Cached,
    *others: tuple[Kind, Cached],
    planned: Sequence[Object] = (),
    elsewhere: Sequence[tuple[Kind, Cached]] = (),
) -> list[str]:
    """Return what a pass deletes whose plan has that workload, and some objects that do not exist yet."""
    children = [(DEPLOYMENT, workload), *others]
    stores = {kind: Store(kind, lambda _: None) for kind in (DEPLOYMENT, CRON_JOB, SECRET, CONFIG_MAP, SERVICE)}
    for kind, child in (*children, *elsewhere):
        stores[kind].put(child)
    world = SimpleNamespace(stores=stores, client=Deleting(), forbidden_kinds=lambda _: (), catalog=CATALOG)  # pyright: ignore[reportUnknownLambdaType]
    plan = Plan(Step(name="API", objects=(workload.decode(), *planned)))
    changes: list[str] = []
    recheck = await prune(cast("World", world), REQUEST, plan, children, changes)
    assert (recheck is not None) == bool(elsewhere)
    return changes


@pytest.mark.parametrize(
    ("workload", "deleted"),
    [
        (deployment(DONE, "config"), ["Secret/old deleted", "Service/old deleted"]),
        # Its turn has not come: pods mount it still.
        (deployment(DONE, "config", "old"), ["Service/old deleted"]),
        # Older pods may mount it.
        (deployment(STUCK, "config"), ["Service/old deleted"]),
    ],
    ids=["rolled out", "not applied yet", "being rolled out"],
)
async def test_a_secret_stays_until_no_pod_needs_it(workload: Cached, deleted: list[str]) -> None:
    assert sorted(await pruned(workload, (SECRET, made(SECRET, "old")), (SERVICE, made(SERVICE, "old")))) == deleted


async def test_a_secret_stays_until_those_that_may_replace_it_exist() -> None:
    new = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new", "namespace": "x"}}
    workload, old = deployment(DONE, "config"), [(kind, made(kind, "old")) for kind in (SECRET, CONFIG_MAP)]
    assert await pruned(workload, *old, planned=[new]) == ["ConfigMap/old deleted"]
    assert await pruned(workload, *old, (SECRET, made(SECRET, "new")), planned=[new]) == [
        "Secret/old deleted",
        "ConfigMap/old deleted",
    ]


@pytest.mark.parametrize("kind", [DEPLOYMENT, CRON_JOB], ids=lambda kind: kind.kind)
async def test_a_secret_stays_while_another_resource_mounts_it(kind: Kind) -> None:
    template = {"spec": {"containers": [], "volumes": [{"secret": {"secretName": "old"}}]}}
    spec = {"template": template} if kind is DEPLOYMENT else {"jobTemplate": {"spec": {"template": template}}}
    neutron = made(kind, "neutron", spec=spec)
    old = [(kind, made(kind, "old")) for kind in (SECRET, CONFIG_MAP)]
    assert await pruned(deployment(DONE), *old, elsewhere=[(kind, neutron)]) == ["ConfigMap/old deleted"]


def test_a_job_that_has_ended_needs_nothing() -> None:
    job: Object = {"kind": "Job", "spec": {"template": {"spec": {"serviceAccountName": "account"}}}}
    assert pod_template(job) == job["spec"]["template"]
    conditions = [{"type": "Complete", "status": "True"}]
    assert pod_template({**job, "status": {"conditions": conditions}}) is None


def test_inputs_of_a_pod_are_found_wherever_it_names_them() -> None:
    spec: Object = {
        "serviceAccountName": "account",
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [
            {"secret": {"secretName": "mounted"}},
            {"configMap": {"name": "files"}},
            {"persistentVolumeClaim": {"claimName": "data"}},
            {"projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "trust"}}]}},
            {"emptyDir": {}},
        ],
        "initContainers": [{"envFrom": [{"secretRef": {"name": "environment"}}]}],
        "containers": [
            {
                "env": [
                    {"name": "A", "value": "a"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "password", "key": "b"}}},
                    {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "d"}}},
                ]
            }
        ],
    }
    assert pod_inputs({"spec": spec}) == {
        ("ServiceAccount", "account"),
        ("PersistentVolumeClaim", "data"),
        *(("Secret", name) for name in ("pull", "mounted", "projected", "environment", "password")),
        *(("ConfigMap", name) for name in ("files", "trust", "settings")),
    }
