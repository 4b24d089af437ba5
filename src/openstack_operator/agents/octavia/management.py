"""Makes what amphorae need in the project of the services: `management.py prepare`; or writes what the controllers of
this node need to know of it: `management.py port`. Both are for the provider amphora, and may run any number of times.

Environment: SETTINGS, as JSON {cidr, flavor: {vcpus, ram, disk}, sshKey}; NODES, names of the nodes with controllers,
with commas between them; for `port`, also NODE, the name of this one, and FOLDER for the files.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from octavia.common import keystone, service  # pyright: ignore[reportMissingImports]
from openstack import connection, exceptions  # pyright: ignore[reportMissingImports]
from oslo_config import cfg  # pyright: ignore[reportMissingImports]

NETWORK, SUBNET = "lb-mgmt-net", "lb-mgmt-subnet"
AMPHORAE, CONTROLLERS = "lb-mgmt-sec-grp", "lb-health-mgr-sec-grp"
"""Security groups, by the names of Octavia's documentation."""
OWNER = "Octavia:health-mgr"
"""Device owner of the ports of controllers."""
PORT = "octavia-health-manager-"
"""Name of a controller's port, before the name of its node."""
REST, HEARTBEATS, SSH = 9443, 5555, 22
KEY = "octavia-amphora"

_COMPUTE_QUOTA = ("instances", "cores", "ram", "server_groups", "server_group_members")
_NETWORK_QUOTA = ("ports", "security_groups", "security_group_rules")


class Cloud:
    """The project of the services, as Octavia's user sees it."""

    def __init__(self, cloud: Any, project: str, settings: Mapping[str, Any]) -> None:
        self.net: Any = cloud.network
        self.compute: Any = cloud.compute
        self.project = project
        self.settings = settings

    def find(self, plural: str, name: str, **query: Any) -> Any:
        """Return the one of that name in the project; None without one. Raise SystemExit if there are several."""
        matches = list(getattr(self.net, plural)(name=name, project_id=self.project, **query))
        if len(matches) > 1:
            sys.exit(f"there are {len(matches)} {plural} called {name} in project {self.project}; delete all but one")
        return matches[0] if matches else None

    def ensure(self, kind: str, name: str, **body: Any) -> Any:
        """Return the resource of that name in the project, which is made if there is none."""
        if existing := self.find(f"{kind}s", name):
            return existing
        print(f"{kind} {name}: made", flush=True)
        return getattr(self.net, f"create_{kind}")(name=name, project_id=self.project, **body)

    def network(self) -> Any:
        """Return the management network; its subnet has no gateway: nothing leaves it."""
        network = self.ensure("network", NETWORK)
        cidr = self.settings["cidr"]
        subnet = self.ensure(
            "subnet",
            SUBNET,
            network_id=network.id,
            ip_version=4,
            cidr=cidr,
            gateway_ip=None,
            enable_dhcp=True,
        )
        if subnet.cidr != cidr:
            sys.exit(
                f"subnet {SUBNET} has {subnet.cidr}, not {cidr}; remove `amphora`, delete the subnet, then set it again"
            )
        return network

    def admit(self, group: Any, clients: Any, rules: Iterable[tuple[str, int | None]]) -> None:
        """Let the security group admit these protocols and ports from members of another one; further rules are left
        alone.
        """
        present = {
            (rule.protocol, rule.port_range_min, rule.remote_group_id)
            for rule in self.net.security_group_rules(security_group_id=group.id, direction="ingress")
        }
        for protocol, port in rules:
            if (protocol, port, clients.id) not in present:
                print(f"security group {group.name}: admits {protocol} {port or ''}", flush=True)
                self.net.create_security_group_rule(
                    security_group_id=group.id,
                    direction="ingress",
                    ether_type="IPv4",
                    protocol=protocol,
                    port_range_min=port,
                    port_range_max=port,
                    remote_group_id=clients.id,
                )

    def groups(self) -> tuple[Any, Any]:
        """Return the security groups of amphorae and of controllers, which admit each other alone."""
        amphorae, controllers = (self.ensure("security_group", name) for name in (AMPHORAE, CONTROLLERS))
        ssh = [("tcp", SSH)] if self.settings.get("sshKey") else []
        self.admit(amphorae, controllers, [("icmp", None), ("tcp", REST), *ssh])
        self.admit(controllers, amphorae, [("udp", HEARTBEATS)])
        return amphorae, controllers

    def flavor(self) -> Any:
        """Return the flavor of that size, which this project alone may use. One of another size has another name."""
        size = self.settings["flavor"]
        name = "octavia-amphora-{vcpus}-{ram}-{disk}".format(**size)
        # Private ones are in the list of all (is_public=None) alone.
        flavor = next((each for each in self.compute.flavors(is_public=None) if each.name == name), None)
        if flavor is None:
            print(f"flavor {name}: made", flush=True)
            flavor = self.compute.create_flavor(name=name, is_public=False, **size)
        access = {each["tenant_id"] for each in self.compute.get_flavor_access(flavor)}
        if self.project not in access:
            self.compute.flavor_add_tenant_access(flavor, self.project)
        return flavor

    def ports(self, network: Any) -> dict[str, Any]:
        """Return the ports of controllers, by node; of nodes that left, too."""
        ports = self.net.ports(network_id=network.id, device_owner=OWNER, project_id=self.project)
        return {port.binding_host_id: port for port in ports if port.name == f"{PORT}{port.binding_host_id}"}

    def reconcile_ports(self, network: Any, group: Any, nodes: Iterable[str]) -> None:
        """Give each node one port. A node that left keeps its own: with another address after its return, amphorae
        would go on with heartbeats to the former one, and all of them would be replaced.
        """
        ports, with_controller = self.ports(network), set(nodes)
        for node in sorted(with_controller - ports.keys()):
            print(f"port of node {node}: created", flush=True)
            self.net.create_port(
                name=f"{PORT}{node}",
                project_id=self.project,
                network_id=network.id,
                device_owner=OWNER,
                binding_host_id=node,
                security_group_ids=[group.id],
            )
        for port in ports.values():
            if list(port.security_group_ids) != [group.id]:
                self.net.update_port(port, security_group_ids=[group.id])

    def lift_quotas(self) -> None:
        """Take limits of the project away that would end in a load balancer without a server."""
        # The SDK's own function looks for the project first, which needs rights in Keystone.
        body = {"quota_set": dict.fromkeys(_COMPUTE_QUOTA, -1)}
        exceptions.raise_from_response(self.compute.put(f"/os-quota-sets/{self.project}", json=body))
        self.net.update_quota(self.project, **dict.fromkeys(_NETWORK_QUOTA, -1))

    def keypair(self) -> str:
        """Return the name of the user's keypair; empty if amphorae get no key. It belongs to the user: another user of
        Octavia has another one.
        """
        key = self.settings.get("sshKey")
        if not key:
            return ""
        existing = self.compute.find_keypair(KEY, ignore_missing=True)
        if existing is not None and existing.public_key.split()[:2] != key.split()[:2]:
            self.compute.delete_keypair(existing)
            existing = None
        if existing is None:
            try:
                self.compute.create_keypair(name=KEY, public_key=key)
            except exceptions.ConflictException:
                print(f"keypair {KEY}: created by another node", flush=True)
        return KEY


