"""A cloud whose images, volumes and disks are in a Ceph that Rook runs, on a disk of this machine."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection
from rich.console import Console

from images import catalog
from tools.cloud import proof, view
from tools.cloud.deploy import documents
from tools.cloud.session import SAMPLES
from tools.cloud.stopwatch import Stopwatch
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours, run
from tools.operators import crds
from tools.operators.catalog import OPERATORS
from tools.operators.modules import folders

from ..conftest import Report
from ..waiting import until
from .asked import raised

NAMESPACE = "on-rook"
SETUP = "/etc/ceph-storage"
"""Where the pod that looks at Ceph has the key of each client."""
USES = {"volumes": "cinder", "images": "glance", "vms": "nova", "backups": "cinder-backup"}
"""The pools, and the client of each."""
ROOK = ("cephclusters.ceph.rook.io", "cephblockpools.ceph.rook.io", "cephclients.ceph.rook.io")
_FOLDER = Path("/var/lib/openstack-operator/rook")
"""The folder of the nodes in which Rook keeps what monitors know; the nodes are on this machine."""
_ACCOUNTS = "deploy/examples/common-second-cluster.yaml"
"""Service accounts that Rook wants in the namespace of a cluster, with its own example of a namespace in them."""

Object = dict[str, Any]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A block device of 10 GiB that takes as much of this machine as is written to it."""
    file = tmp_path_factory.mktemp("rook") / "disk"
    with file.open("wb") as made:
        made.truncate(10 * 1024**3)
    device = run("losetup", "--find", "--show", str(file)).strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)
        file.unlink()


def accounts() -> list[Object]:
    """What Rook wants in the namespace, from its own module."""
    source = OPERATORS["rook"].module
    text = (folders([source])[source] / _ACCOUNTS).read_text(encoding="utf-8")
    return crds.documents(text.replace("rook-ceph-secondary", NAMESPACE))


def plane(cluster: Kubernetes, device: str) -> Object:
    """The cloud of the sample, its APIs where this machine reaches them, with Rook's Ceph: a monitor, an OSD, and one
    copy of everything.
    """
    node = cluster.items("nodes")[0]["metadata"]["name"]
    (cloud,) = (each for each in documents(SAMPLES / "controlplane_ceph.yaml") if each["kind"] != "Namespace")
    ceph = {
        "mode": "rook",
        "pools": {use: {"size": 1} for use in USES},
        "rook": {
            "image": catalog.reference("ceph-rook"),
            "monitors": 1,
            "dataDirHostPath": str(_FOLDER),
            "storage": {"useAllNodes": False, "nodes": [{"name": node, "devices": [{"name": device}]}]},
            "cluster": {
                "cephConfig": {
                    "osd": {
                        "osd_memory_target": "939524096",
                        # Debian's is relative, and Rook starts an OSD in another folder than the root.
                        "osd_class_dir": "/usr/lib/x86_64-linux-gnu/rados-classes",
                    }
                },
                # Debian has no ceph-exporter of this version.
                "monitoring": {"metricsDisabled": True},
            },
        },
    }
    spec = {**cloud["spec"], "ceph": ceph, "expose": {"type": "NodePort", "host": cluster.address()}}
    return {**cloud, "metadata": {"name": "cloud", "namespace": NAMESPACE}, "spec": spec}


@pytest.fixture(scope="module")
def cloud(cluster: Kubernetes, disk: str, report: Report) -> Iterator[Kubernetes]:
    """The cloud, Ready."""
    try:
        with raised(cluster, NAMESPACE, "cinder", "ceph"):
            cluster.apply(*accounts())
            cluster.apply(plane(cluster, disk))
            started = time.monotonic()
            until("the Ceph to be Ready", lambda: view.ready(storage(cluster)), 600, 2)
            report.add(rook_apply_to_ceph_ready_seconds=round(time.monotonic() - started, 1))
            until(
                "the cloud to be Ready",
                lambda: view.ready(found(cluster, ours("openstackcontrolplanes"), "cloud")),
                900,
                2,
            )
            report.add(rook_apply_to_ready_seconds=round(time.monotonic() - started, 1))
            yield cluster
    finally:
        shutil.rmtree(_FOLDER, ignore_errors=True)


@pytest.fixture(scope="module")
def conn(cloud: Kubernetes) -> Connection:
    return proof.connect(cloud, NAMESPACE)


def found(cluster: Kubernetes, kind: str, name: str) -> Object:
    return cluster.get(kind, name, "-n", NAMESPACE)


def storage(cluster: Kubernetes) -> Object:
    """The CephStorage; nothing is known of one that is not there yet."""
    listed = cluster.items(ours("cephstorages"), "-n", NAMESPACE)
    return listed[0] if listed else {}


def rbd(cluster: Kubernetes, use: str, *words: str, pool: str = "", stdin: str = "") -> str:
    """What `rbd` prints in the pool of a use, by the key of its client."""
    user = USES[use]
    login = ("--conf", f"{SETUP}/ceph.conf", "--id", user, "--keyring", f"{SETUP}/client.{user}.keyring")
    command = ("-n", NAMESPACE, "exec", "-i", "deploy/ceph-status", "--", "rbd", *login, "-p", pool or use, *words)
    return cluster.kubectl(*command, stdin=stdin)


