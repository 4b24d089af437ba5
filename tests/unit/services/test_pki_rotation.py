"""One authority takes the place of another: nobody is refused on the way, and nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openstack_operator import pki
from openstack_operator.kube import digest, secret_data
from openstack_operator.plan import Context, Object, Plan, Release, ReleaseEntry, Verdict
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan as mariadb
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import is_replacing_authority, needs_served_certificates, plan
from openstack_operator.testing import NOW, context, granted
from tests.planning import objects
from tests.searches import examples

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
Children = dict[tuple[str, str], Object]
SERVER = ReleaseEntry(image="mariadb", uid=1, gid=1, commands={"ready": ("true",)})
AUTHORITY, BUNDLE = ("Secret", "pki-authority"), ("Secret", "pki-bundle")


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def rotation(of: Plan) -> Verdict:
    (found,) = (step.verdict for step in of if step.name == "Rotation")
    assert found
    return found


@dataclass
class Cloud:
    """A PKI, a server that follows its certificate, a client that reads a bundle when it starts, and time."""

    release: Release
    spec: dict[str, Any] = field(default_factory=dict[str, Any])
    now: datetime = NOW
    children: Children = field(default_factory=dict[tuple[str, str], Object])
    server: Children = field(default_factory=dict[tuple[str, str], Object])
    """What the operator has made for the server."""
    pods: dict[str, Object] = field(default_factory=dict[str, Object])
    shown: pki.Pair | None = None
    """The certificate the server's program has read."""
    accepts: str = ""
    """Whom the server's program trusts."""
    trusted: str = ""
    """What the client's program has read."""
    draws: count[int] = field(default_factory=count)
    changed: dict[str, datetime] = field(default_factory=dict[str, datetime])
    followed: datetime = NOW

    def draw(self) -> str:
        return f"drawn {next(self.draws)}"

    def secrets(self) -> dict[str, Object]:
        found = {**self.children, **self.server}
        return {name: obj for (kind, name), obj in found.items() if kind == "Secret"}

    def facts(self) -> dict[str, Any]:
        listed: list[Object] = []
        for name, obj in self.secrets().items():
            at = stamp(self.changed[name])
            owner = {"kind": "MariaDB" if name.startswith("mariadb") else "PKI"}
            written = [{"time": at, "fieldsV1": {"f:data": {}}}]
            meta = {"creationTimestamp": stamp(NOW), "managedFields": written, "ownerReferences": [owner]}
            listed.append({**obj, "metadata": {**obj["metadata"], **meta}})
        pods = list(self.pods.values())
        return {"secrets": listed, "pods": pods, "shown": {"mariadb-server-0": [self.shown.cert] if self.shown else []}}

    def context(self, **changes: Any) -> Context[Any]:
        known: dict[str, Any] = {"children": self.children, "now": self.now, "draw": self.draw, "facts": self.facts()}
        return context(PKI, self.spec, release=self.release, **(known | changes))

    def look(self, **changes: Any) -> Plan:
        """A pass over the PKI."""
        made = plan(self.context(**changes))
        self.write(self.children, made)
        return made

    def serve(self) -> None:
        """A pass over the server."""
        published = plan(self.context()).outcome.published
        data = {name: secret_data(obj) for name, obj in self.secrets().items()}
        spec = {"tls": {"pkiRef": {"name": "pki"}}}
        known: dict[str, Any] = {"children": self.server, "now": self.now, "draw": self.draw}
        made = mariadb(
            context(MARIADB, spec, release=self.release, published={"PKI": published}, secrets=data, **known)
        )
        self.write(self.server, made)

    def write(self, into: Children, made: Plan) -> None:
        for known, obj in objects(made).items():
            if obj["kind"] == "Secret" and into.get(known, {}).get("data") != obj["data"]:
                self.changed[known[1]] = self.now
            into[known] = granted(obj)

    def pod(self, name: str, secret: str, kind: str) -> Object:
        """A pod that was ready from when it started."""
        labels = {"openstack.k8s.io/kind": kind, "app.kubernetes.io/instance": kind}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now)}
        return {
            "kind": "Pod",
            "metadata": {"name": name, "creationTimestamp": stamp(self.now), "labels": labels},
            "spec": {"nodeName": "one", "volumes": [{"secret": {"secretName": secret}}]},
            "status": {"phase": "Running", "conditions": [ready]},
        }

    def roll(self) -> None:
        """The client's pod is replaced."""
        self.now += SECOND
        self.pods["nova-api-1"] = self.pod("nova-api-1", "pki-bundle", "nova")
        self.trusted = secret_data(self.children[BUNDLE])["ca.crt"]
        self.now += SECOND

    def follow(self) -> None:
        """The server's program reads its files."""
        files = secret_data(self.server["Secret", "mariadb-tls"])
        self.shown, self.accepts, self.followed = pki.Pair("", files["tls.crt"]), files["ca.crt"], self.now

    def begin(self) -> None:
        self.look()
        self.serve()
        self.pods["mariadb-server-0"] = self.pod("mariadb-server-0", "mariadb-tls", "mariadb")
        self.follow()
        self.roll()

    def works(self) -> bool:
        """Whether the client accepts what the server shows."""
        assert self.shown
        return pki.is_trusted(self.shown.cert, [self.trusted])

    @property
    def authorities(self) -> dict[str, str]:
        return secret_data(self.children[AUTHORITY])


