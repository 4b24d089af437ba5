"""A backup is verified once it is complete, with the images that the cloud had."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Plan, Release, State
from openstack_operator.services.backup.model import BACKUP
from openstack_operator.services.backup.service import needs_contents, plan
from openstack_operator.services.backup.verification import STAGE
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


def complete(release: Release) -> dict[Any, Object]:
    """The record of a complete backup."""
    first = planned(release, facts=backups.facts())
    children = backups.kept(first, "monday-contents")
    pods = [backups.ended(backups.jobs(first)["monday-database-mariadb"], backups.RESULT)]
    second = planned(release, children=children, pods=pods)
    pods.append(backups.ended(backups.jobs(second)["monday-manifest"], backups.END))
    return backups.kept(planned(release, children=children, pods=pods), "monday-record")


def facts(*names: str) -> dict[str, Any]:
    """Facts of a cloud with the Keystones of these names."""
    return backups.facts() | {"identities": identity(*names)}


def planned(release: Release, **changes: Any) -> Plan:
    fields: dict[str, Any] = {"owner": "monday", "secrets": backups.SECRETS}
    return plan(context(BACKUP, SPEC, release=release, **(fields | changes)))


def test_keystone_logs_in_with_what_was_restored(release: Release) -> None:
    children = complete(release)
    assert needs_contents(context(BACKUP, SPEC, release=release, owner="monday", children=children))
    made = planned(release, children=children, facts=facts("keystone"))
    job = backups.jobs(made)["monday-verify"]
    [main, companion] = job["spec"]["template"]["spec"]["containers"]
    assert (main["image"], companion["image"]) == ("mariadb:11.8", "keystone:2025.1")
    # They share files that no other user reads.
    assert companion["securityContext"]["runAsUser"] == main["securityContext"]["runAsUser"] == 999
    assert "repository" not in {mount["name"] for mount in companion["volumeMounts"]}
    assert json.loads(secret_data(objects(made)["Secret", "monday-runs"])["verify.json"])["identity"]
    assert made.outcome.details["verified"] is None
    assert made.outcome.details["completed"] == backups.END["taken"]
    done = planned(release, children=children, facts=facts("keystone"), pods=[backups.ended(job, RESULT)])
    assert done.outcome.details["verified"] == "2026-01-01T00:00:00Z"
    assert done.outcome.details["restoreDuration"] == "1m5s"
    changed = planned(
        release, children=children, facts=facts("keystone"), pods=[backups.ended(job, {**RESULT, "fleeting": 2})]
    )
    [verdict] = [step.verdict for step in changed if step.name == STAGE]
    assert verdict
    assert verdict.ready
    assert verdict.message.startswith("without 2 images that users changed while the backup ran")
    children = backups.kept(done, "monday-record")
    assert not needs_contents(context(BACKUP, SPEC, release=release, owner="monday", children=children))
    later = planned(release, children=children)
    assert objects(later).keys() == {("ConfigMap", "monday-record")}
    assert later.outcome.details == done.outcome.details


def test_databases_are_used_where_no_keystone_is_known(release: Release) -> None:
    for names in ((), ("one", "two")):
        made = planned(release, children=complete(release), facts=facts(*names))
        job = backups.jobs(made)["monday-verify"]
        assert len(job["spec"]["template"]["spec"]["containers"]) == 1


def test_a_verification_waits_for_an_image(release: Release) -> None:
    made = planned(release, children=complete(release), facts=facts() | {"databases": []})
    [step] = [step for step in made if step.name == "RestoreVerified"]
    assert step.verdict
    assert step.verdict.state is State.WAITING
    assert not backups.jobs(made)


@pytest.mark.security
def test_a_record_that_others_wrote_names_no_image(release: Release) -> None:
    """They could have the operator run theirs, with the password of the repository."""
    children = complete(release)
    forged = json.loads(children["ConfigMap", "monday-record"]["data"]["record.json"])
    forged["verification"] = {"storage": {"image": "forged", "uid": 0, "gid": 0}}
    children["ConfigMap", "monday-record"]["data"] = {"record.json": json.dumps(forged)}
    made = planned(release, children=children, facts=facts("keystone"))
    assert "forged" not in json.dumps(backups.jobs(made))


def test_a_backup_that_an_earlier_operator_began_is_refused(release: Release) -> None:
    first = planned(release, facts=backups.facts())
    children = backups.kept(first, "monday-contents")
    data = children["Secret", "monday-contents"]["data"]
    stored = json.loads(base64.b64decode(data["databases.json"]))
    del stored[0]["account_secret"]
    data["databases.json"] = base64.b64encode(json.dumps(stored).encode()).decode()
    made = planned(release, children=children)
    [step] = [step for step in made if step.name == "Contents"]
    assert step.verdict
    assert "create another one" in step.verdict.message
