"""A catalog that K-ORC keeps: what is asked of it, and when it is believed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import judge, secret_data
from openstack_operator.plan import Context, Key, Object, Plan, Release, SpecError, State, Step, key
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from openstack_operator.testing import context
from tests.planning import objects

KINDS = {resource.handle: resource for resource in RESOURCES}
PLANS = {service.resource.handle: service.plan for service in SERVICES}
SERVED = frozenset(kind.handle for kind in EXTERNAL_KINDS)
KORC = {handle for handle in SERVED if handle.endswith(".openstack.k-orc.cloud")}
PUBLISHED = {"MariaDB": {"host": "db", "port": "3306", "adminSecret": "root"}, "Memcached": {"servers": "cache:11211"}}


@pytest.fixture
def keystone(release: Release) -> Any:
    def planned(provider: str, **changes: Any) -> Plan:
        spec = {"catalog": {"provider": provider}}
        found: Context[Any] = context(KINDS["Keystone"], spec, release=release, published=PUBLISHED, **changes)
        return PLANS["Keystone"](found)

    return planned


def used(plan: Plan) -> bool:
    return bool({kind for kind, _ in objects(plan)} & KORC)


def test_auto_takes_k_orc_where_all_it_needs_is_there(keystone: Any) -> None:
    assert used(keystone("auto", served=SERVED))
    assert not used(keystone("auto"))
    assert not used(keystone("auto", served=SERVED - {"User.openstack.k-orc.cloud"}))
    assert not used(keystone("builtin", served=SERVED))
    assert used(keystone("k-orc"))


def test_catalog_stays_with_its_provider(keystone: Any) -> None:
    own, theirs = objects(keystone("builtin")), objects(keystone("k-orc"))
    assert not used(keystone("auto", served=SERVED, children=own))
    assert used(keystone("auto", children=theirs))
    for first, then in ((own, "k-orc"), (theirs, "builtin")):
        with pytest.raises(
            SpecError, match=r"^spec\.catalog\.provider: .* manages the users and services of this Keystone"
        ):
            keystone(then, children=first)


def test_clouds_yaml_of_k_orc_has_the_fields_it_reads(keystone: Any) -> None:
    secret = secret_data(objects(keystone("k-orc"))["Secret", "k-orc-clouds-yaml"])
    assert set(secret) == {"clouds.yaml"}
    cloud = yaml.safe_load(secret["clouds.yaml"])["clouds"]["openstack"]
    # `interface` it does not know, and the public address may not be reached from where it runs.
    assert (cloud["endpoint_type"], cloud["region_name"]) == ("internal", "RegionOne")
    assert cloud["auth"]["auth_url"].startswith("http://keystone-api.openstack.svc")
    assert cloud["auth_type"] == "v3applicationcredential"
    assert "password" not in cloud["auth"]


def test_an_application_credential_is_there_for_who_asks(release: Release) -> None:
    spec = {"bootstrap": {"applicationCredential": True}}
    found = objects(PLANS["Keystone"](context(KINDS["Keystone"], spec, release=release, published=PUBLISHED)))
    assert "application_credential_secret" in secret_data(found["Secret", "keystone-app-credential"])["clouds.yaml"]
    assert not {kind for kind, _ in found} & KORC
    assert ("Secret", "k-orc-clouds-yaml") not in found


PUSHED, PULLED = "PushSecret.external-secrets.io", "ExternalSecret.external-secrets.io"


@pytest.fixture
def stored(release: Release) -> Any:
    """A Keystone whose clouds.yaml goes by way of a store."""

    def planned(drawn: str = "drawn", **changes: Any) -> Plan:
        spec = {"catalog": {"provider": "k-orc", "secretStoreRef": {"name": "openbao"}}}
        found = context(
            KINDS["Keystone"], spec, release=release, published=PUBLISHED, draw=lambda: drawn * 8, **changes
        )
        return PLANS["Keystone"](found)

    return planned


def steps(plan: Plan, kind: str) -> Step:
    return next(step for step in plan if any(key(obj)[0] == kind for obj in step.objects))


def test_login_of_k_orc_goes_through_the_secret_store(stored: Any) -> None:
    plan = stored()
    found = objects(plan)
    assert ("Secret", "k-orc-clouds-yaml") not in found
    pushed = steps(plan, PUSHED).objects[0]["spec"]
    pulled = found[PULLED, "k-orc-clouds-yaml"]["spec"]
    assert (
        pushed["secretStoreRefs"] == [pulled["secretStoreRef"]] == [{"name": "openbao", "kind": "ClusterSecretStore"}]
    )
    assert pushed["selector"] == {"secret": {"name": "keystone-app-credential"}}
    at = [each["match"] for each in pushed["data"]]
    assert [(each["secretKey"], each["remoteRef"]["remoteKey"]) for each in at] == [
        (each["secretKey"], each["remoteRef"]["key"]) for each in pulled["data"]
    ]
    # It is ours to read, so that K-ORC is asked for nothing before it can log in.
    labels = pulled["target"]["template"]["metadata"]["labels"]
    assert labels["openstack.k8s.io/kind"] == "keystone"


def test_the_store_is_read_once_the_newest_is_pushed(stored: Any) -> None:
    first, second = stored("one"), stored("other")
    names = [steps(plan, PUSHED).objects[0]["metadata"]["name"] for plan in (first, second)]
    assert names[0] != names[1]
    pull = steps(second, PULLED)
    assert steps(second, PUSHED) in pull.after
    assert steps(second, PUSHED).barrier
    told = [objects(plan)[PULLED, "k-orc-clouds-yaml"]["metadata"]["annotations"] for plan in (first, second)]
    assert told[0] != told[1]
    # Ready speaks of what was there before as well.
    assert pull.verdict
    assert not pull.verdict.ready
    there = objects(second)["Secret", "keystone-app-credential"]
    given = {**there, "metadata": {**there["metadata"], "name": "k-orc-clouds-yaml"}}
    again = steps(stored("other", children={("Secret", "k-orc-clouds-yaml"): given}), PULLED)
    assert again.verdict
    assert again.verdict.ready


@pytest.mark.parametrize(
    ("served", "version"),
    [(["v1"], "v1"), (["v1beta1"], "v1beta1"), (["v1", "v1beta1"], "v1"), ([], "v1")],
)
def test_a_store_is_read_in_the_version_that_is_served(stored: Any, served: list[str], version: str) -> None:
    plan = stored(served=frozenset(f"ExternalSecret.{each}.external-secrets.io" for each in served))
    assert objects(plan)[PULLED, "k-orc-clouds-yaml"]["apiVersion"] == f"external-secrets.io/{version}"


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
    paper = OfflineCluster(SERVICES, ACTUATORS, lambda _: release, password="drawn", served=SERVED)
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
        assert kept == names
        assert {f"cinder-{'user' if theirs == 'User' else 'catalog-official'}"} <= kept


def test_another_password_is_in_a_secret_of_another_name(release: Release) -> None:
    def user(drawn: str) -> Object:
        paper = OfflineCluster(SERVICES, ACTUATORS, lambda _: release, password=drawn, served=SERVED)
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


def test_readiness_of_a_k_orc_object_follows_its_conditions() -> None:
    assert said(2, Available=("True", "Success", 2), Progressing=("False", "Success", 2)).ready
    assert (
        "not processed it yet" in said(2, Available=("True", "Success", 1), Progressing=("False", "Success", 1)).message
    )
    assert "check that it runs" in said(1).message
    for reason in ("Progressing", "TransientError"):
        found = said(1, Available=("True", "Success", 1), Progressing=("True", reason, 1))
        assert (found.state, found.message) == (State.PROGRESSING, "User/glance: why")
    for reason in ("InvalidConfiguration", "UnrecoverableError"):
        found = said(1, Available=("False", reason, 1), Progressing=("False", reason, 1))
        assert (found.state, found.reason) == (State.FAILED, "KORCFailed")
        assert "User/glance: why; repair the cause, then delete this object" in found.message
