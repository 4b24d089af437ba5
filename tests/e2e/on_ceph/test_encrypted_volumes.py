"""Encrypted volumes: a guest's data are not in Ceph, a key belongs to its project, and members get their data back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openstack.connection import Connection

from tools.chaos.servers import Guest
from tools.cloud.session import Cloud, Session
from tools.localcluster.kubernetes import Kubernetes, module, ours

from ..waiting import until
from .volumes import NAMESPACE, SETUP, Disks, attach, detach, storage, user_of, volume

TYPE = "encrypted"
MARK, PLAIN = "marker-of-an-encrypted-volume", "marker-of-a-plain-volume"


def copies(cluster: Kubernetes, id_: str, text: str) -> int:
    """Number of lines of a volume, as Ceph has it, with a text."""
    user = user_of(cluster, "volumes")
    login = f"--conf {SETUP}/ceph.conf --id {user} --keyring {SETUP}/client.{user}.keyring -p volumes"
    read = f"rbd {login} --no-progress export volume-{id_} - | grep -a -c {text} || true"
    return int(cluster.kubectl("exec", "-n", NAMESPACE, "deploy/ceph-status", "--", "sh", "-c", read))


def is_ready(cluster: Kubernetes, kind: str, name: str) -> bool:
    found = cluster.get(kind, name, "-n", NAMESPACE).get("status") or {}
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found.get("conditions") or [])


def all_use(cluster: Kubernetes) -> bool:
    """Whether all programs that read keys run with Barbican."""
    refs = [cluster.get(ours(kind), kind, "-n", NAMESPACE)["spec"].get("barbicanRef") for kind in ("nova", "cinder")]
    return all(refs) and all(is_ready(cluster, ours(kind), kind) for kind in ("barbican", "nova", "cinder", "glance"))


def with_type(cluster: Kubernetes, **encryption: Any) -> None:
    """A CinderVolumeType on the backend of the cloud."""
    made: dict[str, Any] = {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "CinderVolumeType",
        "metadata": {"name": TYPE, "namespace": NAMESPACE},
        "spec": {"name": TYPE, "extraSpecs": {"volume_backend_name": "ceph"}, "encryption": encryption},
    }
    cluster.apply(made)


@pytest.fixture(scope="module", autouse=True)
def barbican(stood: tuple[Session, Cloud]) -> Iterator[None]:
    """The cloud has a key manager, and a type whose volumes are encrypted."""
    cluster, cloud = stood[0].cluster, stood[1]
    # The sample does not enable Barbican, so its image is not on the nodes yet.
    module("images", "build", "barbican")
    module("images", "load", "barbican")
    patch = json.dumps({"spec": {"barbican": {"enabled": True}}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    until("all services to use Barbican", lambda: all_use(cluster), 600, 2)
    with_type(cluster)
    until("the type to be in Cinder", lambda: is_ready(cluster, "cindervolumetype", TYPE), 60, 1)
    yield
    cluster.kubectl("delete", "cindervolumetype", TYPE, "-n", NAMESPACE, "--timeout=60s")


def test_guest_data_is_encrypted_in_ceph_and_readable_again(
    cluster: Kubernetes, conn: Connection, pair: list[Guest]
) -> None:
    one, other = pair
    for text in (MARK, PLAIN):
        more: dict[str, Any] = {"volume_type": TYPE} if text == MARK else {}
        made = volume(conn, text, **more)
        assert made.is_encrypted is (text == MARK)
        disk = attach(conn, one, made)
        Disks(one).write(disk, 7, text)
        detach(conn, one, made, disk)
        # The plain one shows that the marker would be found.
        assert (copies(cluster, made.id, text) > 0) is (text == PLAIN)
        disk = attach(conn, other, made)
        assert Disks(other).read(disk, 7) == text
        detach(conn, other, made, disk)


def test_a_type_with_volumes_keeps_its_encryption(cluster: Kubernetes, conn: Connection) -> None:
    with_type(cluster, keySize=128)

    def refusals() -> list[str]:
        conditions = cluster.get("cindervolumetype", TYPE, "-n", NAMESPACE)["status"]["conditions"]
        return [each["message"] for each in conditions if each["type"] == "Ready" and each["status"] == "False"]

    text = until("the type to be refused", refusals, 60, 1)[0]
    assert "spec.encryption" in text
    assert "create another type" in text
    with_type(cluster)
    until("the type to be right again", lambda: is_ready(cluster, "cindervolumetype", TYPE), 60, 1)


def test_a_key_goes_with_its_volume(conn: Connection) -> None:
    manager: Any = conn.key_manager
    held = storage(conn).find_volume(MARK)
    before = len(list(manager.secrets()))
    for each in (held, storage(conn).find_volume(PLAIN)):
        storage(conn).delete_volume(each)
        storage(conn).wait_for_delete(each, interval=0.5, wait=120)
    assert len(list(manager.secrets())) == before - 1
