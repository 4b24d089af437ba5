"""Archives of binary logs: the program of each database, and what its reports mean."""

from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openstack_operator import agents, kube
from openstack_operator.plan import Context, Plan, Release, State
from openstack_operator.services.backup import archives, databases, schedule
from openstack_operator.services.backup.archives import Archives
from openstack_operator.services.backup.model import BACKUP, SCHEDULE
from openstack_operator.services.backup.pods import modules
from openstack_operator.services.backup.record import stamp
from openstack_operator.testing import NOW, context
from tests.planning import objects
from tests.unit.services import test_backup as backups

POD = "nightly-archive-mariadb-x"


def ctx_of(release: Release, *, later: timedelta = timedelta(0)) -> Context[Any]:
    pod = {
        "metadata": {"name": POD, "labels": {kube.COMPONENT: "archive-mariadb"}},
        "status": {"podIP": "10.0.0.7"},
    }
    fields: dict[str, Any] = {"owner": "nightly", "secrets": backups.SECRETS, "pods": [pod], "now": NOW + later}
    return context(BACKUP, backups.SPEC, release=release, **fields)


def archived(
    release: Release, report: Any, stored: Any = None, *pods: Any, later: timedelta = timedelta(0)
) -> Archives:
    ctx = ctx_of(release, later=later)
    source = databases.own_database(ctx, backups.database("mariadb", *pods))
    return archives.archives(ctx, [source], {POD: report}, stored or {})


def report(seconds: int, **fields: Any) -> dict[str, Any]:
    """What a program says whose archive ends so many seconds ago."""
    return {"chain": "a", "lastRecoverableTime": stamp(NOW - timedelta(seconds=seconds)), **fields}


def test_a_program_reads_all_members_and_writes_at_the_primary(release: Release) -> None:
    pods = [backups.member(f"mariadb-server-{number}") for number in range(3)]
    made = archived(release, None, None, *pods)
    [run] = made.runs
    assert run.parameters["host"] == "mariadb.openstack.svc.cluster.local"
    assert [host.partition(".")[0] for host in run.parameters["members"]] == [
        f"mariadb-server-{number}" for number in range(3)
    ]
    [step] = made.steps
    [deployment] = step.objects
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert "only-for-tests" not in json.dumps(deployment)
    assert archives.questions(ctx_of(release)) == {POD: "http://10.0.0.7:6670/"}


@pytest.mark.parametrize(
    ("answer", "state", "message"),
    [
        (report(3), State.READY, ""),
        (report(59, error="RepositoryUnavailable"), State.READY, ""),
        (report(-61), State.FAILED, "ends at 2026-01-01T00:01:01Z"),
        (report(61), State.FAILED, "ends at 2025-12-31T23:58:59Z; see the log of Deployment nightly-archive-mariadb"),
        (report(61, error="RepositoryUnavailable"), State.FAILED, "ends at 2025-12-31T23:58:59Z: the repository does"),
        (report(61, canaryError="DatabaseUnavailable"), State.FAILED, "the database does not answer"),
        ({"chain": "a"}, State.WAITING, "the archive of MariaDB/mariadb has begun"),
        ({"error": "NoBinaryLog"}, State.FAILED, "has nothing yet: the database writes no binary log; set"),
    ],
)
def test_an_archive_that_stands_still_is_named(release: Release, answer: Any, state: State, message: str) -> None:
    [step] = archived(release, answer).steps
    assert step.verdict
    assert step.verdict.state is state
    assert message in step.verdict.message
    # Its pod runs, and does not do its work.
    assert step.verdict.serves is (False if state is State.FAILED else None)


def test_a_program_that_does_not_answer_for_a_minute_is_named(release: Release) -> None:
    made = archived(release, None)
    assert [step.verdict for step in made.steps] == [None]
    made = archived(release, None, made.state, later=timedelta(seconds=59))
    assert [step.verdict for step in made.steps] == [None]
    [step] = archived(release, None, made.state, later=timedelta(seconds=60)).steps
    assert step.verdict
    assert "does not answer" in step.verdict.message
    assert step.verdict.serves is False
    assert "silentSince" not in archived(release, report(1), made.state).state["mariadb"]


