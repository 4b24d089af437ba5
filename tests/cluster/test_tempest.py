"""Runs of tests as Kubernetes has them: made by a CronJob or ordered, told of by their pods, remembered after these."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.kube import conditions
from openstack_operator.runtime.kubernetes.kinds import CHILDREN, JOB, POD, SECRET, Kind
from openstack_operator.services.tempest.model import TEMPEST
from openstack_operator.services.tempest.results import RUN_NOW
from openstack_operator.yaml_text import load_text

from .harness import Cluster, eventually
from .rest import Rest
from .test_controlplane import operator

CRON_JOB = next(kind for kind in CHILDREN if kind.kind == "CronJob")
ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")

# Every field there is in the API of c5c3, and others beside them.
WHOLE = r"""
apiVersion: tempest.openstack.c5c3.io/v1alpha1
kind: Tempest
metadata:
  name: whole
spec:
  schedule: "15 3 * * SAT"
  image: {repository: registry.example.org/cloud/tempest, tag: "43.0.0"}
  keystone:
    authUrl: https://identity.example.org:5000/v3
    appCredentialRef: {name: credential}
  tests:
    services: [identity, image, network, volume, compute]
    concurrency: 3
    includeRegex: "tempest\\.api\\."
    excludeRegex: "\\btest_.*slow"
  dependsOn:
    - {kind: Keystone, name: keystone, condition: Ready}
    - {kind: Cinder, name: cinder, condition: Ready}
  config: {validation: {image_ssh_user: debian}}
  suspend: false
"""


@pytest.fixture
def rest(kubeconfig: Path, cluster: Cluster) -> Iterator[Rest]:
    connection = Rest(kubeconfig, cluster.namespace)
    yield connection
    connection.close()


def test_every_field_is_taken(rest: Rest) -> None:
    (whole,) = load_text(WHOLE)
    status, answer = rest.create(whole)
    assert status == 201, answer


@pytest.mark.parametrize(
    ("keystone", "said"),
    [
        ({"authUrl": "https://identity.example.org"}, "authUrl and appCredentialRef go together"),
        (
            {"keystoneRef": {"name": "a"}, "authUrl": "https://b", "appCredentialRef": {"name": "c"}},
            "keystoneRef excludes authUrl",
        ),
    ],
)
def test_half_a_cloud_is_refused(rest: Rest, keystone: dict[str, Any], said: str) -> None:
    (whole,) = load_text(WHOLE)
    status, answer = rest.create({**whole, "spec": {"keystone": keystone}})
    assert status == 422
    assert said in answer["message"]


async def started(cluster: Cluster, **spec: Any) -> None:
    """A Tempest of a cloud of others, which needs nothing else to be there."""
    data = {"application_credential_id": "id", "application_credential_secret": "secret"}
    meta = {**cluster.meta("credential"), "annotations": {ALLOWED_HOSTS: "identity.example.org"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data}
    await cluster.client.create(SECRET, secret)
    keystone = {"authUrl": "https://identity.example.org", "appCredentialRef": {"name": "credential"}}
    await cluster.create(TEMPEST, "tempest", keystone=keystone, **spec)
    await cluster.ready(TEMPEST, "tempest")


async def ran(cluster: Cluster, name: str, template: dict[str, Any], **said: Any) -> None:
    """A pod of that template, and its last word."""
    if await cluster.get(ACCOUNT, "default") is None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
        await cluster.client.create(ACCOUNT, account)
    meta = {**cluster.meta(name), "labels": template["metadata"]["labels"]}
    spec = {**template["spec"], "activeDeadlineSeconds": None}
    await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    terminated = {
        "exitCode": 0,
        "reason": "Completed",
        "message": json.dumps({"passed": 0, "failed": 0, "skipped": 0, "error": "", "failures": [], **said}),
        "startedAt": "2026-01-16T02:00:00Z",
        "finishedAt": "2026-01-16T02:45:12Z",
    }
    main = {"name": "main", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
    status = {"phase": "Succeeded", "containerStatuses": [{**main, "state": {"terminated": terminated}}]}
    await cluster.client.merge_status(POD, cluster.namespace, name, status)


async def results(cluster: Cluster) -> dict[str, Any]:
    return ((await cluster.get(TEMPEST, "tempest") or {}).get("status") or {}).get("results") or {}


async def test_a_run_on_schedule_is_told_of_and_remembered(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await started(cluster, schedule="0 2 * * *", suspend=True)
        cron = await cluster.get(CRON_JOB, "tempest-run") or {}
        assert cron["spec"]["suspend"] is True
        template = cron["spec"]["jobTemplate"]["spec"]["template"]
        await ran(cluster, "tempest-run-1-x", template, passed=3, failed=1, failures=["tempest.api.test_it"])

        async def told() -> bool:
            return (await results(cluster)).get("totalTests") == 4

        await eventually(told)
        live = await cluster.get(TEMPEST, "tempest") or {}
        assert (live["status"]["lastRun"], live["status"]["lastDuration"]) == ("2026-01-16T02:00:00Z", "45m12s")
        passed = conditions(live)["TestsPassed"]
        assert (passed["status"], passed["reason"]) == ("False", "TestsFailed")
        assert "tempest.api.test_it" in passed["message"]
        assert conditions(live)["Ready"]["status"] == "True"
        await cluster.delete(POD, "tempest-run-1-x")
        await cluster.change(TEMPEST, "tempest", "/spec/suspend", False)

        async def resumed() -> bool:
            return (await cluster.get(CRON_JOB, "tempest-run") or {})["spec"]["suspend"] is False

        await eventually(resumed)
        assert (await results(cluster))["totalTests"] == 4


async def test_an_order_is_one_job_and_nobody_waits_for_it(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root, skip=("Job",)):
        await started(cluster)
        assert await cluster.get(CRON_JOB, "tempest-run") is None

        async def jobs() -> list[dict[str, Any]]:
            listed = json.loads(await cluster.client.page(JOB, cluster.namespace, {}))["items"]
            return [job for job in listed if "deletionTimestamp" not in job["metadata"]]

        async def order(word: str) -> None:
            await cluster.change(TEMPEST, "tempest", "/metadata/annotations", {RUN_NOW: word})

        await order("first")
        (first,) = await eventually(jobs)
        await cluster.ready(TEMPEST, "tempest")
        await ran(cluster, "tempest-run-now-x", first["spec"]["template"], passed=5)

        async def passed() -> bool:
            return (await cluster.condition(TEMPEST, "tempest", "TestsPassed"))["status"] == "True"

        await eventually(passed)
        await cluster.change(TEMPEST, "tempest", "/spec/tests", {"timeout": "1h"})

        async def gone() -> bool:
            return await jobs() == []

        # Its pods would be others now; it is not obeyed again.
        await eventually(gone)
        await order("second")

        async def another() -> bool:
            return [job["metadata"]["name"] for job in await jobs()] not in ([], [first["metadata"]["name"]])

        await eventually(another)
