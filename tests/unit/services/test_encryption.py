"""A cloud that is encrypted: who shows a certificate by whom, and when clients are told so, and held to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openstack_operator.plan import Key, Object, Plan, Release, condition_type, progressing
from openstack_operator.services.controlplane.encryption import CONDITION
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import phase, plan
from openstack_operator.testing import context

Objects = dict[Key, Object]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OFF = {"tls": {"enabled": False}}
APIS = ("keystone", "glance", "placement", "neutron", "nova")
PKI = {"pkiRef": {"name": "pki"}}
BY_HAND = {**OFF, **{name: {"tls": PKI} for name in ("mariadb", *APIS)}}


def planned(release: Release, spec: dict[str, Any], children: Objects | None = None) -> Plan:
    return plan(context(CONTROL_PLANE, spec, release=release, owner="cloud", children=children or {}, now=NOW))


def objects(found: Plan) -> Objects:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in found.objects}


def told(release: Release, spec: dict[str, Any], children: Objects | None = None) -> dict[str, dict[str, Any]]:
    """`spec.tls` of each service that has one."""
    made = objects(planned(release, spec, children))
    return {name: tls for (_, name), obj in made.items() if (tls := obj["spec"].get("tls"))}


def announced(found: dict[str, dict[str, Any]]) -> set[bool]:
    return {tls["announced"] for tls in found.values() if "announced" in tls}


def required(found: dict[str, dict[str, Any]]) -> set[str]:
    return {name for name, tls in found.items() if tls.get("required")}


def ready(obj: Object, *, generation: int = 1, since: timedelta = timedelta(minutes=5)) -> Object:
    """Ready as its first generation."""
    stamp = (NOW - since).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True", "observedGeneration": 1, "lastTransitionTime": stamp}
    metadata = {**obj["metadata"], "generation": generation}
    return {**obj, "metadata": metadata, "status": {"conditions": [condition]}}


def running(release: Release, spec: dict[str, Any], children: Objects | None = None) -> Objects:
    """What a spec makes, all Ready for a while."""
    return {key: ready(obj) for key, obj in objects(planned(release, spec, children)).items()}


def test_a_new_cloud_is_encrypted_from_the_start(release: Release) -> None:
    found = told(release, {})
    assert found["keystone"] == {"pkiRef": {"name": "internal"}, "announced": True, "required": True}
    assert found["mariadb"] == {"pkiRef": {"name": "internal"}, "required": True}
    assert found["ovn"]["pkiRef"] == {"name": "internal-ovn"}, "who has one of these may write to OVN's databases"
    assert {("PKI", "internal"), ("PKI", "internal-ovn")} <= objects(planned(release, {})).keys()


def test_encryption_stays_required_while_a_cloud_comes_up(release: Release) -> None:
    begun = {key: obj for key, obj in objects(planned(release, {})).items() if key[1] in {"internal", "mariadb"}}
    assert told(release, {}, begun) == told(release, {})
    assert told(release, {}, running(release, {})) == told(release, {})
    added = told(release, {"cinder": {"enabled": True}}, running(release, {}))
    assert "cinder" in required(added)


def test_a_cloud_that_has_begun_without_stays_without_until_it_is_told(release: Release) -> None:
    plain = running(release, OFF)
    assert told(release, {}, plain) == {}
    assert ("PKI", "internal") not in objects(planned(release, {}, plain))
    assert "internal" in str(told(release, {"tls": {"enabled": True}}, plain)["keystone"])


def test_kollas_images_are_left_in_peace(release: Release) -> None:
    assert told(release, {"imageProfile": "kolla"}) == {}


def test_the_issuer_is_handed_on(release: Release) -> None:
    made = objects(planned(release, {"tls": {"issuerRef": {"name": "mine", "kind": "ClusterIssuer"}}}))
    assert made["PKI", "internal"]["spec"] == {"issuerRef": {"name": "mine", "kind": "ClusterIssuer"}}
    assert objects(planned(release, {}))["PKI", "internal"]["spec"] == {}


@pytest.mark.security
@pytest.mark.parametrize("spec", [{}, {"tls": {"issuerRef": {"name": "mine", "kind": "ClusterIssuer"}}}])
def test_ovn_s_authority_certifies_ovn_alone(release: Release, spec: dict[str, Any]) -> None:
    """Not even an issuer of the user's, which certifies clients of other services, signs for OVN."""
    assert objects(planned(release, spec))["PKI", "internal-ovn"]["spec"] == {"allowedKinds": ["OVNNetwork"]}


