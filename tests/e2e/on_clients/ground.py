"""What suites take for granted in a cloud, named as DevStack names it: accounts, an image, flavors and networks."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import yaml
from openstack.connection import Connection

from tools.cloud import proof
from tools.localcluster.kubernetes import ROOT, Kubernetes

HOME = ROOT / "build" / "clients"
"""Home directory of the suites: their clients find .config/openstack/clouds.yaml in it."""
IMAGE = "cirros-of-the-proof-disk"
"""An image of ours: suites look for one whose name begins and ends like this."""
FLAVORS = {"m1.tiny": (128, 1, 0), "m1.acctest": (128, 1, 10), "m1.resize": (192, 2, 10)}
"""Memory in MiB, and disk and ephemeral disk in GiB; the last two are gophercloud's."""
ACCOUNTS = {"demo": "devstack", "alt_demo": "devstack-alt"}
"""Users, each with a project of its name, and their clouds in clouds.yaml."""
ROLES = ("member", "creator", "heat_stack_owner", "load-balancer_member")
"""Roles of these users, of which a cloud may lack some."""
POOLS = {"shared-default-subnetpool-v4": ("10.1.0.0/20", 26), "shared-default-subnetpool-v6": ("fd12:67d:aa::/56", 64)}
"""Addresses of networks that Neutron makes by itself, and the length of their prefixes."""
ADMINISTRATOR, SYSTEM = "devstack-admin", "devstack-system-admin"


@dataclass(frozen=True)
class Ground:
    """What a cloud has now."""

    administrator: dict[str, Any]
    """The entry of clouds.yaml."""
    image: str
    flavor: str
    flavor_resize: str
    network: str
    subnet: str
    external: str
    """IDs of them."""

    @property
    def authorities(self) -> str:
        """The file of the certificate authorities that the cloud's certificates are from; empty if it has none."""
        return self.administrator.get("cacert", "")


def prepare(cluster: Kubernetes, namespace: str) -> Ground:
    """Make all of it, and a clouds.yaml that only its owner reads."""
    conn = proof.connect(cluster, namespace)
    public = yaml.safe_load(proof.clouds(cluster, namespace).read_text())["clouds"][proof.CLOUD]
    clouds = {ADMINISTRATOR: public, SYSTEM: _system(public)}
    projects: dict[str, Any] = {}
    for name, cloud in ACCOUNTS.items():
        password = secrets.token_hex(16)
        projects[name] = _account(conn, name, password)
        login = {"username": name, "password": password, "project_name": name}
        clouds[cloud] = {**public, "auth": {**public["auth"], **login}}
    _write(clouds)
    network, subnet = _private(conn, projects["demo"])
    _add_pools(conn)
    flavors: Any = [_flavor(conn, name, *size) for name, size in FLAVORS.items()]
    return Ground(
        administrator=public,
        image=proof.image(conn, IMAGE).id,
        flavor=flavors[1].id,
        flavor_resize=flavors[2].id,
        network=network.id,
        subnet=subnet.id,
        external=proof.external_network(conn).id,
    )


def _system(cloud: dict[str, Any]) -> dict[str, Any]:
    """Return the administrator of the whole system, not of a project."""
    auth = {name: value for name, value in cloud["auth"].items() if not name.startswith("project_")}
    return {**cloud, "auth": {**auth, "system_scope": "all"}}


def _account(conn: Connection, name: str, password: str) -> Any:
    """Return the project of a new user, which the administrator administers, too."""
    identity: Any = conn.identity
    project = identity.find_project(name) or identity.create_project(name=name, domain_id="default")
    if user := identity.find_user(name):
        identity.update_user(user, password=password)
    else:
        user = identity.create_user(name=name, domain_id="default", password=password, default_project_id=project.id)
    for role in filter(None, map(identity.find_role, ROLES)):
        identity.assign_project_role_to_user(project, user, role)
    administrator = identity.get_user(conn.current_user_id)
    identity.assign_project_role_to_user(project, administrator, identity.find_role("admin"))
    return project


def _write(clouds: dict[str, Any]) -> None:
    path = HOME / ".config" / "openstack" / "clouds.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    # To openstacksdk, whose tests ask for it, `volume` is no service of a cloud that does not say so.
    entries = {name: {**cloud, "has_volume": True} for name, cloud in clouds.items()}
    # Here openstacksdk's tests and examples look for what they boot.
    chosen = {"image_name": IMAGE, "flavor_name": next(iter(FLAVORS))}
    proof.replaced(path, yaml.safe_dump({"clouds": entries, "functional": chosen}))


def _private(conn: Connection, project: Any) -> tuple[Any, Any]:
    """Return a network of a project and its subnet, behind a router to the external network."""
    net: Any = conn.network
    owner = {"project_id": project.id}
    network = net.find_network("private") or net.create_network(name="private", **owner)
    subnet = net.find_subnet("private-subnet") or net.create_subnet(
        name="private-subnet", network_id=network.id, ip_version=4, cidr="10.0.0.0/24", **owner
    )
    if not net.find_router("router1"):
        gateway = {"network_id": proof.external_network(conn).id}
        router = net.create_router(name="router1", external_gateway_info=gateway, **owner)
        net.add_interface_to_router(router, subnet.id)
    return network, subnet


def _add_pools(conn: Connection) -> None:
    """Add the default pools."""
    net: Any = conn.network
    for name, (prefix, length) in POOLS.items():
        if not net.find_subnet_pool(name):
            net.create_subnet_pool(
                name=name, prefixes=[prefix], default_prefix_length=length, is_shared=True, is_default=True
            )


def _flavor(conn: Connection, name: str, memory: int, disk: int, ephemeral: int) -> Any:
    compute: Any = conn.compute
    return compute.find_flavor(name) or compute.create_flavor(
        name=name, ram=memory, vcpus=1, disk=disk, ephemeral=ephemeral
    )
