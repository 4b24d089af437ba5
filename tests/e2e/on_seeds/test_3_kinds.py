"""The single kinds of the seeds, one by one, with what docs/how-to/seeds.md has beside them."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from openstack_operator.plan import ALLOWED_RESOURCES
from openstack_operator.yaml_text import load
from tools.localcluster.kubernetes import Kubernetes, module

from ..conftest import Report
from ..waiting import until
from . import beside
from .conftest import NAMESPACE, applied, manifest, standing, used

PASSWORD = secrets.token_hex(16)
OVN_KIND = "ovnclusters.ovn.c5c3.io"
ORDER = ("keystone", "placement", "glance", "neutron", "cinder", "nova")
"""Kinds of c5c3's groups, each after those that its manifest waits for."""
WITH_CREDENTIALS = {"tempest": "tempests.tempest.openstack.c5c3.io", "cortex": "cortexes.cortex.c5c3.io"}
"""Kinds that log in as an administrator by an application credential, by the names of their resources."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """A cluster with the servers, the accounts and the Secrets, and our images under the names of the manifests."""
    manifests = {name: manifest(f"{name}.{name}.openstack.c5c3.io") for name in ORDER}
    ovn = manifest("ovncluster.ovn.c5c3.io")
    others = [manifest(f"{name}.{kind.partition('.')[2]}") for name, kind in WITH_CREDENTIALS.items()]
    spec = {"storageBackend": "ceph", **{name: {"enabled": True} for name in ("cinder", *WITH_CREDENTIALS)}}
    metadata = {"name": "images", "namespace": NAMESPACE}
    sample = {"apiVersion": beside.API, "kind": "OpenStackControlPlane", "metadata": metadata, "spec": spec}
    path = tmp_path_factory.mktemp("seeds") / "images.yaml"
    path.write_text(yaml.safe_dump(sample), encoding="utf-8")
    with standing(path, c5c3=True) as found:
        renamed(found, beside.images(obj for each in (*manifests.values(), *others, ovn) for obj in load(each)))
        first = found.items("nodes")[0]["metadata"]["name"]
        labels = {**beside.HYPERVISOR, **beside.COMPUTE}
        pairs = [f"{name}={value}" for name, value in labels.items()]
        found.kubectl("label", "node", first, "--overwrite", *pairs)
        found.apply(*beside.namespaces())
        found.apply(*beside.servers(), *beside.ceph(), *beside.ovn(datetime.now(UTC)))
        for service in beside.SERVICES:
            found.apply(*beside.logins(service, PASSWORD))
        yield found


def renamed(cluster: Kubernetes, images: dict[str, str]) -> None:
    """Give our images on all nodes the names that manifests use, as a mirror of their registry would."""
    ours = json.loads(module("images", "list"))
    for node in cluster.items("nodes"):
        for name, image in images.items():
            command = ("ctr", "--namespace=k8s.io", "images", "tag", "--force", ours[image], name)
            module("tools.localcluster", "exec", node["metadata"]["name"], "--", *command)


def ready(cluster: Kubernetes, kind: str, name: str, timeout: float) -> dict[str, Any]:
    """Return a resource of ours once it is Ready."""
    cluster.kubectl(
        "wait",
        f"{kind}/{name}",
        "-n",
        NAMESPACE,
        "--for=condition=Ready",
        f"--timeout={timeout:.0f}s",
        timeout=timeout + 9,
    )
    return cluster.get(kind, name, "-n", NAMESPACE)


def allow(cluster: Kubernetes, *names: str) -> None:
    """Let these Neutrons use the OVNCluster of another namespace, and no others."""
    entries = ",".join(f"{NAMESPACE}/Neutron/{name}" for name in names)
    where = (f"{OVN_KIND}/ovn", "-n", beside.OVN_NAMESPACE)
    cluster.kubectl("annotate", *where, "--overwrite", f"{ALLOWED_RESOURCES}={entries}")


def test_servers_and_the_network_are_ready(cluster: Kubernetes, report: Report) -> None:
    path = manifest("ovncluster.ovn.c5c3.io")
    report.add(seeds_ovncluster_ready_seconds=applied(cluster, path, OVN_KIND, "ovn", 600, beside.OVN_NAMESPACE))
    allow(cluster, "neutron")
    for kind, name in (("mariadbs", "mariadb"), ("rabbitmqs", "rabbitmq"), ("memcacheds", "memcached")):
        ready(cluster, f"{kind}.openstack.k8s.io", name, 300)
    ceph = ready(cluster, "cephstorages.openstack.k8s.io", "ceph", 600)
    for service, key in beside.CEPH_CLIENTS.items():
        secret = cluster.get("secret", ceph["status"]["published"][key], "-n", NAMESPACE)
        cluster.apply(beside.ceph_login(service, base64.b64decode(secret["data"]["key"]).decode()))


@pytest.mark.parametrize("name", ORDER)
def test_a_kind_becomes_ready(cluster: Kubernetes, report: Report, name: str) -> None:
    [service] = [each for each in beside.SERVICES if each.name == name]
    cluster.apply(*beside.accounts(service))
    if name == "nova":
        ready(cluster, "rabbitmqvhosts.openstack.k8s.io", "nova", 120)
        for command in beside.nova_accounts(PASSWORD):
            with_input = ["-i"] if command.stdin else []
            where = ("exec", *with_input, "-n", NAMESPACE, command.pod)
            cluster.kubectl(*where, "--", *command.words, stdin=command.stdin or None)
    path = manifest(f"{name}.{name}.openstack.c5c3.io")
    seconds = applied(cluster, path, f"{name}s.{name}.openstack.c5c3.io", name, 600, NAMESPACE)
    report.add(**{f"seeds_{name}_ready_seconds": seconds})
    if name == "cinder":
        # By its condition VolumeTypes: a Cinder whose Keystone it only logs in to makes none.
        openstack(cluster, "volume", "type", "create", "ceph-rbd", "--property=volume_backend_name=ceph-rbd")


def test_a_server_answers_and_a_volume_attaches(cluster: Kubernetes, report: Report) -> None:
    until("a hypervisor", lambda: "up" in listed(cluster, "hypervisor"), 180, 5)
    facts = used(cluster)
    report.add(seeds_kinds=facts)
    assert facts["reply"]
    assert facts["attached"]


@pytest.mark.parametrize("name", WITH_CREDENTIALS)
def test_a_kind_that_logs_in_by_a_credential_becomes_ready(cluster: Kubernetes, report: Report, name: str) -> None:
    bundle = cluster.get("secret", "internal-bundle", "-n", NAMESPACE)
    authorities = base64.b64decode(bundle["data"]["ca.crt"]).decode()
    login, *others = beside.administrator(name, PASSWORD)
    cluster.apply(beside.trusted(login, authorities), *others)
    kind = WITH_CREDENTIALS[name]
    path = manifest(f"{name}.{kind.partition('.')[2]}")
    seconds = applied(cluster, path, kind, name, 600, NAMESPACE)
    report.add(**{f"seeds_{name}_ready_seconds": seconds})


def listed(cluster: Kubernetes, what: str) -> str:
    """Return what the client lists."""
    return openstack(cluster, *what.split(), "list")


def openstack(cluster: Kubernetes, *words: str) -> str:
    """Return what the client prints."""
    return cluster.kubectl("exec", "-n", NAMESPACE, "deploy/keystoneclient", "--", "openstack", *words)


def test_an_ovn_of_another_namespace_is_used_once_it_allows_that(cluster: Kubernetes) -> None:
    """The manifest has its addresses in plain text; by reference, Neutron gets them with a certificate."""
    kind = "neutrons.neutron.openstack.c5c3.io"
    allow(cluster)
    reference = {"clusterRef": {"name": "ovn", "namespace": beside.OVN_NAMESPACE}}
    patch = {"spec": {"ovn": {**reference, "nbConnection": None, "sbConnection": None}}}
    cluster.kubectl("patch", f"{kind}/neutron", "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch))

    def message() -> str:
        neutron = cluster.get(kind, "neutron", "-n", NAMESPACE)
        return next(each["message"] for each in neutron["status"]["conditions"] if each["type"] == "Ready")

    until("a refusal", lambda: ALLOWED_RESOURCES in message(), 60, 1)
    allow(cluster, "neutron")
    ready(cluster, kind, "neutron", 300)
    files = cluster.get("secret", "neutron-config", "-n", NAMESPACE)["data"]
    assert "ovn_nb_connection = ssl:" in base64.b64decode(files["neutron.conf"]).decode()
    assert "OVN Controller" in listed(cluster, "network agent")
