"""Placement: the plainest service shows what every service has."""

from __future__ import annotations

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, SpecError, Step
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.services.placement.service import plan
from openstack_operator.testing import context
from tests.planning import planner

CONTRACTS = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
}


planned = planner(plan, PLACEMENT, published=CONTRACTS)


def step(made: Plan, name: str) -> Step:
    return next(step for step in made if step.name == name)


def obj(made: Plan, kind: str) -> Object:
    return next(obj for obj in made.objects if obj["kind"] == kind)


def config(made: Plan) -> str:
    return next(
        kube.secret_data(obj)["placement.conf"]
        for obj in made.objects
        if obj["kind"] == "Secret" and obj["metadata"]["name"] == "placement-config"
    )


def test_the_schema_waits_for_the_database_alone(release: Release) -> None:
    schema = step(planned(release), "Schema")
    assert {needed.name for needed in schema.after} == {"Config", "Credentials", "Database"}
    assert schema.barrier


def test_the_api_waits_for_its_schema_and_its_user(release: Release) -> None:
    made = planned(release)
    assert {needed.name for needed in step(made, "API").after} >= {"Schema", "Identity", "Database", "Config"}
    assert {needed.name for needed in step(made, "Endpoint").after} >= {"API", "Identity"}


def test_a_changed_option_rolls_the_pods_and_runs_no_job_again(release: Release) -> None:
    before, after = planned(release), planned(release, {"config": {"DEFAULT": {"debug": True}}})
    digests = [obj(made, "Deployment")["spec"]["template"]["metadata"]["annotations"] for made in (before, after)]
    assert digests[0] != digests[1]
    assert obj(before, "Job") == obj(after, "Job")


def test_a_changed_image_is_another_job(release: Release) -> None:
    names = {obj(planned(release, spec), "Job")["metadata"]["name"] for spec in ({}, {"image": "placement:next"})}
    assert len(names) == 2


def test_the_users_options_win_over_defaults(release: Release) -> None:
    spec = {"config": {"oslo_policy": {"enforce_scope": False}}}
    assert "enforce_scope = false" in config(planned(release, spec))


def test_wired_options_cannot_be_set(release: Release) -> None:
    spec = {"config": {"placement_database": {"connection": "sqlite://"}, "api": {"auth_strategy": "noauth2"}}}
    with pytest.raises(SpecError) as raised:
        planned(release, spec)
    assert raised.value.path == "spec.config.api.auth_strategy"
    assert "api.auth_strategy, placement_database.connection" in str(raised.value)


def test_passwords_the_cluster_holds_are_kept(release: Release) -> None:
    held = kube.secret(context(PLACEMENT, release=release), "placement-credentials", {"database": "kept"})
    made = planned(release, children={kube_key(held): held}, draw=lambda: "new")
    data = kube.secret_data(next(iter(step(made, "Credentials").objects)))
    assert data == {"database": "kept", "identity": "new", "token-cache": "new"}
    assert step(made, "Credentials").guarded
    assert "placement:kept@mariadb.openstack" in config(made)


def kube_key(held: Object) -> tuple[str, str]:
    return held["kind"], held["metadata"]["name"]


def test_the_public_address_is_known_once_the_port_is(release: Release) -> None:
    spec = {"expose": {"type": "NodePort", "host": "cloud.example.org"}}
    assert planned(release, spec).outcome.endpoint == "http://placement-api.openstack.svc.cluster.local:8778"
    live = {"kind": "Service", "spec": {"ports": [{"port": 8778, "nodePort": 30123}]}}
    made = planned(release, spec, children={("Service", "placement-api"): live})
    assert made.outcome.endpoint == "http://cloud.example.org:30123"
    assert made.outcome.published["internalURL"] == "http://placement-api.openstack.svc.cluster.local:8778"
    entry = obj(made, "KeystoneService")
    assert entry["spec"]["endpoints"]["public"] == "http://cloud.example.org:30123"

    # The Service was deleted: nobody is told another address before there is one.
    without = planned(release, spec, children={("KeystoneService", "placement-catalog"): entry})
    assert without.outcome.published == made.outcome.published
    assert obj(without, "KeystoneService") == entry
    inside = planned(release, {}, children={("KeystoneService", "placement-catalog"): entry})
    assert inside.outcome.endpoint == "http://placement-api.openstack.svc.cluster.local:8778"


@pytest.mark.parametrize(
    ("ingress", "host", "url"),
    [
        ([], None, "http://placement-api.openstack.svc.cluster.local:8778"),
        ([{"ip": "192.0.2.7"}], None, "http://192.0.2.7:8778"),
        ([{"hostname": "lb.example.org"}], None, "http://lb.example.org:8778"),
        ([{"ip": "192.0.2.7"}], "cloud.example.org", "http://cloud.example.org:8778"),
    ],
)
def test_a_load_balancers_address(release: Release, ingress: list[Object], host: str | None, url: str) -> None:
    live = {"kind": "Service", "spec": {}, "status": {"loadBalancer": {"ingress": ingress}}}
    expose = {"type": "LoadBalancer"} | ({"host": host} if host else {})
    made = planned(release, {"expose": expose}, children={("Service", "placement-api"): live})
    assert made.outcome.endpoint == url
