"""Nova's own authorities, over decades: each is replaced in time, nobody is refused, and one that ended is told of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from openstack_operator import kube, pki
from openstack_operator.plan import Object, Plan, Release, State, Verdict
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import NOW, context
from tests.planning import rolled_out

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack.svc", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack.svc", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
}
SECRETS = {"neutron-credentials": {"metadata": "shared"}}
PURPOSES = {
    "migration": ("nova-migration", "ca-cert.pem", "server-cert.pem"),
    "console": ("nova-console-node", "ca-cert.pem", "server-cert.pem"),
    "proxy": ("nova-console-proxy", "ca.crt", "tls.crt"),
}
TALKS = (("migration", "migration"), ("proxy", "console"), ("console", "proxy"))
"""Who looks at whose certificate."""


@dataclass
class Cloud:
    """A Nova whose nodes read what its Secrets hold some time after it was written."""

    release: Release
    now: datetime = NOW
    ready: bool = True
    """Whether all nodes are there."""
    children: dict[tuple[str, str], Object] = field(default_factory=dict[tuple[str, str], Object])
    draws: count[int] = field(default_factory=count)

    def look(self) -> Plan:
        nodes = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "observedGeneration": 1}
        status = {**nodes, "numberReady": 2 if self.ready else 1, "numberAvailable": 2 if self.ready else 1}
        if daemons := self.children.get(("DaemonSet", "nova-libvirt")):
            daemons |= {"status": status}
        known: dict[str, Any] = {"published": PUBLISHED, "secrets": SECRETS, "release": self.release}
        drawn: dict[str, Any] = {
            "now": self.now,
            "children": self.children,
            "draw": lambda: f"drawn {next(self.draws)}",
        }
        made = plan(context(NOVA, owner="nova", **known, **drawn))
        self.children = rolled_out(made)
        return made

    def files(self, purpose: str) -> Mapping[str, str]:
        return kube.secret_data(self.children["Secret", PURPOSES[purpose][0]])

    def authority(self, purpose: str) -> Mapping[str, str]:
        return kube.secret_data(self.children["Secret", f"nova-{purpose}-ca"])

    def signer(self, purpose: str) -> pki.Pair:
        held = self.authority(purpose)
        return pki.Pair(held["tls.key"], held["tls.crt"])

    def believed(self, before: Mapping[str, Mapping[str, str]]) -> None:
        """Who has read the Secrets and who has not yet believe each other."""
        for one, other in TALKS:
            for mine, theirs in ((before, {}), ({}, before), ({}, {})):
                trusts, shows = mine.get(one, self.files(one)), theirs.get(other, self.files(other))
                (_, ca, _), (_, _, cert) = PURPOSES[one], PURPOSES[other]
                assert pki.is_trusted(shows[cert], [trusts[ca]]), f"{one} refuses {other} at {self.now}"
                assert self.now < pki.ends(shows[cert])
                # libvirt and QEMU refuse to start with an authority that has ended.
                assert all(self.now < pki.ends(each) for each in pki.split(trusts[ca]))


@pytest.fixture
def cloud(release: Release) -> Cloud:
    return Cloud(release)


def told(made: Plan) -> list[Verdict]:
    return [step.verdict for step, name in made.condition.items() if name == "Authorities" and step.verdict]


def test_migration_certificates_stay_trusted_for_thirty_years(cloud: Cloud) -> None:
    signers: set[str] = set()
    made = cloud.look()
    while cloud.now < NOW + 11000 * DAY:
        before = {purpose: cloud.files(purpose) for purpose in PURPOSES}
        assert made.outcome.wake
        cloud.now = max(made.outcome.wake, cloud.now + MINUTE)
        made = cloud.look()
        cloud.believed(before)
        assert all(verdict.ready for verdict in told(made))
        signers.add(cloud.authority("migration")["tls.crt"])
    assert len(signers) == 5, "at two thirds of ten years, a day later by the new one"


@pytest.mark.parametrize("comes_back", [True, False])
def test_nodes_that_are_away_are_waited_for(cloud: Cloud, comes_back: bool) -> None:
    """Until a month before its end: libvirt starts with no authority that has ended."""
    cloud.look()
    first = cloud.signer("migration")
    cloud.now = first.due
    made = cloud.look()
    assert {verdict.cause for verdict in told(made)} == {"Trusting"}
    assert cloud.signer("migration") == first
    cloud.now, cloud.ready = cloud.now + 200 * DAY, False
    made = cloud.look()
    assert cloud.signer("migration") == first
    assert all("waits for " in verdict.message for verdict in told(made))
    if comes_back:
        cloud.ready = True
    else:
        cloud.now = first.ends - 30 * DAY
    cloud.look()
    assert cloud.signer("migration") != first
    if not comes_back:
        cloud.now += 5 * MINUTE
        cloud.look()
        assert first.cert not in cloud.files("migration")["ca-cert.pem"]
        return
    assert first.cert in cloud.files("migration")["ca-cert.pem"], "nobody has its key any more, and it does no harm"
    assert first.key not in str(cloud.authority("migration"))


@pytest.mark.parametrize("ready", [True, False])
def test_an_authority_that_ended_is_replaced_and_told_of(cloud: Cloud, ready: bool) -> None:
    """The operator was away for years, or a node."""
    cloud.look()
    first = cloud.signer("console")
    cloud.now, cloud.ready = first.ends + DAY, ready
    made = cloud.look()
    cloud.believed({})
    for verdict, uses in zip(told(made), ("live migrations", "consoles"), strict=True):
        assert verdict.state is State.PROGRESSING
        assert f"the authority of {uses} ended at {first.ends:%Y-%m-%d %H:%M} UTC" in verdict.message
        assert f"{uses} fail until all nodes have loaded the new one" in verdict.message
    assert made.outcome.wake == cloud.now + 5 * MINUTE
    again = cloud.look()
    assert [verdict.state for verdict in told(again)] == [State.PROGRESSING] * 2
    cloud.now += 5 * MINUTE
    assert all(verdict.ready for verdict in told(cloud.look()))
    assert cloud.authority("console").keys() == {"tls.crt", "tls.key", "generation", "since"}


def test_an_authority_that_cannot_be_read_is_made_anew(cloud: Cloud) -> None:
    cloud.look()
    cloud.children["Secret", "nova-console-ca"]["data"]["tls.key"] = "bm9uZQ=="
    cloud.look()
    cloud.believed({})


def test_an_authority_of_an_earlier_version_stays(cloud: Cloud) -> None:
    cloud.look()
    first = cloud.signer("migration")
    held = cloud.children["Secret", "nova-migration-ca"]
    before = cloud.files("migration")
    data = held["data"]
    held["data"] = {"key": data["tls.key"], "cert": data["tls.crt"]}
    cloud.look()
    assert cloud.signer("migration") == first
    assert cloud.files("migration") == before