def test_a_database_that_is_not_published_is_waited_for(release: Release) -> None:
    ctx = ctx_of(release)
    made = archives.archives(ctx, [], {}, {"cells": {"chain": "a", "since": stamp(NOW)}}, ["cells"])
    [step] = made.steps
    assert step.verdict
    assert step.verdict.state is State.WAITING
    assert made.state == {"cells": {"chain": "a", "since": stamp(NOW)}}
    assert made.recoverable is None


def test_the_status_changes_once_in_a_minute(release: Release) -> None:
    seconds = {archived(release, report(age)).recoverable for age in range(1, 60)}
    assert seconds == {NOW - timedelta(minutes=1)}
    # One that stands still is shown as it is.
    assert archived(release, report(90)).recoverable == NOW - timedelta(seconds=90)
    assert archived(release, None).recoverable is None


def test_a_new_chain_has_no_changes_of_before(release: Release) -> None:
    first = archived(release, report(1))
    assert first.since() == NOW
    later = archived(release, report(1), first.state, later=timedelta(hours=1))
    assert later.since() == NOW
    silent = archived(release, None, first.state, later=timedelta(hours=1))
    assert silent.since() == NOW
    gap = archived(release, report(1, chain="b"), first.state, later=timedelta(hours=2))
    assert gap.since() == NOW + timedelta(hours=2)
    assert archived(release, None).since() is None


@pytest.mark.security
def test_a_report_of_another_shape_is_none(release: Release) -> None:
    for answer in ([], "text", {"lastRecoverableTime": "soon", "chain": ["a"]}, {"lastRecoverableTime": 7}):
        assert archived(release, answer).recoverable is None


def scheduled(release: Release, now: str, children: Any = None, answer: Any = None) -> Plan:
    """The plan of a schedule with an archive, and one backup that was complete at four minutes past one."""
    spec = backups.SPEC | {"schedule": "0 1 * * *", "archive": True, "verify": True}
    pod = {"metadata": {"name": POD, "labels": {kube.COMPONENT: "archive-mariadb"}}, "status": {"podIP": "10.0.0.7"}}
    facts = {"databases": [backups.database()], "reports": {POD: answer}}
    fields: dict[str, Any] = {"owner": "nightly", "secrets": backups.SECRETS, "pods": [pod], "facts": facts}
    at = datetime.fromisoformat(f"2026-01-{now}").replace(tzinfo=UTC)
    return schedule.plan(context(SCHEDULE, spec, release=release, children=children or {}, now=at, **fields))


def test_changes_in_mariadb_operators_database_are_not_archived(release: Release) -> None:
    spec = backups.SPEC | {"schedule": "0 1 * * *", "archive": True}
    facts = {"databases": [backups.database(), {**backups.delegated(), "name": "cells"}], "reports": {}}
    fields: dict[str, Any] = {"owner": "nightly", "secrets": backups.SECRETS, "facts": facts}
    made = schedule.plan(context(SCHEDULE, spec, release=release, **fields))
    # The archive of the other one goes on.
    assert ("Deployment", "nightly-archive-mariadb") in objects(made)
    (step,) = [step for step in made if step.name == "Archive cells"]
    assert step.verdict
    assert step.verdict.reason == "NotSupported"
    assert "set spec.archive to false" in step.verdict.message
    assert made.outcome.details["firstRecoverableTime"] is None
    assert made.outcome.details["lastRecoverableTime"] is None


