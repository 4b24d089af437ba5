"""The proof: a server booted through the public APIs answers on its floating IP."""

from __future__ import annotations

import base64
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from ..localcluster.kubernetes import ROOT, KubeError, Kubernetes, module, run
from . import view
from .stopwatch import Stopwatch
from .timeline import PLANES

CLOUD = "openstack-public"
NAME = "demo"
EXTERNAL = "172.24.4.0/24"
GATEWAY = "172.24.4.1"
T = TypeVar("T")


def clouds(cluster: Kubernetes, namespace: str) -> Path:
    """Write build/clouds.yaml from the administrator's Secret, readable by its owner only, and build/ca.crt beside it
    if the cloud has certificates. Return the path.
    """
    secret = cluster.get("secret", "keystone-clouds", "-n", namespace)
    files = {name: base64.b64decode(data).decode() for name, data in secret["data"].items()}
    path = ROOT / "build" / "clouds.yaml"
    path.parent.mkdir(exist_ok=True)
    config = yaml.safe_load(files["clouds.yaml"])
    if authorities := files.get("ca.crt"):
        trust = path.with_name("ca.crt")
        replaced(trust, authorities)
        for cloud in config["clouds"].values():
            cloud["cacert"] = str(trust)
    replaced(path, yaml.safe_dump(config, sort_keys=True))
    return path


def replaced(path: Path, text: str) -> None:
    """Replace the file by one with the text, for its owner only. A program that reads it meanwhile gets the
    old or the new text, never a part.
    """
    number, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(number, "w") as file:
        file.write(text)
    Path(temporary).replace(path)


def connect(cluster: Kubernetes, namespace: str) -> Connection:
    """Return a connection to the public APIs as the administrator."""
    config = OpenStackConfig(config_files=[str(clouds(cluster, namespace))])
    return Connection(config=config.get_one(CLOUD))


def until(event: str, look: Callable[[], T | None], timeout: float = 60, pause: float = 0.5) -> T:
    """Return the first true answer of `look`. Raises KubeError that names the `event` if there is none in time."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(pause)
    raise KubeError(f"{event}: not within {timeout:.0f} s")


def standing(cluster: Kubernetes, namespace: str) -> None:
    """Raise KubeError that says what there is instead, unless a cloud in the namespace is Ready."""
    is_installed = cluster.exists("crd", PLANES)
    planes = cluster.items(PLANES, "-n", namespace) if is_installed else []
    if not planes:
        raise KubeError(f"there is no cloud in namespace {namespace}; `make cloud` deploys one")
    for plane in planes:
        if not view.ready(plane):
            message = view.conditions(plane).get("Ready", {}).get("message", "nothing reported; does the operator run?")
            raise KubeError(f"{namespace}/{plane['metadata']['name']} is not Ready: {message}")


class ExternalHost:
    """A place on the external network to reach servers from: this machine where it is the router of that network, else
    a gateway node, by the pod that holds its Open vSwitch.
    """

    def __init__(self, cluster: Kubernetes, namespace: str) -> None:
        self._cluster, self._exec = cluster, list[str]()
        if cluster.kind == "embedded" and f" {GATEWAY}/" in run("ip", "-o", "-4", "address"):
            return
        label = "openstack.k8s.io/kind=ovnnetwork,app.kubernetes.io/component=gateway"
        pods = cluster.items("pods", "-n", namespace, "-l", label)
        names = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
        if not names:
            raise KubeError("no gateway runs; is a node labelled openvswitch=enabled and openstack-gateway=enabled?")
        self._exec = ["exec", "-n", namespace, names[0], "-c", "ovs-vswitchd", "--"]

    def run(self, *command: str) -> str | None:
        """Return the standard output of a command there; None if it fails."""
        try:
            return self._cluster.kubectl(*self._exec, *command) if self._exec else run(*command)
        except KubeError:
            return None


def prove(cluster: Kubernetes, namespace: str, watch: Stopwatch) -> dict[str, Any]:
    """Create image, flavor, networks, router, security group, keypair, server and floating IP; return facts for the
    report.
    """
    conn = connect(cluster, namespace)
    with watch.step("proof: image, flavor, networks, router, security group, keypair"):
        guest, size = image(conn), flavor(conn)
        network, external, group = networks(conn)
        keypair = conn.compute.find_keypair(NAME) or conn.compute.create_keypair(name=NAME)
    with watch.step("proof: server ACTIVE"):
        _remove_server(conn)
        started = time.monotonic()
        server = conn.compute.create_server(
            name=NAME,
            image_id=guest.id,
            flavor_id=size.id,
            key_name=keypair.name,
            networks=[{"uuid": network.id}],
            security_groups=[{"name": group.name}],
        )
        server = conn.compute.wait_for_server(server, interval=0.5, wait=120)
        active = round(time.monotonic() - started, 1)
    port = next(iter(conn.network.ports(device_id=server.id)))
    fixed = port.fixed_ips[0]["ip_address"]
    with watch.step("proof: console shows its address and its metadata"):
        until(
            "the console log to show the address OVN's DHCP gave and the metadata",
            lambda: _booted(conn, server, fixed),
            120,
        )
    with watch.step("proof: floating IP answers ping and TCP from outside"):
        client = ExternalHost(cluster, namespace)
        address = floating(conn, external, port)
        until(f"ping of {address}", lambda: client.run("ping", "-c1", "-W1", address), 60)
        reply = until(f"HTTP from {address}", lambda: client.run("curl", "-sS", "-m3", f"http://{address}/"), 60)
    return {
        "server_active_seconds": active,
        "server": server.id,
        "fixed_ip": fixed,
        "floating_ip": address,
        "reply": reply.strip(),
    }


def image(conn: Connection, name: str = NAME) -> Any:
    """Return an image of the proof's guest, uploaded once."""
    path = Path(module("images", "guest").strip().splitlines()[-1])
    existing = conn.image.find_image(name)
    if existing and existing.status == "active":
        return existing
    return conn.image.create_image(
        name, filename=str(path), disk_format="qcow2", container_format="bare", visibility="public", wait=True
    )


