"""A node finds its own addresses in the networks of migrations and of consoles, and stops if it has none there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Plan
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import context
from openstack_operator.yaml_text import load
from tests.field_effects import RELEASES
from tests.planning import objects, release_of

from .test_libvirt import PUBLISHED, SECRETS

NETWORKS = {"migrationNetwork": "10.20.0.0/23", "consoleNetwork": "192.0.2.128/25"}
ADDRESSES = "172.16.0.9 fd00::1 10.20.1.7 10.20.2.7 192.0.2.9 192.0.2.200 "


def planned(**compute: object) -> Plan:
    """Return a Nova with these fields of its compute nodes."""
    spec = {"compute": compute}
    return plan(context(NOVA, spec, release=release_of("debian"), published=PUBLISHED, secrets=SECRETS))


def container(nova: Plan, workload: str) -> Object:
    """Return the main container of a DaemonSet."""
    return objects(nova)["DaemonSet", workload]["spec"]["template"]["spec"]["containers"][0]


def run(folder: Path, spec: Object, addresses: str) -> subprocess.CompletedProcess[str]:
    """Run the command of nova-compute on a node with these addresses; in place of the program, its options are
    printed.
    """
    own = folder / "bin"
    own.mkdir()
    for name, text in {"hostname": f'[ "$*" = -I ] && echo "{addresses}"', "tini": "env | grep ^OS_ | sort"}.items():
        (own / name).write_text(f"#!/bin/sh\n{text}\n")
        (own / name).chmod(0o755)
    fixed = {each["name"]: each.get("value", "172.16.0.9") for each in spec["env"]}
    (folder / "compute_id").write_text("mine")
    env = {**fixed, "STATE": str(folder), "PATH": f"{own}:{os.environ['PATH']}"}
    return subprocess.run(spec["command"], env=env, capture_output=True, text=True, check=False)


def test_a_node_uses_its_addresses_in_both_networks(tmp_path: Path) -> None:
    result = run(tmp_path, container(planned(**NETWORKS), "nova-cell1-compute"), ADDRESSES)
    assert result.returncode == 0, result.stderr
    options = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert options == {
        "OS_DEFAULT__HOST": "172.16.0.9",
        "OS_DEFAULT__MY_IP": "172.16.0.9",
        "OS_LIBVIRT__LIVE_MIGRATION_INBOUND_ADDR": "10.20.1.7",
        "OS_VNC__SERVER_LISTEN": "192.0.2.200",
        "OS_VNC__SERVER_PROXYCLIENT_ADDRESS": "192.0.2.200",
    }


@pytest.mark.parametrize(
    ("addresses", "field"),
    [
        ("172.16.0.9 192.0.2.200", "10.20.0.0/23; give it one, or change compute.migrationNetwork"),
        ("10.20.0.1", "console"),
    ],
)
def test_a_node_without_an_address_there_says_so(tmp_path: Path, addresses: str, field: str) -> None:
    result = run(tmp_path, container(planned(**NETWORKS), "nova-cell1-compute"), addresses)
    assert result.returncode != 0
    assert "error: this node has no address in " in result.stderr
    assert field in result.stderr


def test_libvirt_listens_there_and_certificates_name_each_address() -> None:
    nova = planned(**NETWORKS)
    command = container(nova, "nova-libvirt")["command"]
    assert any("own_address " in word for word in command)
    assert {"name": "MIGRATION_NETWORK", "value": "10.20.0.0/23"} in container(nova, "nova-libvirt")["env"]
    files = secret_data(objects(nova)["Secret", "nova-migration"])
    certificate = x509.load_pem_x509_certificate(files["server-cert.pem"].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert {"10.20.0.1", "10.20.1.7", "10.20.1.254"} <= addresses
    assert "10.20.2.7" not in addresses


def test_pods_without_these_networks_look_for_no_address() -> None:
    nova = planned()
    for workload in ("nova-cell1-compute", "nova-libvirt"):
        assert not any("own_address" in word for word in container(nova, workload)["command"])


def test_nodes_of_another_cluster_have_both_networks_too() -> None:
    case = Path(__file__).parents[2] / "src/openstack_operator/services/hypervisorcluster/cases/minimal.yaml"
    manifests = load(case)
    cluster = next(each for each in manifests if each["kind"] == "HypervisorCluster")
    cluster["spec"]["compute"] = NETWORKS
    made = [
        obj
        for each in OfflineCluster(SERVICES, ACTUATORS, RELEASES).render(manifests, "openstack")
        for obj in each.objects
        if obj["kind"] == "DaemonSet" and obj["metadata"]["name"].endswith(("-compute", "-libvirt"))
    ]
    env = [each["spec"]["template"]["spec"]["containers"][0]["env"] for each in made]
    assert len(env) == 2
    assert all({"name": "MIGRATION_NETWORK", "value": "10.20.0.0/23"} in each for each in env)
