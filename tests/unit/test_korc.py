"""A catalog that K-ORC keeps: what is asked of it, and when it is believed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from openstack_operator.catalogue import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.kube import judge, secret_data
from openstack_operator.plan import Context, Key, Object, Plan, Release, SpecError, State, key
from openstack_operator.render import Paper
from openstack_operator.runtime.kinds import OTHERS
from openstack_operator.testing import context

KINDS = {resource.handle: resource for resource in RESOURCES}
PLANS = {service.resource.handle: service.plan for service in SERVICES}
SERVED = frozenset(kind.handle for kind in OTHERS)
KORC = {handle for handle in SERVED if handle.endswith(".openstack.k-orc.cloud")}
PUBLISHED = {"MariaDB": {"host": "db", "port": "3306", "adminSecret": "root"}, "Memcached": {"servers": "cache:11211"}}


@pytest.fixture
def keystone(release: Release) -> Any:
    def planned(provider: str, **changes: Any) -> Plan:
        spec = {"catalog": {"provider": provider}}
        found: Context[Any] = context(KINDS["Keystone"], spec, release=release, published=PUBLISHED, **changes)
        return PLANS["Keystone"](found)

    return planned


def made(plan: Plan) -> dict[Key, Object]:
    return {key(obj): obj for obj in plan.objects}


def used(plan: Plan) -> bool:
    return bool({kind for kind, _ in made(plan)} & KORC)


def test_auto_takes_k_orc_where_all_it_needs_is_there(keystone: Any) -> None:
    assert used(keystone("auto", served=SERVED))
    assert not used(keystone("auto"))
    assert not used(keystone("auto", served=SERVED - {"User.openstack.k-orc.cloud"}))
    assert not used(keystone("builtin", served=SERVED))
    assert used(keystone("k-orc"))


def test_who_keeps_the_catalog_goes_on(keystone: Any) -> None:
    own, theirs = made(keystone("builtin")), made(keystone("k-orc"))
    assert not used(keystone("auto", served=SERVED, children=own))
    assert used(keystone("auto", children=theirs))
    for first, then in ((own, "k-orc"), (theirs, "builtin")):
        with pytest.raises(SpecError, match=r"^spec\.catalog\.provider: users and services of this Keystone are kept"):
            keystone(then, children=first)


def test_its_clouds_yaml_says_what_it_reads(keystone: Any) -> None:
    secret = secret_data(made(keystone("k-orc"))["Secret", "k-orc-clouds-yaml"])
    assert set(secret) == {"clouds.yaml"}
    cloud = yaml.safe_load(secret["clouds.yaml"])["clouds"]["openstack"]
    # `interface` it does not know, and the public address may not be reached from where it runs.
    assert (cloud["endpoint_type"], cloud["region_name"]) == ("internal", "RegionOne")
    assert cloud["auth"]["auth_url"].startswith("http://keystone-api.openstack.svc")


CLOUD = {
    "apiVersion": "c5c3.io/v1alpha1",
    "kind": "ControlPlane",
    "metadata": {"name": "cloud"},
    "spec": {
        "korc": {"enabled": True, "bootstrapResources": ["projects", "roles"]},
        "services": {"cinder": {"enabled": True}},
    },
}


@pytest.fixture
def cloud(release: Release) -> dict[Key, Object]:
    paper = Paper(SERVICES, ACTUATORS, lambda _: release, drawn="drawn", served=SERVED)
    found = [obj for planned in paper.render([CLOUD], "openstack") for obj in planned.objects]
    return {key(obj): obj for obj in found}


def test_nothing_in_keystone_goes_with_an_object_of_k_orcs(cloud: dict[Key, Object]) -> None:
    theirs = {known: obj["spec"] for known, obj in cloud.items() if known[0] in KORC}
    assert {kind for kind, _ in theirs} == KORC
    for spec in theirs.values():
        kept = spec["managementPolicy"] == "unmanaged" or spec["managedOptions"] == {"onDelete": "detach"}
        assert kept
        assert spec["cloudCredentialsRef"] == {"secretName": "k-orc-clouds-yaml", "cloudName": "openstack"}


def test_each_user_and_service_has_one_of_ours_beside_it(cloud: dict[Key, Object]) -> None:
    """By the same name: that one does what K-ORC has nothing for."""
    for theirs, ours in (("User", "KeystoneUser"), ("Service", "KeystoneService")):
        names = {name for kind, name in cloud if kind == f"{theirs}.openstack.k-orc.cloud"}
        kept = {name for (kind, name), obj in cloud.items() if kind == ours and obj["spec"].get("provider") == "k-orc"}
        assert kept == names - {"keystone-catalog"}
        assert {f"cinder-{'user' if theirs == 'User' else 'catalog-official'}"} <= kept


def test_another_authority_makes_another_session(cloud: dict[Key, Object]) -> None:
    """K-ORC keeps sessions by clouds.yaml alone, and the authorities stand beside it."""
    secret = secret_data(cloud["Secret", "k-orc-clouds-yaml"])
    trusted = yaml.safe_load(secret["clouds.yaml"])["clouds"]["openstack"]["cacert"]
    assert secret["cacert"]
    assert trusted.startswith("cacert-")


def test_another_password_is_in_a_secret_of_another_name(release: Release) -> None:
    def user(drawn: str) -> Object:
        paper = Paper(SERVICES, ACTUATORS, lambda _: release, drawn=drawn, served=SERVED)
        found = [obj for planned in paper.render([CLOUD], "openstack") for obj in planned.objects]
        return {key(obj): obj for obj in found}["User.openstack.k-orc.cloud", "glance-user"]["spec"]["resource"]

    assert user("one")["passwordRef"] != user("other")["passwordRef"]
    assert {**user("one"), "passwordRef": ""} == {**user("other"), "passwordRef": ""}


def said(generation: int, **conditions: tuple[str, str, int]) -> Any:
    told = [
        {"type": type_, "status": status, "reason": reason, "message": "why", "observedGeneration": seen}
        for type_, (status, reason, seen) in conditions.items()
    ]
    metadata = {"name": "glance", "generation": generation}
    return judge(
        {
            "apiVersion": "openstack.k-orc.cloud/v1alpha1",
            "kind": "User",
            "metadata": metadata,
            "spec": {},
            "status": {"conditions": told},
        }
    )


def test_it_is_believed_by_its_own_rule() -> None:
    assert said(2, Available=("True", "Success", 2), Progressing=("False", "Success", 2)).ready
    assert "not yet seen" in said(2, Available=("True", "Success", 1), Progressing=("False", "Success", 1)).message
    assert "does K-ORC run?" in said(1).message
    for reason in ("Progressing", "TransientError"):
        found = said(1, Available=("True", "Success", 1), Progressing=("True", reason, 1))
        assert (found.state, found.message) == (State.PROGRESSING, "User/glance: why")
    for reason in ("InvalidConfiguration", "UnrecoverableError"):
        found = said(1, Available=("False", reason, 1), Progressing=("False", reason, 1))
        assert (found.state, found.reason) == (State.FAILED, "KORCFailed")
        assert "User/glance: why; mend what it names, then delete this object" in found.message