def test_all_that_rook_was_asked_for_is_there(cloud: Kubernetes, report: Report) -> None:
    for kind in ROOK:
        listed = cloud.items(kind, "-n", NAMESPACE)
        assert {each["metadata"]["name"]: each["status"]["phase"] for each in listed} == dict.fromkeys(
            ("ceph",) if "clusters" in kind else (tuple(USES) if "pools" in kind else tuple(USES.values())), "Ready"
        )
    (ceph,) = cloud.items(ROOK[0], "-n", NAMESPACE)
    report.add(rook_version=ceph["status"]["version"]["version"], rook_ceph=ceph["status"]["ceph"])
    status = storage(cloud)["status"]
    assert status["published"]["fsid"] == ceph["status"]["ceph"]["fsid"]
    assert status["health"] in {"HEALTH_OK", "HEALTH_WARN"}
    report.add(rook_health=status["health"], rook_capacity=status["capacity"])


@pytest.mark.parametrize("use", USES)
def test_a_client_reads_and_writes_in_its_pool_and_in_no_other(cloud: Kubernetes, use: str) -> None:
    content = secrets.token_urlsafe(4096)
    # `rbd` reads from a pipe what is to be stored.
    rbd(cloud, use, "import", "--no-progress", "-", f"{use}/written", stdin=content)
    assert rbd(cloud, use, "export", "--no-progress", f"{use}/written", "-") == content
    other = "backups" if use != "backups" else "volumes"
    with pytest.raises(KubeError, match="not permitted"):
        rbd(cloud, use, "create", "--size", "1M", "foreign", pool=other)
    rbd(cloud, use, "rm", "--no-progress", "written")


def test_no_pool_waits_for_osds_that_do_not_exist(cloud: Kubernetes) -> None:
    """The one that Ceph itself makes would, with three copies."""
    said = view.conditions(storage(cloud))["HealthReady"]
    assert "PG_AVAILABILITY" not in said["message"]


def test_an_image_is_in_its_pool_and_a_volume_is_its_clone(
    cloud: Kubernetes, conn: Connection, tmp_path: Path, report: Report
) -> None:
    content = secrets.token_bytes(8 * 1024**2)
    file = tmp_path / "image.raw"
    file.write_bytes(content)
    image: Any = conn.image.create_image("raw", filename=str(file), disk_format="raw", container_format="bare")
    until("the image to be active", lambda: conn.image.get_image(image.id).status == "active", 120, 1)
    assert image.id in rbd(cloud, "images", "ls").split()
    volumes: Any = conn.block_storage
    started = time.monotonic()
    volume = volumes.create_volume(name="clone", size=1, image_id=image.id)
    volume = volumes.wait_for_status(volume, "available", failures=["error"], interval=0.5, wait=180)
    report.add(rook_volume_from_image_seconds=round(time.monotonic() - started, 1))
    info = json.loads(rbd(cloud, "volumes", "info", f"volume-{volume.id}", "--format", "json"))
    assert (info["parent"]["pool"], info["parent"]["image"]) == ("images", image.id)
    # A clone has what the image has.
    script = f"rbd --conf {SETUP}/ceph.conf --id cinder --keyring {SETUP}/client.cinder.keyring -p volumes export"
    read = f"{script} --no-progress volume-{volume.id} - | head -c {len(content)} | sha256sum"
    image_read = script.replace("cinder", "glance").replace("volumes", "images")
    image_read = f"{image_read} --no-progress {image.id} - | sha256sum"
    where = ("-n", NAMESPACE, "exec", "deploy/ceph-status", "--", "sh", "-c")
    assert cloud.kubectl(*where, read) == cloud.kubectl(*where, image_read)


def test_a_server_has_its_disk_in_ceph(cloud: Kubernetes, report: Report) -> None:
    facts = proof.prove(cloud, NAMESPACE, Stopwatch(Console()))
    report.add(rook_proof=facts)
    assert facts["reply"]
    assert f"{facts['server']}_disk" in rbd(cloud, "vms", "ls").split()


def test_a_new_key_is_that_of_another_client(cloud: Kubernetes) -> None:
    """Rook is asked for another client for each use; services move to it."""
    patch = '{"spec": {"ceph": {"keyGeneration": 2}}}'
    cloud.kubectl("-n", NAMESPACE, "patch", ours("openstackcontrolplanes"), "cloud", "--type=merge", "-p", patch)

    def moved() -> bool:
        live = storage(cloud)
        return live["status"].get("published", {}).get("volumesUser") == "client.cinder-2" and view.ready(live)

    until("the second clients", moved, 240, 2)
    key = found(cloud, "secret", "rook-ceph-client-cinder-2")["data"]["cinder-2"]
    ring = found(cloud, "secret", "ceph-client-volumes")["data"]["keyring"]
    assert base64.b64decode(key).decode() in base64.b64decode(ring).decode()
