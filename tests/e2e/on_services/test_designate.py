"""Designate: zones and records that servers answer with, also while one of their pods is lost."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.localcluster.kubernetes import KubeError, Kubernetes

from ..facts import ready_again
from ..waiting import server_reaches, until

A, NS, SOA, PTR = 1, 2, 6, 12
ZONE = "designate-test.example."
SERVER = "dns-test"
COMPONENTS = {"bind9": "bind9", "pdns4": "pdns"}
"""Component of the servers, by backend."""

# Asks a server by UDP, as dig does. It prints the code of the answer, its number of records, and the seconds until it
# had one, or the time was over.
_DIG = r"""
import json, random, socket, struct, sys, time
host, port, name, kind, patience = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
labels = b"".join(bytes([len(label)]) + label.encode() for label in name.strip(".").split("."))
began, seen = time.monotonic(), [None, 0]
while True:
    number = random.randrange(65536)
    query = struct.pack(">HHHHHH", number, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        try:
            sock.sendto(query, (socket.gethostbyname(host), port))
            answer = sock.recv(4096)
        except OSError:
            answer = b""
    if len(answer) > 12 and struct.unpack(">H", answer[:2])[0] == number:
        seen = [answer[3] & 15, struct.unpack(">H", answer[6:8])[0]]
    spent = time.monotonic() - began
    if seen[1] or spent > patience:
        break
    time.sleep(0.05)
print(json.dumps([*seen, spent]))
"""


def is_ready(live: dict[str, Any]) -> bool:
    """Whether an object says so."""
    found = live.get("status", {}).get("conditions", ())
    return [each["status"] for each in found if each["type"] == "Ready"] == ["True"]


@dataclass(frozen=True)
class Dns:
    """The servers of a cloud, as a pod of it asks them."""

    cluster: Kubernetes
    namespace: str
    backend: str

    def ask(
        self, name: str, kind: int = A, *, patience: float = 0, host: str = "designate-dns", port: int = 53
    ) -> tuple[int | None, int, float]:
        """Return the code of the answer (None without one), the number of its records, and the seconds it took until
        there was one.
        """
        words = (f"{host}.{self.namespace}.svc.cluster.local", str(port), name, str(kind), str(patience))
        out = self.cluster.kubectl(
            "exec", "-n", self.namespace, "deploy/designate-api", "-c", "main", "--", "python3", "-c", _DIG, *words
        )
        code, records, seconds = json.loads(out)
        return code, records, seconds

    def pods(self, component: str) -> dict[str, str]:
        """Names of the pods that are ready, by uid."""
        label = f"openstack.k8s.io/kind=designate,app.kubernetes.io/component={component}"
        items = self.cluster.get("pods", "-n", self.namespace, "-l", label)["items"]
        return {each["metadata"]["uid"]: each["metadata"]["name"] for each in items if is_ready(each)}

    def kill(self, component: str) -> Callable[[], bool]:
        """Delete a pod without grace, and return a function that says whether there is another one in its place."""
        before = self.pods(component)
        uid, pod = min(before.items(), key=lambda each: each[1])
        self.cluster.kubectl("delete", "pod", pod, "-n", self.namespace, "--grace-period=0", "--force", "--wait=false")

        def is_back() -> bool:
            now = self.pods(component)
            return uid not in now and len(now) == len(before)

        return is_back


@dataclass(frozen=True)
class Zone:
    """A zone of the administrator's project."""

    api: Any
    id: str

    @classmethod
    def create(cls, conn: Connection, name: str = ZONE) -> Zone:
        api: Any = conn.dns
        return cls(api, api.create_zone(name=name, email="hostmaster@example.org").id)

    def add(self, name: str, records: Sequence[str], kind: str = "A") -> str:
        return str(self.api.create_recordset(self.id, name=name, type=kind, records=[*records], ttl=60).id)

    def becomes(self, status: str, timeout: float = 240) -> None:
        until(f"zone {self.id} to be {status}", lambda: self.api.get_zone(self.id).status == status, timeout, 1)


def serve_by(cluster: Kubernetes, cloud: Cloud, backend: str | None) -> None:
    """Another Designate, with the same database, has the servers of this kind."""
    name = "designates.openstack.k8s.io/designate"
    uid = cluster.get(name, "-n", cloud.namespace)["metadata"]["uid"]
    several = {"replicas": 2} if backend == "pdns4" else None
    patch = json.dumps({"spec": {"designate": {"backend": backend, "pdns4": several}}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", cloud.namespace, "--type=merge", "-p", patch)
    # The one that runs keeps its servers.
    cluster.kubectl("delete", name, "-n", cloud.namespace, "--wait=false")

    def is_another() -> bool:
        try:
            live = cluster.get(name, "-n", cloud.namespace)
        except KubeError:
            return False
        return live["metadata"]["uid"] != uid and is_ready(live)

    until(f"servers of {backend or 'the default'}", is_another, 600, 2)
    ready_again(cluster, cloud)


@pytest.fixture(scope="module", params=["bind9", "pdns4"])
def backend(request: pytest.FixtureRequest, stood: tuple[Session, Cloud]) -> Generator[str]:
    """The kind of the servers, which is another one for a part of the tests."""
    cluster, cloud = stood[0].cluster, stood[1]
    if request.param == "bind9":
        yield request.param
        return
    serve_by(cluster, cloud, request.param)
    try:
        yield request.param
    finally:
        serve_by(cluster, cloud, None)


@pytest.fixture
def dns(cluster: Kubernetes, cloud: Cloud, backend: str) -> Dns:
    return Dns(cluster, cloud.namespace, backend)


@pytest.fixture
def zone(conn: Connection) -> Generator[Zone]:
    made = Zone.create(conn)
    yield made
    made.api.delete_zone(made.id)
    until("the zone to be gone", lambda: made.api.find_zone(ZONE, ignore_missing=True) is None, 240, 1)


def test_a_zone_and_its_record_are_answered_within_five_seconds(dns: Dns, zone: Zone) -> None:
    began = time.monotonic()
    zone.add(f"www.{ZONE}", ["192.0.2.7"])
    code, records, _ = dns.ask(f"www.{ZONE}", patience=30)
    assert (code, records) == (0, 1)
    assert time.monotonic() - began < 5
    zone.becomes("ACTIVE")
    assert dns.ask(ZONE, NS)[:2] == (0, 1)
    # No record of that name, and no server for names of others.
    assert dns.ask(f"nobody.{ZONE}")[:2] == (3, 0)
    assert dns.ask("example.org.")[0] == 5


def test_zone_transfer_from_mini_dns_without_a_key_is_refused(dns: Dns, zone: Zone) -> None:
    zone.becomes("ACTIVE")
    assert dns.ask(ZONE, SOA)[:2] == (0, 1)
    code, records, _ = dns.ask(ZONE, SOA, host="designate-mdns-0", port=5354)
    assert (code, records) == (5, 0)


@pytest.fixture
def named(conn: Connection) -> Generator[Any]:
    """A server on a network of its own, whose names are in the zone; it can have a floating IP."""
    net: Any = conn.network
    guest, flavor, (_, _, group) = proof.image(conn), proof.flavor(conn), proof.networks(conn)
    router = net.find_router(proof.NAME)
    network = net.create_network(name=SERVER, dns_domain=ZONE)
    subnet = net.create_subnet(name=SERVER, network_id=network.id, ip_version=4, cidr="10.78.0.0/24")
    net.add_interface_to_router(router, subnet.id)
    server = conn.compute.create_server(
        name=SERVER,
        image_id=guest.id,
        flavor_id=flavor.id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
    )
    try:
        yield server_reaches(conn, server.id, "ACTIVE", 300)
    finally:
        conn.compute.delete_server(server)
        conn.compute.wait_for_delete(server, wait=240)
        net.remove_interface_from_router(router, subnet.id)
        net.delete_network(network)


def test_a_servers_floating_ip_has_its_name_and_a_ptr(dns: Dns, zone: Zone, conn: Connection, named: Any) -> None:
    zone.becomes("ACTIVE")
    net: Any = conn.network
    (port,) = net.ports(device_id=named.id)
    assert port.dns_name == SERVER
    address = net.create_ip(floating_network_id=net.find_network("public").id, port_id=port.id)
    try:
        assert dns.ask(f"{SERVER}.{ZONE}", patience=30)[:2] == (0, 1)
        reverse = f"{ipaddress.ip_address(address.floating_ip_address).reverse_pointer}."
        assert dns.ask(reverse, PTR, patience=60)[:2] == (0, 1)
    finally:
        net.delete_ip(address)
    until("the name to be gone", lambda: dns.ask(f"{SERVER}.{ZONE}")[:2] == (3, 0), 60, 1)


@pytest.mark.parametrize("lost", ["mdns", "server"])
def test_a_lost_pod_holds_back_no_change_for_good(dns: Dns, zone: Zone, lost: str) -> None:
    zone.add(f"before.{ZONE}", ["192.0.2.8"])
    assert dns.ask(f"before.{ZONE}", patience=30)[:2] == (0, 1)
    zone.becomes("ACTIVE")
    is_back = dns.kill(COMPONENTS[dns.backend] if lost == "server" else "mdns")
    zone.add(f"after.{ZONE}", ["192.0.2.9"])
    if lost == "mdns" or dns.backend == "pdns4":
        # Each server of BIND has its copy, of which this cloud has one; servers of PowerDNS share their zones.
        assert dns.ask(f"before.{ZONE}", patience=15)[:2] == (0, 1)
    until(f"a pod in the place of the lost {lost}", is_back, 180, 1)
    # A server that starts has its zones, without anybody's help.
    assert dns.ask(f"before.{ZONE}", patience=15)[:2] == (0, 1)
    assert dns.ask(f"after.{ZONE}", patience=240)[:2] == (0, 1)
    zone.becomes("ACTIVE")
