"""OVN's databases in an outage: what the operator tells, hands on and remembers."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import RECOVERY, Key, Object, Plan, Release, SpecError
from openstack_operator.services.ovnnetwork import recovery
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.testing import context
from tests.planning import rolled_out

Told = dict[str, Any] | None

LED: dict[str, Any] = {"state": "member", "led": True, "cluster": "one", "role": "", "why": ""}
ANEW: Told = {**LED, "cluster": "two"}
LOST: Told = {"state": "member", "led": False, "cluster": "one", "role": "", "why": "has no leader; waits for ovn-nb-1"}
EMPTY: Told = {"state": "empty", "led": False, "cluster": "", "role": "", "why": "has no data; waits for ovn-nb-0"}


def planned(
    release: Release,
    told: dict[str, Told] | None = None,
    children: dict[Key, Object] | None = None,
    force: str = "",
) -> Plan:
    given: dict[str, Any] = {"facts": told or {}, "annotations": {recovery.FORCE: force} if force else {}}
    return plan(context(OVN_NETWORK, {"replicas": 3}, release=release, owner="ovn", children=children or {}, **given))


def nb(*told: Told) -> dict[str, Told]:
    return {f"ovn-nb-{n}": each for n, each in enumerate(told)}


def recorded(children: dict[Key, Object]) -> dict[str, str]:
    held = kube.secret_data(children["Secret", "ovn-nb-raft"])
    return {name: held[name] for name in ("cluster", "rebuilt", "force", "forced") if name in held}


@pytest.fixture
def formed(release: Release) -> dict[Key, Object]:
    """The world once three members have formed their cluster."""
    children = rolled_out(planned(release))
    return rolled_out(planned(release, nb(LED, LED, LED), children))


def test_members_are_asked_where_they_are(release: Release) -> None:
    def pod(name: str, component: str, address: str | None) -> Object:
        labels = {kube.COMPONENT: component}
        return {"metadata": {"name": name, "labels": labels}, "status": {"podIP": address} if address else {}}

    pods = [pod("ovn-nb-0", "nb", "10.0.0.1"), pod("ovn-sb-0", "sb", "fd00::1"), pod("ovn-sb-1", "sb", None)]
    ctx = context(
        OVN_NETWORK, {"replicas": 3}, release=release, owner="ovn", pods=[*pods, pod("x", "other", "10.0.0.2")]
    )
    assert recovery.questions(ctx) == {"ovn-nb-0": "http://10.0.0.1:6661/", "ovn-sb-0": "http://[fd00::1]:6662/"}


def test_the_first_cluster_is_remembered_and_restarts_nothing(release: Release, formed: dict[Key, Object]) -> None:
    assert recorded(formed) == {"cluster": "one"}
    made = planned(release, nb(LED, LED, LED), formed)
    assert made.outcome.published.keys() == {"northbound", "southbound", "southboundForNodes"}
    assert "annotations" not in rolled_out(made)["Deployment", "ovn-northd"]["spec"]["template"]["metadata"]
    assert made.outcome.wake is None


def test_recovering_members_are_reported_while_recovery_lasts(release: Release, formed: dict[Key, Object]) -> None:
    made = planned(release, nb(LOST, None, EMPTY), formed)
    northbound = next(step for step in made if step.name == "Northbound")
    assert northbound.verdict is not None
    assert northbound.verdict.reason == RECOVERY
    assert "ovn-nb-0 has no leader; waits for ovn-nb-1; ovn-nb-1 does not answer" in northbound.verdict.message
    states = {member["name"]: member["state"] for member in made.outcome.members}
    assert states == {"ovn-nb-0": "leaderless", "ovn-nb-1": "unreachable", "ovn-nb-2": "empty"}
    assert made.outcome.wake is not None
    # What was known stays known.
    assert recorded(rolled_out(made)) == {"cluster": "one"}


def test_a_cluster_that_was_made_anew_is_told_to_its_clients(release: Release, formed: dict[Key, Object]) -> None:
    before = rolled_out(planned(release, nb(LED, LED, LED), formed))["Deployment", "ovn-northd"]
    rebuilt = rolled_out(planned(release, nb(ANEW, ANEW, EMPTY), formed))
    assert recorded(rebuilt) == {"cluster": "two", "rebuilt": "two"}
    later = planned(release, nb(ANEW, ANEW, ANEW), rebuilt)
    assert later.outcome.published["northboundRebuilt"] == "two"
    assert "southboundRebuilt" not in later.outcome.published
    assert rolled_out(later)["Deployment", "ovn-northd"]["spec"]["template"] != before["spec"]["template"]
    # It is not forgotten while nobody answers.
    assert planned(release, {}, rolled_out(later)).outcome.published["northboundRebuilt"] == "two"


def test_two_clusters_at_a_time_change_no_belief(release: Release, formed: dict[Key, Object]) -> None:
    assert recorded(rolled_out(planned(release, nb(LED, ANEW, ANEW), formed))) == {"cluster": "one"}


def test_the_users_word_is_handed_on_once(release: Release, formed: dict[Key, Object]) -> None:
    told = rolled_out(planned(release, nb(LOST, None, None), formed, force="ovn-nb-0"))
    host = "ovn-nb-0.ovn-nb.openstack.svc.cluster.local"
    assert recorded(told) == {"cluster": "one", "force": host}
    made = rolled_out(planned(release, nb(ANEW, LED, LED), told, force="ovn-nb-0"))
    assert recorded(made) == {"cluster": "two", "rebuilt": "two", "forced": "ovn-nb-0"}, "its data are the ones"
    # A disk that is lost later is not what the user spoke of.
    again = rolled_out(planned(release, nb(EMPTY, None, None), made, force="ovn-nb-0"))
    assert "force" not in recorded(again)
    released = rolled_out(planned(release, nb(EMPTY, None, None), again))
    assert recorded(rolled_out(planned(release, nb(EMPTY, None, None), released, force="ovn-nb-0")))["force"] == host


@pytest.mark.parametrize("named", ["ovn-nb-7", "nb-0"])
def test_a_word_about_nobody_is_refused(release: Release, named: str) -> None:
    with pytest.raises(SpecError, match=r"force-rebuild\]: there is no member .* choose from ovn-nb-0, ovn-nb-1"):
        planned(release, force=named)
