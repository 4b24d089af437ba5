"""Heat: what must hold besides its goldens, above all that stacks outlive a replacement of passwords."""

from __future__ import annotations

from configparser import ConfigParser
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import (
    RELEASE_ANNOTATION,
    Incomplete,
    Object,
    Plan,
    Release,
    SpecError,
    UnsupportedError,
    key,
)
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.services.heat.config import GRACE
from openstack_operator.services.heat.model import HEAT
from openstack_operator.services.heat.service import plan
from openstack_operator.testing import context
from tests.planning import draws, objects, rolled_out

PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
}
ORDER = {"heat-identity-rotation": {"at": "2026-01-01T00:00:00Z"}}
Objects = dict[tuple[str, str], Object]


def planned(release: Release, children: Objects | None = None, **spec: Any) -> Plan:
    return _planned(release, children or {}, {}, spec)


def _planned(release: Release, children: Objects, secrets: dict[str, dict[str, str]], spec: dict[str, Any]) -> Plan:
    return plan(
        context(
            HEAT,
            spec,
            release=release,
            published=PUBLISHED,
            children=children,
            secrets=secrets,
            draw=draws(),
        )
    )


def options(made: Plan, program: str = "engine-config") -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(kube.secret_data(objects(made)["Secret", f"heat-{program}"])["heat.conf"])
    return parser


def encryption_key(made: Plan) -> str:
    return options(made)["DEFAULT"]["auth_encryption_key"]


def test_the_key_is_made_once_and_outlives_the_service(release: Release) -> None:
    first = planned(release)
    again = planned(release, rolled_out(first))
    assert encryption_key(again) == encryption_key(first)
    # Heat takes no other length.
    assert len(encryption_key(first)) == 32
    secret = objects(first)["Secret", "heat-encryption"]
    marks = {kube.IRREPLACEABLE: "true", kube.RETAIN: "true"}
    assert secret["metadata"]["annotations"].items() >= marks.items()
    assert kube.secret_data(secret) == {"auth_encryption_key": encryption_key(first)}


def test_only_the_engine_has_the_secrets_of_stacks(release: Release) -> None:
    made = planned(release)
    secrets = {("DEFAULT", "auth_encryption_key"), ("DEFAULT", "stack_domain_admin_password"), ("trustee", "password")}
    assert all(options(made).has_option(*each) for each in secrets)
    assert not any(options(made, "config").has_option(*each) for each in secrets)
    volumes = {
        name: {volume.get("secret", {}).get("secretName") for volume in obj["spec"]["template"]["spec"]["volumes"]}
        for (kind, name), obj in objects(made).items()
        if kind == "Deployment"
    }
    assert {name for name, read in volumes.items() if "heat-engine-config" in read} == {"heat-engine"}


def test_servers_reach_wait_conditions_by_the_public_address_of_the_cloudformation_api(release: Release) -> None:
    made = planned(
        release, expose={"type": "Gateway", "host": "heat.example.org", "gateway": {"parentRefs": [{"name": "g"}]}}
    )
    default = options(made)["DEFAULT"]
    public = "https://heat-api-cfn.example.org"
    assert default["heat_metadata_server_url"] == public
    assert default["heat_waitcondition_server_url"] == f"{public}/v1/waitcondition"
    entries = {
        obj["spec"]["type"]: obj["spec"]["endpoints"]["public"]
        for (kind, _), obj in objects(made).items()
        if kind == "KeystoneService"
    }
    assert entries == {
        "orchestration": "https://heat.example.org/v1/%(project_id)s",
        "cloudformation": f"{public}/v1",
    }


def test_an_api_without_a_known_port_keeps_its_last_address(release: Release) -> None:
    spec: dict[str, Any] = {"expose": {"type": "NodePort", "host": "192.0.2.1"}}
    children = rolled_out(planned(release, **spec))
    for name, port in (("heat-catalog", 30004), ("heat-catalog-api-cfn", 30000)):
        children["KeystoneService", name]["spec"]["endpoints"]["public"] = f"http://192.0.2.1:{port}/v1"
    made = planned(release, children, **spec)
    assert options(made)["DEFAULT"]["heat_metadata_server_url"] == "http://192.0.2.1:30000"
    assert made.outcome.endpoint == "http://192.0.2.1:30004/v1"


