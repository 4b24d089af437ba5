"""A backup is verified once it is complete, with the images that the cloud had."""

from __future__ import annotations

import json
from typing import Any

from openstack_operator import kube
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Plan, Release, State
from openstack_operator.services.backup.model import BACKUP
from openstack_operator.services.backup.service import plan
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services import test_backup as backups

SPEC = backups.SPEC | {"verify": True}
RESULT = {"seconds": 65.4, "users": 3, "projects": 2, "credentials": 0}


def identity(*names: str) -> list[dict[str, Any]]:
    """The Keystones of these names, as the operator observes them."""
    container = {"image": "keystone:2025.1", "securityContext": {"runAsUser": 42425, "runAsGroup": 42425}}
    workload: Object = {
        "metadata": {"name": "keystone-api", "labels": {kube.COMPONENT: "api"}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    return [{"name": name, "deployments": [workload]} for name in names]


def complete(release: Release, *names: str) -> dict[Any, Object]:
    """The record of a complete backup of a cloud with these Keystones."""
    first = planned(release, facts=backups.facts() | {"identities": identity(*names)})
    children = backups.kept(first, "monday-contents")
    pods = [backups.ended(backups.jobs(first)["monday-database-mariadb"], backups.RESULT)]
    second = planned(release, children=children, pods=pods)
    pods.append(backups.ended(backups.jobs(second)["monday-manifest"], backups.END))
    return backups.kept(planned(release, children=children, pods=pods), "monday-record")


def planned(release: Release, **changes: Any) -> Plan:
    fields: dict[str, Any] = {"owner": "monday", "secrets": backups.SECRETS}
    return plan(context(BACKUP, SPEC, release=release, **(fields | changes)))


def test_keystone_logs_in_with_what_was_restored(release: Release) -> None:
    children = complete(release, "keystone")
    made = planned(release, children=children)
    job = backups.jobs(made)["monday-verify"]
    [main, companion] = job["spec"]["template"]["spec"]["containers"]
    assert (main["image"], companion["image"]) == ("mariadb:11.8", "keystone:2025.1")
    # They share files that no other user reads.
    assert companion["securityContext"]["runAsUser"] == main["securityContext"]["runAsUser"] == 999
    assert "repository" not in {mount["name"] for mount in companion["volumeMounts"]}
    assert json.loads(secret_data(objects(made)["Secret", "monday-runs"])["verify.json"])["identity"]
    assert made.outcome.details["verified"] is None
    assert made.outcome.details["completed"] == backups.END["taken"]
    done = planned(release, children=children, pods=[backups.ended(job, RESULT)])
    assert done.outcome.details["verified"] == "2026-01-01T00:00:00Z"
    assert done.outcome.details["restoreDuration"] == "1m5s"
    later = planned(release, children=backups.kept(done, "monday-record"))
    assert objects(later).keys() == {("ConfigMap", "monday-record")}
    assert later.outcome.details == done.outcome.details


def test_databases_are_used_where_no_keystone_is_known(release: Release) -> None:
    for names in ((), ("one", "two")):
        job = backups.jobs(planned(release, children=complete(release, *names)))["monday-verify"]
        assert len(job["spec"]["template"]["spec"]["containers"]) == 1


def test_a_backup_of_an_earlier_operator_is_not_verified(release: Release) -> None:
    children = complete(release, "keystone")
    record = json.loads(children["ConfigMap", "monday-record"]["data"]["record.json"])
    del record["verification"]
    children["ConfigMap", "monday-record"]["data"] = {"record.json": json.dumps(record)}
    made = planned(release, children=children)
    [step] = [step for step in made if step.name == "RestoreVerified"]
    assert step.verdict
    assert step.verdict.state is State.FAILED
    assert "create another one" in step.verdict.message