def flavor(conn: Connection) -> Any:
    """Return the smallest flavor."""
    return conn.compute.find_flavor("m1.nano") or conn.compute.create_flavor(name="m1.nano", ram=128, vcpus=1, disk=1)


def external_network(conn: Connection) -> Any:
    """Return the provider network, with its subnet."""
    net = conn.network
    external = net.find_network("public") or net.create_network(
        name="public",
        is_router_external=True,
        is_default=True,
        provider_network_type="flat",
        provider_physical_network="physnet1",
    )
    if not net.find_subnet("public"):
        net.create_subnet(
            name="public",
            network_id=external.id,
            ip_version=4,
            cidr=EXTERNAL,
            gateway_ip=GATEWAY,
            is_dhcp_enabled=False,
            allocation_pools=[{"start": "172.24.4.10", "end": "172.24.4.250"}],
        )
    return external


def networks(conn: Connection) -> tuple[Any, Any, Any]:
    """Return tenant network, provider network and security group; a router between the networks."""
    net, external = conn.network, external_network(conn)
    network = net.find_network(NAME) or net.create_network(name=NAME)
    subnet = net.find_subnet(NAME) or net.create_subnet(
        name=NAME, network_id=network.id, ip_version=4, cidr="10.20.0.0/24"
    )
    if not net.find_router(NAME):
        router = net.create_router(name=NAME, external_gateway_info={"network_id": external.id})
        net.add_interface_to_router(router, subnet.id)
    group = net.find_security_group(NAME)
    if not group:
        group = net.create_security_group(name=NAME)
        for rule in ({"protocol": "icmp"}, {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80}):
            net.create_security_group_rule(security_group_id=group.id, direction="ingress", ether_type="IPv4", **rule)
    return network, external, group


def _remove_server(conn: Connection) -> None:
    if old := conn.compute.find_server(NAME):
        for address in conn.network.ips():
            if address.port_id and any(p.id == address.port_id for p in conn.network.ports(device_id=old.id)):
                conn.network.delete_ip(address)
        conn.compute.delete_server(old)
        conn.compute.wait_for_delete(old, interval=0.5)


def _booted(conn: Connection, server: Any, fixed: str) -> bool:
    """Return True if the guest's console has the address by OVN's DHCP, and its data of the metadata service."""
    text = (conn.compute.get_server_console_output(server) or {}).get("output", "")
    return all(f"guest: {said}" in text for said in (f"address {fixed}", "instance-id ", f"hostname {NAME}", "ready"))


def floating(conn: Connection, external: Any, port: Any) -> str:
    """Return the floating IP of a port, created if it has none."""
    for address in conn.network.ips(port_id=port.id):
        return address.floating_ip_address
    return conn.network.create_ip(floating_network_id=external.id, port_id=port.id).floating_ip_address