def test_the_domain_has_an_administrator_and_the_roles_of_stacks(release: Release) -> None:
    made = planned(release)
    spec = objects(made)["KeystoneDomain", "heat-domain"]["spec"]
    assert (spec["domain"], spec["administrator"]) == ("heat", "heat_domain_admin")
    assert spec["roles"] == ["heat_stack_owner", "heat_stack_user"]
    default = options(made)["DEFAULT"]
    assert (default["stack_user_domain_name"], default["stack_domain_admin"]) == ("heat", "heat_domain_admin")
    stored = kube.secret_data(objects(made)["Secret", spec["passwordSecretRef"]["name"]])
    assert stored[spec["passwordSecretRef"]["key"]] == default["stack_domain_admin_password"]
    # What stacks made in it has to outlive the Heat, as its schema does.
    assert "deletionPolicy" not in spec


def users(made: Plan) -> dict[str, str]:
    """Users in the options of the engine."""
    found = options(made)
    return {
        "service": found["keystone_authtoken"]["username"],
        "administrator": found["DEFAULT"]["stack_domain_admin"],
        "trustee": found["trustee"]["username"],
    }


def test_a_replacement_of_passwords_leaves_the_user_whom_trusts_name(release: Release) -> None:
    """A trust names its trustee by id: with another user, no stack that exists could be changed."""
    made = planned(release)
    before = users(made)
    for _ in range(3):
        made = _planned(release, rolled_out(made), ORDER, {})
    assert users(made) == {
        "service": f"{before['service']}_B",
        "administrator": f"{before['administrator']}_B",
        "trustee": before["trustee"],
    }
    domains = {name: obj["spec"] for (kind, name), obj in objects(made).items() if kind == "KeystoneDomain"}
    assert domains["heat-domain--b"]["administrator"] == "heat_domain_admin_B"
    assert {each["domain"] for each in domains.values()} == {"heat"}


def test_the_trustee_logs_in_without_a_project(release: Release) -> None:
    """Its token is for the project of the trust."""
    made = planned(release)
    assert dict(options(made)["trustee"]).keys().isdisjoint({"project_name", "project_domain_name"})
    assert objects(made)["KeystoneUser", "heat-trustee-user"]["spec"]["roles"] == ["reader"]