@pytest.fixture
def cloud(release: Release) -> Cloud:
    made = Cloud(release, {"overlap": "0s"})
    made.begin()
    return made


def at_rest(cloud: Cloud) -> Plan:
    """Everybody does what they do, until nothing is waited for."""
    for _ in range(60):
        made = cloud.look()
        cloud.serve()
        cloud.follow()
        cloud.roll()
        cloud.now += MINUTE
        assert cloud.works()
        if rotation(made).cause == "Ready":
            return made
    raise AssertionError(rotation(cloud.look()).message)


EVENTS = ["look", "look", "lose", "serve", "serve", "follow", "roll", "wait", "wait", "ask"]


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.sampled_from(EVENTS), min_size=80, max_size=120))
@pytest.mark.seconds
def test_clients_trust_every_certificate_that_a_server_may_show(events: list[str]) -> None:
    """However passes, kubelets and roll-outs mingle, writes are lost, and more than one is asked for."""
    cloud = Cloud(Release("test", "test", {"mariadb": SERVER}), {"overlap": "0s"})
    cloud.begin()
    for event in events:
        match event:
            case "look":
                cloud.look()
            case "lose":
                plan(cloud.context())
            case "ask":
                cloud.spec["authorityGeneration"] = cloud.spec.get("authorityGeneration", 1) + 1
            case "wait":
                # A kubelet, and the program, take their time, but not longer than is waited for.
                cloud.now += 2 * MINUTE
                changed = cloud.changed["mariadb-tls"]
                if cloud.followed < changed and cloud.now >= changed + 4 * MINUTE:
                    cloud.follow()
            case _:
                getattr(cloud, event)()
        assert cloud.works(), event
        assert cloud.shown
        assert pki.is_trusted(cloud.shown.cert, [cloud.accepts])
    at_rest(cloud)
    assert set(cloud.authorities) == {"tls.crt", "tls.key", "generation", "since"}


def test_authority_is_replaced_after_two_thirds_of_its_life_or_on_request(cloud: Cloud) -> None:
    first = cloud.authorities["tls.crt"]
    due = cloud.look().outcome.wake
    assert due
    assert due == pki.Pair("", first).due
    cloud.now = due - MINUTE
    assert rotation(cloud.look()).cause == "Ready"
    cloud.now = due
    assert rotation(cloud.look()).cause == "Trusting"
    at_rest(cloud)
    second = cloud.authorities["tls.crt"]
    assert second != first
    cloud.spec["authorityGeneration"] = 2
    at_rest(cloud)
    assert cloud.authorities["tls.crt"] not in {first, second}
    cloud.spec["authorityGeneration"] = 1
    assert rotation(cloud.look()).cause == "Ready"