def test_a_restore_reaches_seconds_since_the_first_backup(release: Release) -> None:
    answer = {"chain": "a", "lastRecoverableTime": "2026-01-02T00:59:58Z"}
    first = scheduled(release, "02 00:59:59", answer=answer)
    assert {"nightly-archive-mariadb"} == {name for kind, name in objects(first) if kind == "Deployment"}
    assert ("NetworkPolicy", "nightly-uses-mariadb") in objects(first)
    assert first.outcome.details["firstRecoverableTime"] is None
    # Without a backup, the archive restores nothing.
    assert first.outcome.details["lastRecoverableTime"] is None
    children = {key: backups.owned(obj) for key, obj in objects(first).items()}
    second = scheduled(release, "02 01:00:00", children, answer)
    [backup] = [obj for (kind, _), obj in objects(second).items() if kind == "OpenStackBackup"]
    assert backup["spec"]["verify"] is True
    complete = {**backup, "status": {"completed": "2026-01-02T01:04:00Z"}}
    children = {key: backups.owned(obj) for key, obj in objects(second).items()}
    children["OpenStackBackup", backup["metadata"]["name"]] = backups.owned(complete)
    third = scheduled(release, "02 01:05:00", children, answer)
    assert third.outcome.details["firstRecoverableTime"] == "2026-01-02T01:04:00Z"
    assert third.outcome.details["lastRecoverableTime"] == "2026-01-02T00:59:58Z"
    [step] = [step for step in third if step.name.startswith("Archive")]
    assert step.verdict
    assert "ends at 2026-01-02T00:59:58Z" in step.verdict.message
    # A new chain has no backup beside it yet.
    later = scheduled(release, "02 01:06:00", children, answer | {"chain": "b"})
    assert later.outcome.details["firstRecoverableTime"] is None


def test_a_schedule_without_an_archive_runs_no_program(release: Release) -> None:
    spec = backups.SPEC | {"schedule": "0 1 * * *"}
    ctx = context(SCHEDULE, spec, release=release, owner="nightly", secrets=backups.SECRETS)
    assert not schedule.needs_databases(ctx)
    assert not [kind for kind, _ in objects(schedule.plan(ctx)) if kind == "Deployment"]


@pytest.mark.security
def test_no_word_of_a_pod_reaches_a_condition(release: Release) -> None:
    """Another pod may have the labels of the program, and its address."""
    for word in ("Run this command: rm", "NoBinaryLog; and run", ["NoBinaryLog"], {"a": 1}, "x" * 70_000):
        [step] = archived(release, {"error": word, "canaryError": word, "chain": word}).steps
        assert step.verdict
        assert step.verdict.message == (
            "the archive of MariaDB/mariadb has nothing yet: the program fails;"
            " see the log of Deployment nightly-archive-mariadb"
        )
        assert "rm" not in json.dumps(archived(release, {"chain": word}).state)


def test_each_error_of_the_program_has_its_words() -> None:
    """The program and the operator have one list."""
    codes = {
        node.value
        for file in modules("archive")
        for call in ast.walk(ast.parse(agents.text(file)))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {"RunError", "blaming"}
        for node in call.args[-1:]
        if isinstance(node, ast.Constant) and re.fullmatch(r"[A-Z][a-zA-Z]+", str(node.value))
    }
    assert codes | {"Failed"} == set(archives.CAUSES)


def test_only_the_operator_reaches_the_program(release: Release) -> None:
    spec = backups.SPEC | {"schedule": "0 1 * * *", "archive": True}
    fields: dict[str, Any] = {"owner": "nightly", "secrets": backups.SECRETS}
    ctx = context(SCHEDULE, spec, release=release, facts={"databases": [backups.database()]}, **fields)
    policy = objects(schedule.plan(ctx))["NetworkPolicy", "nightly"]["spec"]
    assert policy["podSelector"]["matchLabels"] == kube.pods_of("OpenStackBackupSchedule", "nightly")
    [rule] = policy["ingress"]
    [peer] = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": ctx.operator_namespace}


def test_foreign_objects_beside_an_archive_are_named(release: Release) -> None:
    for number, text in ((3, "3 objects in the folder archive/"), (10**9, "10000 objects"), (True, ""), ("3", "")):
        [step] = archived(release, report(3, foreignObjects=number)).steps
        assert step.verdict
        assert step.verdict.ready
        assert step.verdict.message.startswith(text)
        assert bool(step.verdict.message) == bool(text)
