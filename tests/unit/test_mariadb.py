"""MariaDB: what must hold besides its goldens."""

from __future__ import annotations

import configparser
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import NotBuilt, Object, Plan, Release, SpecError, key
from openstack_operator.services.mariadb.config import my_cnf
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan
from openstack_operator.testing import context


def planned(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> dict[tuple[str, str], Object]:
    result: Plan = plan(context(MARIADB, spec, release=release, **changes))
    return {key(obj): obj for obj in result.objects}


def test_the_contract(release: Release) -> None:
    outcome = plan(context(MARIADB, release=release)).outcome
    assert outcome.published == {
        "host": "mariadb.openstack.svc.cluster.local",
        "port": "3306",
        "adminSecret": "mariadb-credentials",
    }


def test_the_password_outlives_the_resource_as_the_data_does(release: Release) -> None:
    kept = planned(release)
    assert kept["Secret", "mariadb-credentials"]["metadata"]["annotations"][kube.RETAIN] == "true"
    policy = kept["StatefulSet", "mariadb-server"]["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Retain", "whenScaled": "Retain"}

    gone = planned(release, {"retention": "Delete"})
    assert "annotations" not in gone["Secret", "mariadb-credentials"]["metadata"]
    policy = gone["StatefulSet", "mariadb-server"]["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Delete", "whenScaled": "Retain"}


def test_a_known_password_stays(release: Release) -> None:
    ctx = context(MARIADB, release=release)
    held = kube.secret(ctx, "mariadb-credentials", {"root": "old"})
    objects = planned(release, children={key(held): held}, draw=lambda: "new")
    assert kube.secret_data(objects["Secret", "mariadb-credentials"]) == {"root": "old"}


def test_a_change_of_configuration_rolls_the_pods(release: Release) -> None:
    def digest(spec: dict[str, Any]) -> str:
        template = planned(release, spec)["StatefulSet", "mariadb-server"]["spec"]["template"]
        return template["metadata"]["annotations"][kube.CONFIG_DIGEST]

    assert digest({}) == digest({"storageSize": "20Gi"})
    assert digest({}) != digest({"config": {"mysqld": {"max_connections": 2048}}})


def test_a_larger_volume_is_asked_of_the_claims_since_the_statefulset_cannot(release: Release) -> None:
    before = planned(release)
    live = before["StatefulSet", "mariadb-server"]
    children = {key(live): live}
    assert not [k for k in planned(release, children=children) if k[0] == "PersistentVolumeClaim"]

    grown = planned(release, {"storageSize": "20Gi"}, children=children)
    claim = grown["PersistentVolumeClaim", "data-mariadb-server-0"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert claim["metadata"]["annotations"][kube.RETAIN] == "true", "pruning it would delete the database"


def test_several_members_are_not_built_for_kolla(release: Release) -> None:
    with pytest.raises(NotBuilt, match=r"^spec.replicas: .* use 1$"):
        planned(release, {"replicas": 3, "imageProfile": "kolla"})


def test_user_options_win_over_defaults() -> None:
    parsed = configparser.ConfigParser()
    parsed.read_string(my_cnf({"mysqld": {"max-connections": 9}, "client": {"port": 3307}}))
    assert parsed["mysqld"]["max_connections"] == "9"
    assert parsed["mysqld"]["innodb_snapshot_isolation"] == "false"
    assert parsed["client"]["port"] == "3307", "a client's options are nobody's but the user's"


@pytest.mark.parametrize(
    ("group", "option"),
    [("mysqld", "bind_address"), ("mysqld", "bind-address"), ("mariadb", "datadir"), ("mariadb-11.8", "wsrep-on")],
)
def test_wired_options_are_refused_in_every_spelling_and_group(group: str, option: str) -> None:
    with pytest.raises(SpecError, match=rf"spec.config.{group}.{option.replace('-', '_')}: the operator sets"):
        my_cnf({group: {option: "x"}})


def test_a_long_name_still_gives_pods_their_labels(release: Release) -> None:
    objects = planned(release, owner="a-database-whose-name-is-as-long-as-anybody-would-ever-want-it-to-be")
    sets = [obj for (kind, _), obj in objects.items() if kind == "StatefulSet"]
    assert len(sets[0]["metadata"]["name"]) <= 52
    assert all(len(name) <= 63 for _, name in objects)
    assert ("Service", sets[0]["spec"]["serviceName"]) in objects