def test_a_service_may_bring_its_own(release: Release) -> None:
    found = told(release, {"keystone": {"tls": {"secretRef": {"name": "brought"}}}})
    assert found["keystone"] == {"secretRef": {"name": "brought"}, "announced": True, "required": True}
    assert told(release, {"glance": {"tls": {"required": False}}})["glance"] == {
        "pkiRef": {"name": "internal"},
        "announced": True,
    }


def test_nothing_is_encrypted_where_nobody_wants_it(release: Release) -> None:
    assert told(release, OFF) == {}
    assert ("PKI", "internal") not in objects(planned(release, OFF))


def test_a_service_alone_is_encrypted_as_it_says(release: Release) -> None:
    assert told(release, {**OFF, "mariadb": {"tls": PKI}}) == {"mariadb": PKI}
    assert announced(told(release, BY_HAND)) == {True}, "a new cloud"


@pytest.mark.parametrize("spec", [{"tls": {"enabled": True}}, BY_HAND])
def test_a_cloud_that_runs_learns_to_trust_first(release: Release, spec: dict[str, Any]) -> None:
    plain = running(release, OFF)
    assert announced(told(release, spec, plain)) == {False}
    asked = {**running(release, spec, plain)}
    rolling = {**asked, ("Nova", "nova"): ready(asked["Nova", "nova"], generation=2)}
    assert announced(told(release, spec, rolling)) == {False}
    assert announced(told(release, spec, asked)) == {True}
    keystone = ready(objects(planned(release, spec, asked))["Keystone", "keystone"])
    before = {**rolling, ("Keystone", "keystone"): keystone}
    assert announced(told(release, spec, before)) == {True}, "it stays so"


def test_tls_is_required_only_once_all_clients_use_it(release: Release) -> None:
    spec = {"tls": {"enabled": True}}
    live = running(release, OFF)
    assert required(told(release, spec, live)) == set(), "in one edit"
    live = running(release, spec, live)
    assert required(told(release, spec, live)) == set(), "they trust, and are not told yet"
    live = running(release, spec, live)
    rolling = {**live, ("Nova", "nova"): ready(live["Nova", "nova"], generation=2)}
    assert required(told(release, spec, rolling)) == set(), "Nova's have not rolled yet"
    just = {**live, ("Nova", "nova"): ready(live["Nova", "nova"], since=timedelta(seconds=5))}
    assert required(told(release, spec, just)) == set()
    assert planned(release, spec, just).outcome.wake == NOW + timedelta(seconds=25)
    found = told(release, spec, live)
    assert required(found) == found.keys()
    assert required(told(release, {"tls": {"enabled": True, "required": False}}, live)) == set()


@pytest.mark.security
@pytest.mark.parametrize("forged", ["2026-11-27t00:00:00", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", ""])
def test_a_time_that_a_user_wrote_into_a_status_harms_no_cloud(release: Release, forged: str) -> None:
    spec = {"tls": {"enabled": True}}
    live = running(release, spec, running(release, spec, running(release, OFF)))
    assert required(told(release, spec, live))
    live["Nova", "nova"]["status"]["conditions"][0]["lastTransitionTime"] = forged
    assert required(told(release, spec, live)) == set(), "nobody knows how long Nova has been Ready"


def test_tls_required_of_one_service_waits_for_its_clients(release: Release) -> None:
    spec = {**OFF, **{name: {"tls": {**PKI, "required": True}} for name in ("mariadb", *APIS)}}
    live = running(release, OFF)
    assert required(told(release, spec, live)) == set()
    live = running(release, spec, running(release, spec, live))
    assert required(told(release, spec, live)) == {"mariadb", *APIS}
    rolling = {**running(release, spec, live), ("Nova", "nova"): ready(live["Nova", "nova"], generation=2)}
    assert required(told(release, spec, rolling)) >= {"mariadb", "keystone"}, "it stays so"


def test_a_cloud_without_its_authorities_lacks_infrastructure(release: Release) -> None:
    found = planned(release, {})
    assert CONDITION in found.condition.values()
    assert phase({condition_type(CONDITION): progressing("starting")}) == "Infrastructure"


def test_a_ceph_encrypts_as_well_where_it_is_ours_to_say(release: Release) -> None:
    def ceph(spec: dict[str, Any]) -> dict[str, Any]:
        return objects(planned(release, {"storageBackend": "ceph", **spec}))["CephStorage", "ceph"]["spec"]

    assert ceph({})["encrypted"]
    assert "encrypted" not in ceph({"ceph": {"mode": "external", "external": {"secretRef": {"name": "theirs"}}}})
    assert "encrypted" not in ceph(OFF)
    assert ceph({"ceph": {"encrypted": False}})["encrypted"] is False
