"""The engine against a real API server: what is planned comes to be, and stays."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from openstack_operator.kube import conditions, secret_data
from openstack_operator.plan import PAUSE, Object, Release, SpecError
from openstack_operator.runtime.kubernetes.errors import Conflict
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, JOB, POD, SECRET, STATEFUL_SET, VOLUME_CLAIM, Kind
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from tests.searches import seeds

from . import toy
from .harness import Cluster, at_rest, eventually, look_again

SERVICE = Kind("v1", "Service", "services")
EVENTS = Kind("events.k8s.io/v1", "Event", "events")


def generation(live: dict[str, Any] | None) -> int:
    assert live
    return live["metadata"]["generation"]


async def test_a_stack_becomes_ready_and_then_nothing_is_written(cluster: Cluster):
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        app = await cluster.get(toy.APP, "app")
        assert app
        assert app["status"]["endpoint"] == f"http://app-api.{cluster.namespace}.svc.cluster.local"
        assert {c["type"] for c in app["status"]["conditions"]} == {
            "DatabaseReady",
            "ConfigReady",
            "SchemaReady",
            "APIReady",
            "AgentsReady",
            "Ready",
            "Progressing",
        }
        assert cluster.remote.accounts
        await at_rest(manager)
    # A new process knows only what the cluster holds; values stored in another form cost it one write each, once.
    async with cluster.simulator(), cluster.operator() as manager:
        await at_rest(manager)


async def test_changes_by_hand_are_undone(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await cluster.change(DEPLOYMENT, "app-api", "/spec/replicas", 0)
        await cluster.delete(SERVICE, "app-api")
        await cluster.delete(SECRET, "app-config")

        async def mended() -> bool:
            run = await cluster.get(DEPLOYMENT, "app-api")
            rest = [await cluster.get(SERVICE, "app-api"), await cluster.get(SECRET, "app-config")]
            return bool(run and run["spec"]["replicas"] == 1 and all(rest))

        await eventually(mended)


async def test_a_change_is_no_outage_while_all_that_served_still_serves(cluster: Cluster):
    """Pods of the old template serve until those of the new one are ready; kstatus sees a change that is under way."""

    async def stack_is(**expected: str) -> bool:
        live = await cluster.get(toy.STACK, "stack") or {}
        by_type = conditions(live)
        is_current = by_type.get("Progressing", {}).get("observedGeneration") == live["metadata"]["generation"]
        return is_current and {type_: by_type.get(type_, {}).get("status", "") for type_ in expected} == expected

    complete = {"Ready": "True", "Progressing": "False", "Reconciling": "", "Stalled": ""}
    async with cluster.operator():
        await cluster.create(toy.STACK, "stack")
        installing = {"Ready": "False", "Progressing": "True", "Reconciling": "True"}
        assert await eventually(lambda: stack_is(**installing))
        async with cluster.simulator():
            assert await eventually(lambda: stack_is(**complete))
        # Nothing finishes what is changed now.
        await cluster.change(toy.STACK, "stack", "/spec/options", {"a": "b"})
        changing = {"Ready": "True", "Progressing": "True", "Reconciling": "True", "Stalled": ""}
        assert await eventually(lambda: stack_is(**changing))
        message = (await cluster.condition(toy.STACK, "stack", "Progressing"))["message"]
        assert message.startswith("2 of 3 parts done; ")
        await cluster.change(toy.STACK, "stack", "/spec/options", {"refused": "b"})
        assert await eventually(lambda: stack_is(Ready="True", Progressing="False", Stalled="True"))
        assert (await cluster.condition(toy.STACK, "stack"))["reason"] == "InvalidSpec"
        await cluster.change(toy.STACK, "stack", "/spec/options", {})
        async with cluster.simulator():
            assert await eventually(lambda: stack_is(**complete))
    warnings = [each for each in await _events(cluster, "Progressing") if each["type"] == "Warning"]
    assert warnings == [], "a change that goes well is none"


async def test_a_changed_option_rolls_only_what_reads_it(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        before = {
            kind: await cluster.get(kind, name) for kind, name in ((STATEFUL_SET, "server-db"), (DEPLOYMENT, "app-api"))
        }
        await cluster.change(toy.STACK, "stack", "/spec/options", {"debug": "true"})
        await cluster.ready(toy.STACK, "stack")

        async def rolled() -> bool:
            run = await cluster.get(DEPLOYMENT, "app-api")
            return generation(run) > generation(before[DEPLOYMENT])

        await eventually(rolled)
        server = await cluster.get(STATEFUL_SET, "server-db")
        assert generation(server) == generation(before[STATEFUL_SET])


async def test_pods_are_replaced_after_those_of_what_they_use(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
    newer = Release("2025.1", "debian", {"app": replace(toy.RELEASE["app"], image="example.org/app:2")})
    before = await cluster.get(DEPLOYMENT, "app-api")
    async with cluster.operator(release=newer):
        async with cluster.simulator("StatefulSet"):

            async def waits() -> bool:
                # What follows is why; it is left out once the server itself reports that it is not ready.
                condition = await cluster.condition(toy.APP, "app")
                return re.search("waits? for StatefulSet/server-db", condition.get("message", "")) is not None

            await eventually(waits)
            assert generation(await cluster.get(DEPLOYMENT, "app-api")) == generation(before)
        async with cluster.simulator():

            async def replaced() -> bool:
                return generation(await cluster.get(DEPLOYMENT, "app-api")) > generation(before)

            await eventually(replaced)
            await cluster.ready(toy.APP, "app")


@pytest.mark.parametrize("owner", ["a Secret", "a resource"])
async def test_a_workload_with_a_foreign_owner_blocks_nothing(cluster: Cluster, owner: str):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
    before = await cluster.get(DEPLOYMENT, "app-api")
    server, secret = await cluster.get(STATEFUL_SET, "server-db"), await cluster.get(SECRET, "server-password")
    assert before
    assert server
    assert secret
    of_secret = {"apiVersion": "v1", "kind": "Secret", "name": "server-password", "uid": secret["metadata"]["uid"]}
    reference = {**of_secret, "controller": True} if owner == "a Secret" else server["metadata"]["ownerReferences"][0]
    labels = server["metadata"]["labels"]
    if owner == "a resource":
        # With the labels of its owner the operator would delete it.
        labels = {name: labels[name] for name in ("app.kubernetes.io/managed-by",)}
    meta = {**cluster.meta("forged"), "labels": labels, "ownerReferences": [reference]}
    spec = {"selector": before["spec"]["selector"], "template": before["spec"]["template"]}
    # No controller reports of it, so that it counts as one that is being rolled out.
    async with cluster.simulator("Deployment"), cluster.operator():
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
        await cluster.client.create(DEPLOYMENT, body)
        await cluster.change(toy.STACK, "stack", "/spec/options", {"debug": "true"})

        async def changed() -> bool:
            return generation(await cluster.get(DEPLOYMENT, "app-api")) > generation(before)

        await eventually(changed)
        assert await cluster.get(DEPLOYMENT, "forged")


async def test_workloads_of_a_namespace_replace_their_pods_one_at_a_time(cluster: Cluster):
    names = "one", "two", "three"
    async with cluster.simulator(), cluster.operator():
        for name in names:
            await cluster.create(toy.SERVER, name)
            await cluster.ready(toy.SERVER, name)
    newer = Release("2025.1", "debian", {"app": replace(toy.RELEASE["app"], image="example.org/app:2")})

    async def generations() -> list[int]:
        return sorted([generation(await cluster.get(STATEFUL_SET, f"{name}-db")) for name in names])

    before = await generations()
    async with cluster.operator(release=newer):
        # Nobody rolls out, so that the first one holds up the others.
        async def two_wait() -> bool:
            messages = [(await cluster.condition(toy.SERVER, name)).get("message", "") for name in names]
            return sum("for StatefulSet/" in message for message in messages) == 2

        await eventually(two_wait)
        assert await generations() == [*before[:2], before[2] + 1]
        async with cluster.simulator():

            async def replaced() -> bool:
                return await generations() == [each + 1 for each in before]

            await eventually(replaced)
            for name in names:
                await cluster.ready(toy.SERVER, name)


async def test_a_rollout_is_told_of_when_it_begins_and_ends(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        for reason in ("RolloutStarted", "RolloutFinished"):
            assert await _events(cluster, reason) == [], "what is made anew replaces nothing"
        await cluster.change(toy.STACK, "stack", "/spec/options", {"debug": "true"})

        async def told() -> list[str]:
            events = [event for name in ("RolloutStarted", "RolloutFinished") for event in await _events(cluster, name)]
            return [event["note"] for event in events] if len(events) > 1 else []

        assert await eventually(told) == [
            "replacing the pods of Deployment/app-api",
            "replaced the pods of Deployment/app-api",
        ]


async def test_new_work_is_a_new_job_and_the_old_one_goes(cluster: Cluster):
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        [old] = [job.meta.name for job in manager.world.stores[JOB]]
        await cluster.change(toy.STACK, "stack", "/spec/options", {"schema": "2"})

        async def replaced() -> bool:
            names = {job.meta.name for job in manager.world.stores[JOB]}
            return len(names) == 1 and old not in names

        await eventually(replaced)
        await cluster.ready(toy.STACK, "stack")


async def test_pods_wait_for_what_they_need(cluster: Cluster):
    async with cluster.simulator("Job"), cluster.operator():
        await cluster.create(toy.STACK, "stack")

        async def waits_for_the_schema() -> bool:
            message = (await cluster.condition(toy.APP, "app")).get("message", "")
            return message.startswith("Schema: job app-db-sync-")

        await eventually(waits_for_the_schema)
        assert await cluster.get(DEPLOYMENT, "app-api") is None
        assert (await cluster.condition(toy.APP, "app", "Reconciling"))["status"] == "True"
        assert (await cluster.condition(toy.APP, "app", "APIReady"))["message"] == "waiting for Schema"


async def test_a_job_is_done_once_its_pod_ended_well(cluster: Cluster):
    """The controller of Jobs says so two seconds later, for which a cloud would wait four times."""
    async with cluster.simulator("Job"), cluster.operator() as manager:
        await cluster.create(toy.STACK, "stack")
        await eventually(lambda: _jobs(manager))
        [job] = manager.world.stores[JOB]
        name, uid = job.meta.name, job.meta.uid
        live = await cluster.get(JOB, name) or {}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
        ended = {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}
        await _pod(cluster, f"{name}-failed", live, owner, {**ended, "exitCode": 1})
        await at_rest(manager)
        assert await cluster.get(DEPLOYMENT, "app-api") is None
        await _pod(cluster, f"{name}-new", live, owner, ended)
        await eventually(lambda: cluster.get(DEPLOYMENT, "app-api"))
        assert not ((await cluster.get(JOB, name)) or {}).get("status", {}).get("succeeded")


async def test_a_failed_job_shows_its_log_and_is_tried_again(cluster: Cluster):
    async with cluster.simulator("Job"), cluster.operator() as manager:
        await cluster.create(toy.STACK, "stack")
        await eventually(lambda: _jobs(manager))
        [job] = manager.world.stores[JOB]
        await _failed_pod(cluster, job.meta.name, "Traceback\nOperationalError: (1045) Access denied")
        await _fails(cluster, job.meta.name, datetime.now(UTC))
        condition = await cluster.ready(toy.APP, "app", "JobFailed")
        assert "failed, next try at " in condition["message"]
        assert condition["message"].endswith("Access denied")
        assert (await cluster.condition(toy.APP, "app", "Stalled"))["status"] == "True"
        warned = await eventually(lambda: _events(cluster, "JobFailed"))
        assert warned[0]["regarding"]["name"] == "app"

        # The five minutes are over.
        await _fails(cluster, job.meta.name, datetime.now(UTC) - timedelta(minutes=5))

        async def again() -> bool:
            live = await cluster.get(JOB, job.meta.name)
            return live is not None and live["metadata"]["uid"] != job.meta.uid

        await eventually(again)

        async def told() -> bool:
            message = (await cluster.condition(toy.APP, "app"))["message"]
            return "failed and is tried again; its log ends: " in message and message.endswith("Access denied")

        await eventually(told)
        await at_rest(manager)
    async with cluster.simulator(), cluster.operator():
        await cluster.ready(toy.APP, "app")


async def _fails(cluster: Cluster, job: str, at: datetime) -> None:
    """A Job has used up its tries, as its controller tells it."""
    stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    found = [condition | {"lastTransitionTime": stamp} for condition in (failed | {"type": "FailureTarget"}, failed)]
    live = await cluster.get(JOB, job) or {}
    begun = live.get("status", {}).get("startTime") or f"{at - timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}"
    status = {"startTime": begun, "failed": 1, "conditions": found}
    await cluster.client.merge_status(JOB, cluster.namespace, job, status)


async def _jobs(manager: Manager) -> bool:
    return len(manager.world.stores[JOB]) > 0


async def _events(cluster: Cluster, reason: str) -> list[dict[str, Any]]:
    listed = msgspec.json.decode(await cluster.client.page(EVENTS, cluster.namespace, {}))
    return [event for event in listed["items"] if event["reason"] == reason]


async def _failed_pod(cluster: Cluster, job: str, message: str) -> None:
    ended = {"exitCode": 1, "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
    await _create_pod(cluster, {"name": f"{job}-x", "labels": {"job-name": job}}, "Failed", ended)


async def _pod(cluster: Cluster, name: str, job: Object, owner: Object, ended: Object) -> None:
    """A pod of a Job whose container ended, as the kubelet tells it before it ends the pod."""
    labels = {**job["spec"]["template"]["metadata"]["labels"], "job-name": job["metadata"]["name"]}
    await _create_pod(cluster, {"name": name, "labels": labels, "ownerReferences": [owner]}, "Running", ended)


async def _create_pod(cluster: Cluster, metadata: Object, phase: str, ended: Object) -> None:
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
    with suppress(Conflict):
        await cluster.client.create(Kind("v1", "ServiceAccount", "serviceaccounts"), account)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {**cluster.meta(metadata["name"]), **metadata}, "spec": spec}
    await cluster.client.create(POD, body)
    state = {"terminated": ended}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    status = {"phase": phase, "containerStatuses": [container]}
    await cluster.client.merge_status(POD, cluster.namespace, metadata["name"], status)


async def test_everything_missing_is_named_at_once_and_nothing_is_touched(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.APP, "app", password={"name": "mine"}, server={"name": "elsewhere"})
        condition = await cluster.ready(toy.APP, "app", "MissingReference")
        assert "spec.server: there is no Server 'elsewhere'" in condition["message"]
        assert "spec.password.name: there is no Secret 'mine'" in condition["message"]
        assert await cluster.get(SECRET, "app-config") is None


async def test_a_secret_that_comes_soon_is_not_a_failure(cluster: Cluster):
    async with cluster.simulator(), cluster.operator(patience=Patience(initial=0.1, later=0.1, missing=600)):
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.APP, "app", password={"name": "mine"})
        condition = await cluster.ready(toy.APP, "app", "Waiting")
        assert "there is no Secret 'mine'" in condition["message"]
        assert await cluster.condition(toy.APP, "app", "Stalled") == {}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta("mine")}
        await cluster.client.create(SECRET, {**secret, "stringData": {"password": "x"}})
        await cluster.ready(toy.APP, "app")
        assert await _events(cluster, "MissingReference") == []


async def test_a_missing_user_secret_is_waited_for_and_its_loss_stops_nothing(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.APP, "app", password={"name": "mine"})
        await cluster.ready(toy.APP, "app", "MissingReference")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta("mine"), "stringData": {"other": "x"}}
        await cluster.client.create(SECRET, secret)

        async def lacks_key() -> bool:
            message = (await cluster.condition(toy.APP, "app")).get("message", "")
            return message == "spec.password.key: Secret 'mine' has no key 'password'"

        await eventually(lacks_key)
        await cluster.change(SECRET, "mine", "/data/password", "eA==")
        await cluster.ready(toy.APP, "app")
        await cluster.delete(SECRET, "mine")
        await cluster.ready(toy.APP, "app", "MissingReference")
        app = await cluster.get(toy.APP, "app")
        assert app and app["status"]["published"]
        assert await cluster.get(DEPLOYMENT, "app-api")


@pytest.mark.security
async def test_a_stored_object_that_cannot_be_parsed_stops_no_other(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.APP, "broken", options={"refused": "yes"})
        await cluster.create(toy.STACK, "stack")
        condition = await cluster.ready(toy.APP, "broken", "InvalidSpec")
        assert condition["message"] == "spec.options: Value error, refused is no option"
        await cluster.ready(toy.STACK, "stack")


@pytest.mark.security
async def test_an_internal_error_has_an_id_and_shows_no_secret(cluster: Cluster, capsys: pytest.CaptureFixture[str]):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.APP, "app", options={"boom": "hunter2"})
        condition = await cluster.ready(toy.APP, "app", "InternalError")
        assert condition["status"] == "Unknown"
        mark = condition["message"].rpartition(" ")[2]
    log = capsys.readouterr()
    assert mark in log.out + log.err
    assert "hunter2" not in log.out + log.err + str(condition)


async def test_a_pass_logs_one_line_if_it_changed_something(cluster: Cluster):
    def lines() -> list[dict[str, Any]]:
        found = [dict(entry) for entry in logs if entry["event"] == "applied"]
        return [entry for entry in found if (entry["namespace"], entry["name"]) == (cluster.namespace, "server")]

    async def again() -> bool:
        return bool(lines())

    with capture_logs() as logs:
        async with cluster.simulator(), cluster.operator() as manager:
            await cluster.create(toy.SERVER, "server")
            await cluster.ready(toy.SERVER, "server")
            created = lines()
            assert {entry["kind"] for entry in created} == {toy.SERVER.handle}
            objects = [name for entry in created for name in entry["objects"]]
            assert "StatefulSet/server-db created" in objects
            assert len(objects) == len(set(objects))
            await at_rest(manager)
            logs.clear()
            await look_again(manager)
            assert lines() == []
            await cluster.delete(SERVICE, "server")
            await eventually(again)
            assert [entry["objects"] for entry in lines()] == [["Service/server created"]]


@pytest.mark.security
async def test_an_object_of_another_owner_is_never_taken(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        other = await cluster.create(toy.SERVER, "other")
        owner = {"apiVersion": other["apiVersion"], "kind": "Server", "name": "other", "uid": other["metadata"]["uid"]}
        meta = {**cluster.meta("app-config"), "ownerReferences": [{**owner, "controller": True}]}
        await cluster.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": meta})
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.APP, "app")
        condition = await cluster.ready(toy.APP, "app", "InvalidSpec")
        assert "Secret/app-config" in condition["message"]
        secret = await cluster.get(SECRET, "app-config")
        assert secret and "data" not in secret


@pytest.mark.security
async def test_a_guarded_secret_of_somebody_else_is_not_overwritten(cluster: Cluster):
    async with cluster.operator():
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta("server-password")}
        await cluster.client.create(SECRET, secret)
        await cluster.create(toy.SERVER, "server")
        condition = await cluster.ready(toy.SERVER, "server", "InvalidSpec")
        assert "Secret/server-password: exists but was not created by the operator" in condition["message"]


@pytest.mark.security
@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (SERVICE, {"selector": {"app": "mine"}, "ports": [{"port": 80}]}),
        (SECRET, {}),
        (
            DEPLOYMENT,
            {
                "selector": {"matchLabels": {"app": "mine"}},
                "template": {
                    "metadata": {"labels": {"app": "mine"}},
                    "spec": {"containers": [{"name": "main", "image": "example.org/mine:1"}]},
                },
            },
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)
async def test_a_user_object_with_a_name_of_ours_is_left_alone(
    cluster: Cluster, kind: Kind, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("openstack_operator.runtime.reconcile.apply._UNWATCHED", 0.2)
    name = "app-config" if kind is SECRET else "app-api"
    body = {"apiVersion": kind.api_version, "kind": kind.kind} | ({"spec": spec} if spec else {})
    mine = await cluster.client.create(kind, {**body, "metadata": cluster.meta(name)})
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        condition = await cluster.ready(toy.APP, "app", "InvalidSpec")
        assert f"{kind.kind}/{name}: exists but was not created by the operator" in condition["message"]
        live = await cluster.get(kind, name)
        assert live
        assert "labels" not in live["metadata"]
        assert (live.get("spec"), live.get("data")) == (mine.get("spec"), None)
        await cluster.delete(kind, name)
        await cluster.ready(toy.STACK, "stack")


async def test_labels_taken_from_our_own_come_back(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        for kind, name in ((SERVICE, "app-api"), (STATEFUL_SET, "server-db"), (SECRET, "app-config")):
            await cluster.change(kind, name, "/metadata/labels", {"mine": "yes"})

        async def labeled() -> bool:
            found = [await cluster.get(SERVICE, "app-api"), await cluster.get(SECRET, "app-config")]
            return all(
                {"mine", "app.kubernetes.io/managed-by"} <= set((live or {})["metadata"]["labels"]) for live in found
            )

        await eventually(labeled)
        await cluster.ready(toy.STACK, "stack")


async def test_an_immutable_field_is_refused_by_name(cluster: Cluster):
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        live = await cluster.get(STATEFUL_SET, "server-db")
        assert live
        body = {k: live[k] for k in ("apiVersion", "kind")} | {"metadata": cluster.meta("server-db")}
        body["spec"] = live["spec"] | {"serviceName": "another"}
        with pytest.raises(SpecError, match=r"StatefulSet/server-db spec: .*updates to statefulset spec"):
            await manager.world.client.apply(STATEFUL_SET, body)


async def test_a_retained_claim_outlives_its_owner_and_serves_the_next(cluster: Cluster):
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        claim = await cluster.get(VOLUME_CLAIM, "server-data")
        await cluster.delete(toy.SERVER, "server")

        async def gone() -> bool:
            return await cluster.get(STATEFUL_SET, "server-db") is None

        await eventually(gone)
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        kept = await cluster.get(VOLUME_CLAIM, "server-data")
        assert claim and kept and kept["metadata"]["uid"] == claim["metadata"]["uid"]
        await at_rest(manager)


@pytest.mark.search
@seeds(3)
async def test_killed_at_any_moment_it_converges_to_the_same_passwords(cluster: Cluster, seed: int):
    chance = random.Random(seed)
    passwords: set[str] = set()

    async def look() -> None:
        if secret := await cluster.get(SECRET, "server-password"):
            passwords.add(secret_data(secret)["root"])

    async with cluster.simulator():
        await cluster.create(toy.STACK, "stack")
        for _ in range(7):
            async with cluster.operator():
                await asyncio.sleep(chance.uniform(0, 0.1))
            await look()
        async with cluster.operator():
            await cluster.ready(toy.STACK, "stack")
        await look()
    assert len(passwords) == 1


async def test_a_resource_of_the_users_own_is_not_taken_over(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server", replicas=3)
        await cluster.create(toy.STACK, "stack")
        condition = await cluster.ready(toy.STACK, "stack", "InvalidSpec")
        assert "Server/server: exists but was not created by the operator" in condition["message"]
        server = await cluster.get(toy.SERVER, "server")
        assert server and server["spec"]["replicas"] == 3


async def test_credentials_survive_the_loss_of_their_labels(cluster: Cluster):
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        before = await cluster.get(SECRET, "server-password")
        await cluster.change(SECRET, "server-password", "/metadata/labels", {"mine": "yes"})

        async def labeled() -> bool:
            labels = ((await cluster.get(SECRET, "server-password")) or {})["metadata"]["labels"]
            return {"mine", "app.kubernetes.io/managed-by"} <= set(labels)

        await eventually(labeled)
        await cluster.ready(toy.SERVER, "server")
        after = await cluster.get(SECRET, "server-password")
        assert before and after and before["data"] == after["data"]
        await at_rest(manager)


async def test_a_rotation_is_told(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        assert await _events(cluster, "Rotated") == [], "what an installation makes first replaces nothing"
        await cluster.change(SECRET, "server-password", "/data", {})
        told = await eventually(lambda: _events(cluster, "Rotated"))
        assert told[0]["note"] == "renewed Secret/server-password"


async def test_pods_stay_when_their_number_is_left_to_an_autoscaler(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack", replicas=3)
        await cluster.ready(toy.STACK, "stack")
        await cluster.change(toy.STACK, "stack", "/spec/options", {"autoscaled": "true"})
        await cluster.ready(toy.STACK, "stack")

        async def left() -> bool:
            fields = _applied(await cluster.get(DEPLOYMENT, "app-api"))
            return "f:replicas" not in fields

        await eventually(left)
        assert await _replicas(cluster) == 3
        await cluster.change(DEPLOYMENT, "app-api", "/spec/replicas", 5)
        await cluster.change(toy.STACK, "stack", "/spec/options", {"autoscaled": "true", "debug": "true"})
        await cluster.ready(toy.STACK, "stack")
        assert await _replicas(cluster) == 5
        await cluster.change(toy.STACK, "stack", "/spec/options", {})
        await eventually(lambda: _scaled(cluster, 3))


def _applied(live: dict[str, Any] | None) -> dict[str, Any]:
    """Fields of the spec the operator owns."""
    entries = (live or {})["metadata"]["managedFields"]
    return next(entry["fieldsV1"]["f:spec"] for entry in entries if entry["manager"] == "openstack-operator")


async def _replicas(cluster: Cluster) -> int:
    return ((await cluster.get(DEPLOYMENT, "app-api")) or {})["spec"]["replicas"]


async def _scaled(cluster: Cluster, count: int) -> bool:
    return await _replicas(cluster) == count


async def test_a_paused_resource_stays_as_it_is(cluster: Cluster):
    async def pause(reason: str | None) -> None:
        live = await cluster.get(toy.APP, "app")
        assert live
        await cluster.client.annotate(Kind.of(toy.APP), live, {PAUSE: reason}, manager="somebody")

    async def is_paused() -> bool:
        return (await cluster.condition(toy.APP, "app", "Paused")).get("status") == "True"

    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await pause("by hand")
        await eventually(is_paused)
        before = await cluster.get(toy.APP, "app")
        await cluster.change(DEPLOYMENT, "app-api", "/spec/replicas", 0)
    # A process that starts finds it paused; its account, which the App made, is looked at as ever.
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.change(toy.STACK, "stack", "/spec/options", {"debug": "true"})

        async def is_waited_for() -> bool:
            return "App/app is paused" in (await cluster.condition(toy.STACK, "stack")).get("message", "")

        await eventually(is_waited_for)
        await look_again(manager)
        run, app = await cluster.get(DEPLOYMENT, "app-api"), await cluster.get(toy.APP, "app")
        assert run
        assert app
        assert before
        assert run["spec"]["replicas"] == 0
        assert {each["type"]: each["status"] for each in app["status"]["conditions"]}["Ready"] == "True"
        assert app["status"]["observedGeneration"] == before["status"]["observedGeneration"]
        assert app["metadata"]["generation"] > before["metadata"]["generation"]
        await pause(None)
        await cluster.ready(toy.STACK, "stack")
        run = await cluster.get(DEPLOYMENT, "app-api")
        assert run
        assert run["spec"]["replicas"] == 1
        assert await cluster.condition(toy.APP, "app", "Paused") == {}
