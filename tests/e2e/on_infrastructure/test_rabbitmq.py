"""A cloud moves from RabbitMQ 4.0 to 4.3, service by service, while servers and ports come and go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tools.chaos.api import Access, Api
from tools.chaos.journal import Journal, now
from tools.chaos.load import Load
from tools.chaos.servers import Guest, only_guest
from tools.chaos.site import Site
from tools.chaos.writers import Ports, Turnover
from tools.cloud import proof
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import ROOT, Kubernetes, module, ours

from ..conftest import CABLED, Report, stands
from ..waiting import until
from .pinger import Pinger

OLD, NEW = "4.0", "4.3"
FIRST, SECOND = "rabbitmq", "rabbitmq-green"
SERVICES = ("neutron", "nova")
"""Services of the minimal cloud that use a broker; Nova last."""
MAX_SERVERS = 3
MOVE = 600
"""Seconds within which a service moves."""


class Servers(Turnover):
    """Servers in Nova, of which the oldest is deleted before another is created, once it runs: both are work for all
    its programs.
    """

    kind: str = "boots"
    interval: float = 6.0
    service = "compute"

    def __init__(self, api: Api, image: str, flavor: str) -> None:
        super().__init__(api)
        self._image, self._flavor = image, flavor
        self.broken: dict[str, str] = {}
        """What became of servers that did not run in time, by name."""
        self.started: set[str] = set()
        """Names of servers that ran."""

    def attempt(self, number: int) -> str:
        while len(self._existing) >= MAX_SERVERS:
            self.look_at(*self._existing[0])
            self._remove(*self._existing[0])
        return super().attempt(number)

    def look_at(self, key: str, path: str) -> None:
        """Wait until a server runs or is broken, and note it. One that waits for a service that moves takes as long as
        the move.
        """
        ends, server = now() + MOVE, self._api.json(self.service, "GET", path)["server"]
        while server["status"] == "BUILD" and now() < ends:
            time.sleep(1)
            server = self._api.json(self.service, "GET", path)["server"]
        if server["status"] == "ACTIVE":
            self.started.add(key)
        else:
            self.broken[key] = f"{server['status']}: {server.get('fault', {}).get('message', 'no reason given')}"

    def look_at_rest(self) -> None:
        """Look at the servers that were not deleted, and delete them."""
        while self._existing:
            self.look_at(*self._existing[0])
            self._remove(*self._existing[0])

    def create(self, key: str) -> str:
        server = {"name": key, "imageRef": self._image, "flavorRef": self._flavor, "networks": "none"}
        answer = self._api.json(
            self.service,
            "POST",
            "/servers",
            json={"server": server},
            headers={"OpenStack-API-Version": "compute 2.37"},
        )
        return f"/servers/{answer['server']['id']}"

    def listed(self) -> set[str]:
        return {each["name"] for each in self._api.listed(self.service, "/servers?limit=500", "servers")}


@dataclass
class Broker:
    """What is seen of one of the two brokers."""

    cluster: Kubernetes
    namespace: str
    name: str

    def run(self, *words: str) -> str:
        """Return what a command of its first member prints."""
        return self.cluster.kubectl(
            "exec", "-n", self.namespace, f"{self.name}-server-0", "-c", "main", "--", *words
        ).strip()

    @property
    def version(self) -> str:
        return self.run("rabbitmqctl", "version").splitlines()[-1]

    @property
    def vhosts(self) -> set[str]:
        """Return its virtual hosts but for the one that every broker has."""
        return {
            each["name"] for each in json.loads(self.run("rabbitmqctl", "-q", "list_vhosts", "--formatter=json"))
        } - {"/"}

    @property
    def connections(self) -> list[str]:
        """Return the users of its open connections."""
        found = json.loads(self.run("rabbitmqctl", "-q", "list_connections", "user", "--formatter=json"))
        return [each["user"] for each in found]


@dataclass
class Move:
    """A service on its way from one broker to the other."""

    cluster: Kubernetes
    namespace: str
    said: list[str] = field(default_factory=list[str])
    """What `MessagingReady` said, each once."""

    def patch(self, **spec: Any) -> None:
        """Change fields of the cloud."""
        body = json.dumps({"spec": spec})
        kind = ours("openstackcontrolplane")
        self.cluster.kubectl("patch", kind, "cloud", "-n", self.namespace, "--type=merge", "-p", body)

    def brokers(self, service: str) -> set[str]:
        """Return the brokers on which a service has accounts."""
        found = self.cluster.items(ours("rabbitmqvhosts"), "-n", self.namespace)
        owned = [each for each in found if each["metadata"]["labels"].get("openstack.k8s.io/kind") == service]
        return {each["spec"]["rabbitmqRef"]["name"] for each in owned}

    def copies(self) -> list[str]:
        """Return the names of the workloads that serve the broker which is left."""
        found = self.cluster.items("deployments,statefulsets", "-n", self.namespace, "-l", "openstack.k8s.io/broker")
        return [each["metadata"]["name"] for each in found]

    def is_over(self, service: str) -> bool:
        """Return True once a service is Ready and has accounts on the second broker alone."""
        resource = self.cluster.get(ours(service), service, "-n", self.namespace)
        message = conditions(resource).get("MessagingReady", {}).get("message", "")
        if message and message not in self.said:
            self.said.append(message)
            print(f"    {service}: {message}")
        return ready(resource) and self.brokers(service) == {SECOND} and not self.copies()


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """A minimal cloud, Ready, in a cluster that has both versions of RabbitMQ."""
    with stands(MINIMAL, _change) as found:
        module("images", "build", "rabbitmq-4.3")
        module("images", "load", "rabbitmq-4.3")
        yield found


def _change(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec["ovn"], **CABLED}
    # As the guide says for the time of a move.
    spec["nova"] = {"compute": {"rollout": {"maxUnavailable": "100%"}}}


@pytest.fixture
def cluster(stood: tuple[Session, Cloud]) -> Kubernetes:
    """The cluster of this cloud, not that of the folder."""
    return stood[0].cluster


@pytest.fixture
def move(stood: tuple[Session, Cloud]) -> Move:
    return Move(stood[0].cluster, stood[1].namespace)


@pytest.fixture
def brokers(stood: tuple[Session, Cloud]) -> tuple[Broker, Broker]:
    session, cloud = stood
    return Broker(session.cluster, cloud.namespace, FIRST), Broker(session.cluster, cloud.namespace, SECOND)


@pytest.fixture(scope="module")
def guest(stood: tuple[Session, Cloud]) -> Guest:
    """A server that answers at its floating IP."""
    return only_guest(stood[0].cluster, stood[1].namespace)


def test_a_second_broker_stands(cluster: Kubernetes, cloud: Cloud, brokers: tuple[Broker, Broker]) -> None:
    first = cluster.get(ours("rabbitmq"), FIRST, "-n", cloud.namespace)
    cluster.apply(
        {
            "apiVersion": "openstack.k8s.io/v1alpha1",
            "kind": "RabbitMQ",
            "metadata": {"name": SECOND, "namespace": cloud.namespace},
            "spec": {"version": NEW, "storageSize": "1Gi", "tls": first["spec"]["tls"]},
        }
    )

    def stands_second() -> bool:
        return ready(cluster.get(ours("rabbitmq"), SECOND, "-n", cloud.namespace))

    until("the second RabbitMQ to be Ready", stands_second, 300, 1)
    assert [broker.version.rpartition(".")[0] for broker in brokers] == [OLD, NEW]


def test_all_services_move_under_load(
    stood: tuple[Session, Cloud], move: Move, brokers: tuple[Broker, Broker], guest: Guest, report: Report
) -> None:
    conn = proof.connect(stood[0].cluster, stood[1].namespace)
    network = next(iter(conn.network.ports(device_id=guest.id))).network_id
    site, boot = Site(stood[0].cluster), guest.boot()
    ports = Ports(Api(Access(site)), network)
    servers = Servers(Api(Access(site)), proof.image(conn).id, proof.flavor(conn).id)
    journal, seconds = Journal(ROOT / "build" / "rabbitmq.journal"), dict[str, float]()
    # A stranger who reads the table has to see which services used the first broker before.
    assert brokers[0].vhosts
    assert brokers[0].connections
    with Pinger(guest.floating) as pinger, Load(journal, [ports, servers]) as load:
        until("servers to be made", lambda: len(journal.acknowledged("boots")) > 2, 120, stages=())
        began = now()
        for service in SERVICES:
            started = now()
            move.patch(**{service: {"messaging": {"rabbitmqRef": {"name": SECOND}}}})
            until(f"{service} to have moved", partial(move.is_over, service), MOVE, 1, stages=())
            seconds[service] = round(now() - started, 1)
        ended = now()
    figures = {
        "seconds": seconds,
        "pings": pinger.sent,
        "pings_lost": pinger.lost,
        **{
            kind: {
                "acknowledged": len(journal.acknowledged(kind)),
                "failed": journal.failed(began, ended).get(kind, 0),
                "gap": journal.outages(began, ended, load.intervals)[kind],
                "errors": journal.errors(began, ended).get(kind, []),
            }
            for kind in ("ports", "boots")
        },
    }
    print(f"    {figures}")
    report.add(rabbitmq_move=figures, rabbitmq_move_conditions=move.said)
    assert any("waits for" in message for message in move.said)
    assert brokers[0].vhosts == set()
    assert brokers[0].connections == []
    assert brokers[1].connections
    assert guest.boot() == boot
    assert pinger.lost == 0
    assert journal.failed(began, ended) == {}
    assert journal.acknowledged("ports") <= ports.present()
    assert journal.acknowledged("boots") <= servers.present()
    # No request was left on the broker that was left: each server ran, not only those that were created last.
    servers.look_at_rest()
    assert servers.broken == {}
    assert servers.started == journal.acknowledged("boots")


def test_the_first_broker_goes(cluster: Kubernetes, move: Move) -> None:
    move.patch(rabbitmq={"enabled": False})

    def is_gone() -> bool:
        names = {each["metadata"]["name"] for each in cluster.items(ours("rabbitmqs"), "-n", move.namespace)}
        plane = cluster.get(ours("openstackcontrolplane"), "cloud", "-n", move.namespace)
        return names == {SECOND} and ready(plane)

    until("the first RabbitMQ to be gone", is_gone, 300, 1, stages=())


def test_a_new_server_is_reached(stood: tuple[Session, Cloud], guest: Guest) -> None:
    assert stood[0].prove(stood[1])["reply"]
    assert guest.boot()