def test_certificates_that_are_renewed_all_the_time_do_not_delay_it(release: Release) -> None:
    """They are renewed every five minutes, as long as it takes a pod to have followed for sure."""
    cloud = Cloud(release, {"overlap": "0s", "certificateLifetime": "10m"})
    cloud.begin()
    cloud.spec["authorityGeneration"] = 2
    renewals = {cloud.changed["mariadb-tls"]}

    def minute() -> Verdict:
        # The server is looked at first whenever a certificate is due.
        cloud.serve()
        cloud.follow()
        renewals.add(cloud.changed["mariadb-tls"])
        verdict = rotation(cloud.look())
        cloud.roll()
        cloud.now += MINUTE - 2 * SECOND
        return verdict

    assert "Ready" in [minute().cause for _ in range(25)]
    assert len(renewals) > 3


def test_each_step_names_whom_it_waits_for(cloud: Cloud) -> None:
    cloud.spec["authorityGeneration"] = 2
    cloud.look()
    old = cloud.shown
    text = rotation(cloud.look()).message
    assert "waits for MariaDB/mariadb (mariadb-tls), nova/nova (nova-api-1)" in text, "neither Secret nor pod"
    cloud.now += MINUTE
    cloud.serve()
    assert "waits for MariaDB/mariadb (mariadb-server-0), nova/nova (nova-api-1)" in rotation(cloud.look()).message
    cloud.roll()
    assert rotation(cloud.look()).message.endswith("waits for MariaDB/mariadb (mariadb-server-0)")
    cloud.now += 5 * MINUTE
    assert rotation(cloud.look()).cause == "Renewing"
    assert rotation(cloud.look()).message.endswith("waits for MariaDB/mariadb (mariadb-tls)")
    cloud.serve()
    cloud.now += 5 * MINUTE
    assert cloud.shown == old
    assert rotation(cloud.look()).message.endswith("waits for MariaDB/mariadb (mariadb-server-0)"), "it shows the old"
    cloud.follow()
    assert rotation(cloud.look()).cause == "Ready"


def test_a_certificate_by_the_old_authority_is_refused_afterwards(cloud: Cloud) -> None:
    old = cloud.shown
    assert old
    cloud.spec["authorityGeneration"] = 2
    at_rest(cloud)
    cloud.serve()
    cloud.follow()
    assert not pki.is_trusted(old.cert, [cloud.accepts])
    assert not pki.is_trusted(old.cert, [secret_data(cloud.children[BUNDLE])["ca.crt"]])


def test_ports_are_asked_last_and_count(cloud: Cloud) -> None:
    cloud.spec["authorityGeneration"] = 2
    assert not is_replacing_authority(cloud.context())
    cloud.look()
    assert is_replacing_authority(cloud.context())
    cloud.now += MINUTE
    cloud.serve()
    cloud.follow()
    cloud.roll()
    cloud.now += 5 * MINUTE
    cloud.look()

    def blind() -> dict[str, Any]:
        return {name: found for name, found in cloud.facts().items() if name != "shown"}

    assert not needs_served_certificates(cloud.context(facts=blind())), "the server's certificate is by the old one"
    cloud.serve()
    cloud.now += 5 * MINUTE
    assert needs_served_certificates(cloud.context(facts=blind()))
    assert rotation(cloud.look(facts=blind())).cause == "Renewing"


def test_nothing_is_done_in_the_dark(cloud: Cloud) -> None:
    """Where nothing was found out about users, they are waited for."""
    cloud.spec["authorityGeneration"] = 2
    cloud.look()
    cloud.now += DAY
    assert "waits for the state of their users" in rotation(cloud.look(facts={})).message
    assert rotation(cloud.look(facts={})).cause == "Trusting"