def prepare(cloud: Cloud, nodes: Iterable[str]) -> None:
    """Make all of it, and bring back what others deleted."""
    network = cloud.network()
    _, controllers = cloud.groups()
    cloud.reconcile_ports(network, controllers, nodes)
    cloud.flavor()
    cloud.lift_quotas()


def write_port(cloud: Cloud, node: str, nodes: Iterable[str], folder: Path) -> None:
    """Write `management.conf`, Octavia's options, and `interface`: port, MAC address, address and MTU. Raise SystemExit
    while something of it does not exist.
    """
    network = cloud.find("networks", NETWORK)
    group = cloud.find("security_groups", AMPHORAE)
    ports = cloud.ports(network) if network else {}
    if not (network and group and node in ports):
        sys.exit(f"the management network has no port for node {node}; see the Job that creates the ports")
    port = ports[node]
    address = port.fixed_ips[0]["ip_address"]
    with_controller = ports.keys() & {node, *nodes}
    listeners = sorted(ports[each].fixed_ips[0]["ip_address"] for each in with_controller)
    options = {
        "controller_worker": {
            "amp_boot_network_list": network.id,
            "amp_secgroup_list": group.id,
            "amp_flavor_id": cloud.flavor().id,
            "amp_image_owner_id": cloud.project,
            "amp_ssh_key_name": cloud.keypair(),
        },
        "health_manager": {
            "bind_ip": address,
            "controller_ip_port_list": ",".join(f"{each}:{HEARTBEATS}" for each in listeners),
        },
    }
    lines = (
        line
        for section, values in options.items()
        for line in (f"[{section}]", *(f"{name} = {value}" for name, value in values.items()))
    )
    prefix = ip_network(cloud.settings["cidr"]).prefixlen
    (folder / "management.conf").write_text("\n".join(lines) + "\n")
    (folder / "interface").write_text(f"{port.id} {port.mac_address} {address}/{prefix} {network.mtu}\n")


def connect(settings: Mapping[str, Any]) -> Cloud:
    """Return the cloud as Octavia's options log in to it."""
    service.prepare_service()
    session = keystone.KeystoneSession("neutron").get_session()
    cloud = connection.Connection(session=session, region_name=cfg.CONF.neutron.region_name, interface="internal")
    return Cloud(cloud, session.get_project_id(), settings)


def main(action: str) -> None:
    """Run one of the two."""
    cloud = connect(json.loads(os.environ["SETTINGS"]))
    nodes = [node for node in os.environ["NODES"].split(",") if node]
    if action == "prepare":
        prepare(cloud, nodes)
    else:
        write_port(cloud, os.environ["NODE"], nodes, Path(os.environ["FOLDER"]))


if __name__ == "__main__":
    # Octavia reads its own arguments from there.
    main(sys.argv.pop(1))
