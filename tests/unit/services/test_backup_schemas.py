"""OpenStackRestore with `only`: schemas of a backup return to a cloud that runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Release, SpecError
from openstack_operator.services.backup.model import RESTORE
from openstack_operator.services.backup.restore import needs_databases
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services.test_backup import database
from tests.unit.services.test_backup_restore import ENTRY, FACTS, MANIFEST, SPEC, ended, needs, owned, planned, step_of

ONLY = {**SPEC, "only": ["keystone", "nova_api"], "confirm": "openstack"}
FACT: dict[str, Any] = database()
FACT["published"] = {**FACT["published"], "adminSecret": "mariadb-root", "trustSecret": "mariadb-tls"}
LIVE = {**FACTS, "databases": [FACT]}
RESULT = {
    "places": [{"name": "keystone", "tables": 50, "rows": 812, "earlier": "keystone_before_0a1b2c3d"}],
    "gtid": "0-7-12",
    "changes": None,
}


def job_of(release: Release, **changes: Any) -> tuple[Object, dict[str, Any]]:
    """Return the one job of a restore, and the parameters of its program."""
    made = objects(planned(release, **{"spec": ONLY, "facts": LIVE, **changes}))
    [job] = [obj for (kind, _), obj in made.items() if kind == "Job"]
    [text] = secret_data(made["Secret", "fire-runs"]).values()
    return job, json.loads(text)


def test_schemas_take_their_places_in_the_cloud_that_runs(release: Release) -> None:
    only = ["keystone", "nova_api", "nova_cell0"]
    job, parameters = job_of(release, spec={**ONLY, "only": only})
    assert parameters["schemas"] == only
    assert (parameters["host"], parameters["user"]) == (FACT["published"]["host"], "root")
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert FACT["published"]["adminSecret"] in [each.get("secret", {}).get("secretName") for each in volumes]
    # The volumes of the cloud are its own.
    assert [each for each in volumes if "persistentVolumeClaim" in each and each["name"] != "storage"] == []
    made = objects(planned(release, spec=ONLY, facts=LIVE))
    assert ("NetworkPolicy", "fire-uses-mariadb") in made
    assert {kind for kind, _ in made} == {"Secret", "Job", "NetworkPolicy", "ConfigMap"}


def test_a_restore_of_schemas_ends_with_their_rows(release: Release) -> None:
    job, _ = job_of(release)
    made = planned(release, spec=ONLY, facts=LIVE, pods=[ended(job, RESULT)])
    first = objects(made)
    assert ("Job", job["metadata"]["name"]) not in first
    children = {key: owned(first[key]) for key in (("ConfigMap", "fire-end"), ("ConfigMap", "fire-record"))}
    last = planned(release, spec=ONLY, children=children)
    assert last.outcome.details["schemas"] == RESULT["places"]
    assert last.outcome.details["restored"] == [{"name": "mariadb", "gtid": "0-7-12", "changes": None}]
    assert not needs_databases(context(RESTORE, ONLY, release=release, owner="fire", children=children))


@pytest.mark.parametrize("confirm", [None, "production"])
def test_a_cloud_that_runs_is_changed_only_once_its_name_is_confirmed(release: Release, confirm: str | None) -> None:
    with pytest.raises(SpecError, match=r"spec\.confirm: .*keystone, nova_api of the cloud that runs in 'openstack'"):
        planned(release, spec={**ONLY, "confirm": confirm}, facts=LIVE)
    job_of(release)


def test_the_database_is_named_if_there_are_several(release: Release) -> None:
    manifest = {**MANIFEST, "databases": [ENTRY, {**ENTRY, "name": "cells"}]}
    facts = {**LIVE, "manifest": manifest}
    with pytest.raises(SpecError, match="one of cells, mariadb"):
        planned(release, spec=ONLY, facts=facts)
    with pytest.raises(SpecError, match="the backup has no MariaDB/other; it has cells, mariadb"):
        planned(release, spec={**ONLY, "database": "other"}, facts=facts)
    _, parameters = job_of(release, spec={**ONLY, "database": "mariadb"}, facts=facts)
    assert parameters["database"] == "mariadb"


def test_the_archive_is_used_for_a_second(release: Release) -> None:
    _, parameters = job_of(release, spec={**ONLY, "pointInTime": "2026-01-01T00:00:00Z"})
    assert (parameters["pointInTime"], parameters["cloud"]) == ("2026-01-01T00:00:00Z", "openstack")


def test_a_database_without_a_ready_member_is_waited_for(release: Release) -> None:
    made = planned(release, spec=ONLY, facts={**FACTS, "databases": []})
    assert "Job" not in {kind for kind, _ in objects(made)}
    # A job that runs stays.
    job, _ = job_of(release)
    made = planned(release, spec=ONLY, facts={**FACTS, "databases": [{**FACT, "pods": []}]})
    assert ("Job", job["metadata"]["name"]) in objects(made)
    assert needs(step_of(made, job)) >= {"Server"}
    [verdict] = [step.verdict for step in made if step.name == "Server"]
    assert verdict is not None
    assert "waiting for a ready member of MariaDB/mariadb" in verdict.message


def test_the_password_of_root_stays_where_the_server_may_run(release: Release) -> None:
    """A forged manifest must not choose the node."""
    entry = {**ENTRY, "image": {"nodeSelector": {"kubernetes.io/hostname": "of-an-attacker"}}}
    job, _ = job_of(release, facts={**LIVE, "manifest": {**MANIFEST, "databases": [entry]}})
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"tier": "control"}


@pytest.mark.parametrize("places", [["x"], "x", [{"name": "other"}], [{"name": "keystone", "tables": "x"}]])
def test_a_forged_result_is_not_believed(release: Release, places: Any) -> None:
    job, _ = job_of(release)
    made = planned(release, spec=ONLY, facts=LIVE, pods=[ended(job, {**RESULT, "places": places})])
    assert [(row["name"], row["tables"]) for row in made.outcome.details["schemas"]] in ([], [("keystone", 0)])


def test_a_server_of_another_operator_is_refused(release: Release) -> None:
    with pytest.raises(SpecError, match="does not run the server of MariaDB/mariadb"):
        planned(release, spec=ONLY, facts={**FACTS, "databases": [{**FACT, "workloads": []}]})