def test_an_engine_that_ends_completes_what_it_has_begun(release: Release) -> None:
    made = planned(release)
    pod = objects(made)["Deployment", "heat-engine"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == GRACE
    # oslo.service would give up after a minute.
    assert 60 < int(options(made)["DEFAULT"]["graceful_shutdown_timeout"]) < GRACE


def test_all_clients_check_certificates_where_keystone_has_one(release: Release) -> None:
    published = {**PUBLISHED, "Keystone": {"internalURL": "https://keystone-api:5000/v3", "trustSecret": "ca"}}
    made = plan(context(HEAT, {}, release=release, published=published, secrets={"ca": {"ca.crt": "PEM"}}))
    for program in ("config", "engine-config"):
        found = options(made, program)
        trust = found["keystone_authtoken"]["cafile"]
        assert [found[section]["ca_file"] for section in ("clients", "ec2authtoken")] == [trust, trust]
        assert found["clients"]["endpoint_type"] == "internalURL"


def test_plugins_are_read_beside_heats_own(release: Release) -> None:
    assert not options(planned(release)).has_option("DEFAULT", "plugin_dirs")
    found = options(planned(release, plugins=["/opt/plugins"]))["DEFAULT"]["plugin_dirs"].split(",")
    assert "/usr/lib/heat" in found
    assert found[-1] == "/opt/plugins"


def test_deleted_stacks_are_purged(release: Release) -> None:
    job = objects(planned(release, purge={"keep": "9d", "schedule": "@weekly"}))["CronJob", "heat-purge"]
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["heat-manage", "purge_deleted", "--granularity", "days", "9"]
    assert job["spec"]["schedule"] == "@weekly"
    assert ("CronJob", "heat-purge") not in objects(planned(release, purge={"enabled": False}))


@pytest.mark.parametrize("option", ["auth_encryption_key", "stack_user_domain_name", "deferred_auth_method"])
def test_options_that_the_operator_sets_are_refused(release: Release, option: str) -> None:
    with pytest.raises(SpecError, match=rf"spec\.config\.DEFAULT\.{option}"):
        planned(release, config={"DEFAULT": {option: "mine"}})


def test_a_keystone_without_an_administrator_is_not_enough(release: Release) -> None:
    with pytest.raises(UnsupportedError, match=r"spec\.keystone\.authUrl: .*; use keystoneRef"):
        planned(
            release, keystone={"authUrl": "https://keystone.example.org/v3", "appCredentialRef": {"secretName": "c"}}
        )


def test_a_cloud_runs_one_if_it_is_enabled(release: Release) -> None:
    off = {key(obj) for obj in cloud(context(CONTROL_PLANE, {}, release=release)).objects}
    assert ("Heat", "heat") not in off
    spec = {"heat": {"enabled": True, "engine": {"replicas": 3}}}
    made = {key(obj): obj for obj in cloud(context(CONTROL_PLANE, spec, release=release)).objects}
    assert made["Heat", "heat"]["spec"]["engine"] == {"replicas": 3}
    assert made["Heat", "heat"]["spec"]["tls"]["pkiRef"] == {"name": "internal"}


def without_key(children: Objects, *others: str) -> Objects:
    """The Secret with the key has lost its content, and so have others."""
    lost = {("Secret", name) for name in ("heat-encryption", *others)}
    return {key: {**obj, "data": {}} if key in lost else obj for key, obj in children.items()}


def test_a_lost_encryption_key_comes_back_from_the_engine_s_configuration(release: Release) -> None:
    first = planned(release)
    again = planned(release, without_key(rolled_out(first)))
    assert options(again)["DEFAULT"]["auth_encryption_key"] == options(first)["DEFAULT"]["auth_encryption_key"]
    stored = kube.secret_data(objects(again)["Secret", "heat-encryption"])
    assert stored["auth_encryption_key"] == options(first)["DEFAULT"]["auth_encryption_key"]


def test_no_other_key_is_drawn_while_engines_run(release: Release) -> None:
    children = without_key(rolled_out(planned(release)), "heat-engine-config")
    with pytest.raises(Incomplete, match="Secret 'heat-encryption' has lost auth_encryption_key"):
        planned(release, children)


def test_the_trustee_stays_in_keystone(release: Release) -> None:
    """Keystone deletes each trust with the user to whom it was given."""
    made = objects(planned(release))
    policies = {name: obj["spec"].get("deletionPolicy") for (kind, name), obj in made.items() if kind == "KeystoneUser"}
    assert policies == {"heat-user": None, "heat-trustee-user": "Retain"}


@pytest.mark.parametrize(
    ("running", "live", "at_once"),
    [("2025.1", "2025.1", False), ("2024.1", "2024.1", True), ("2024.1", "2025.1", True), ("2025.1", "2026.1", True)],
    ids=["no upgrade", "before the upgrade", "within the upgrade", "on the way back"],
)
def test_engines_of_two_releases_do_not_run_beside_each_other(
    release: Release, running: str, live: str, at_once: bool
) -> None:
    children = rolled_out(planned(release))
    children["Deployment", "heat-engine"]["metadata"]["annotations"] = {RELEASE_ANNOTATION: live}
    made = plan(
        context(
            HEAT,
            release=release,
            published=PUBLISHED,
            children=children,
            running_release=running,
            draw=draws(),
        )
    )
    strategy = objects(made)["Deployment", "heat-engine"]["spec"].get("strategy", {})
    limits = {"maxUnavailable": "100%", "maxSurge": 0}
    assert strategy == ({"type": "RollingUpdate", "rollingUpdate": limits} if at_once else {})