def test_clients_outside_have_time_but_not_longer_than_there_is(cloud: Cloud) -> None:
    cloud.spec |= {"authorityGeneration": 2, "overlap": "1h"}
    began = cloud.now
    cloud.look()
    cloud.serve()
    cloud.roll()
    cloud.now += 59 * MINUTE
    found = cloud.look()
    assert rotation(found).message.endswith("not before 2026-01-01 01:00 UTC")
    assert found.outcome.wake == began + 60 * MINUTE
    cloud.now += MINUTE
    assert rotation(cloud.look()).cause == "Renewing"


def test_a_short_life_leaves_time_to_renew(release: Release) -> None:
    cloud = Cloud(release, {"authorityLifetime": "1h"})
    cloud.begin()
    due = cloud.look().outcome.wake
    assert due
    cloud.now = due
    found = cloud.look()
    ends = pki.Pair("", cloud.authorities["tls.crt"]).ends
    cloud.serve()
    cloud.roll()
    until = cloud.look().outcome.wake
    assert until
    assert until <= cloud.now + (ends - due) / 2
    assert rotation(found).cause == "Trusting"


def test_an_authority_that_ended_is_not_waited_for(cloud: Cloud) -> None:
    """The operator was away for years, or somebody never rolled: there is nothing left to lose."""
    first = cloud.authorities["tls.crt"]
    cloud.now += 3651 * DAY
    cloud.look()
    assert cloud.authorities["tls.crt"] != first
    assert pki.split(secret_data(cloud.children[BUNDLE])["ca.crt"]) == pki.split(cloud.authorities["tls.crt"])
    cloud.now += 2 * DAY
    cloud.spec["authorityGeneration"] = 2
    cloud.look()
    cloud.now += 3649 * DAY
    coming = cloud.authorities["next.crt"]
    cloud.look()
    assert cloud.authorities["tls.crt"] == coming
    cloud.now += 3651 * DAY
    cloud.look()
    assert pki.Pair("", cloud.authorities["tls.crt"]).ends > cloud.now


@pytest.mark.parametrize("step", [1, 2])
def test_nothing_is_drawn_twice_or_lost(cloud: Cloud, step: int) -> None:
    """A Secret that was deleted comes back; a bundle that was edited, too; the same pass draws no second authority."""
    cloud.spec["authorityGeneration"] = 2
    for _ in range(step):
        cloud.look()
        cloud.serve()
        cloud.roll()
        cloud.now += 6 * MINUTE
        cloud.pods["mariadb-server-0"] = cloud.pod("mariadb-server-0", "mariadb-tls", "mariadb")
    held, bundle = cloud.authorities, secret_data(cloud.children[BUNDLE])
    dark: dict[str, Any] = {"facts": {}}
    lost = {"pki-authority": cloud.children.pop(AUTHORITY)}
    cloud.look(deleted_secrets=lost, **dark)
    assert cloud.authorities == held
    cloud.children[BUNDLE]["data"] = {"ca.crt": "bm9uZQ=="}
    cloud.look(**dark)
    assert secret_data(cloud.children[BUNDLE]) == bundle


@pytest.mark.parametrize("lost", ["tls.key", "all"])
def test_a_lost_key_leaves_those_trusted_who_are(cloud: Cloud, lost: str) -> None:
    """Deleted while nobody watched, or made unreadable."""
    before = cloud.authorities["tls.crt"]
    if lost == "all":
        del cloud.children[AUTHORITY]
    else:
        cloud.children[AUTHORITY]["data"] = {**cloud.children[AUTHORITY]["data"], "tls.key": "bm9uZQ=="}
    cloud.look()
    found = pki.split(secret_data(cloud.children[BUNDLE])["ca.crt"])
    assert found == pki.split(before) | pki.split(cloud.authorities["tls.crt"])
    cloud.roll()
    assert cloud.works()


def test_an_authority_from_a_backup_is_taken_up_and_replaced_again(cloud: Cloud) -> None:
    backup = cloud.children[AUTHORITY]
    cloud.spec["authorityGeneration"] = 2
    at_rest(cloud)
    cloud.children[AUTHORITY] = backup
    cloud.look()
    cloud.serve()
    cloud.follow()
    cloud.roll()
    at_rest(cloud)
    assert cloud.authorities["generation"] == "2"


def test_pods_that_are_marked_are_judged_by_their_mark(cloud: Cloud) -> None:
    """A program that reads whom it trusts only when it starts."""
    cloud.spec["authorityGeneration"] = 2
    cloud.look()
    cloud.serve()
    cloud.roll()
    pod = cloud.pods["mariadb-server-0"]
    cloud.now += 6 * MINUTE

    def marked(text: str) -> None:
        meta = {**pod["metadata"], "annotations": {"openstack.k8s.io/trusts": text}}
        cloud.pods["mariadb-server-0"] = {**pod, "metadata": meta}

    marked("another")
    assert rotation(cloud.look()).message.endswith("waits for MariaDB/mariadb (mariadb-server-0)")
    marked(digest(secret_data(cloud.server["Secret", "mariadb-tls"])["ca.crt"]))
    assert rotation(cloud.look()).cause == "Renewing"


def test_rotation_does_not_wait_for_pods_that_do_not_run(cloud: Cloud) -> None:
    cloud.spec["authorityGeneration"] = 2
    cloud.look()
    cloud.serve()
    cloud.roll()
    cloud.now += 6 * MINUTE
    old = cloud.pods.pop("mariadb-server-0")
    for name, change in {
        "done": {"status": {"phase": "Succeeded"}},
        "pending": {"spec": {**old["spec"], "nodeName": ""}},
    }.items():
        cloud.pods[name] = {**old, **change, "metadata": {**old["metadata"], "name": name}}
    assert rotation(cloud.look()).cause == "Renewing"


@pytest.mark.security
@pytest.mark.parametrize("forged", ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "2026-01-01", "", None])
def test_a_time_that_a_user_wrote_proves_nothing_of_a_pod(cloud: Cloud, forged: str | None) -> None:
    cloud.spec["authorityGeneration"] = 2
    cloud.look()
    cloud.now += MINUTE
    cloud.serve()
    cloud.roll()
    cloud.now += DAY
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": forged}
    pod = cloud.pods["mariadb-server-0"]
    old = {**pod["metadata"], "creationTimestamp": stamp(NOW)}
    cloud.pods["mariadb-server-0"] = {**pod, "metadata": old, "status": {"phase": "Running", "conditions": [ready]}}
    assert "mariadb-server-0" in rotation(cloud.look()).message


@pytest.mark.parametrize(
    ("conditions", "waits"),
    [([{"type": "Ready", "status": "False", "lastTransitionTime": stamp(NOW)}], True), ([], True)],
)
def test_a_pod_that_is_not_ready_may_not_have_followed(cloud: Cloud, conditions: list[Object], *, waits: bool) -> None:
    cloud.spec["authorityGeneration"] = 2
    cloud.look()
    cloud.now += MINUTE
    cloud.serve()
    cloud.roll()
    cloud.now += DAY
    pod = cloud.pods["mariadb-server-0"]
    cloud.pods["mariadb-server-0"] = {**pod, "status": {"phase": "Running", "conditions": conditions}}
    assert ("mariadb-server-0" in rotation(cloud.look()).message) is waits


def test_a_server_is_not_restarted_for_another_authority(cloud: Cloud) -> None:
    pods = cloud.server["StatefulSet", "mariadb-server"]["spec"]["template"]
    cloud.spec["authorityGeneration"] = 2
    at_rest(cloud)
    cloud.serve()
    assert cloud.server["StatefulSet", "mariadb-server"]["spec"]["template"] == pods
