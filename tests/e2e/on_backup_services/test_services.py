"""A cloud is deleted with its volumes and Secrets, and made again: its users' secrets, stacks, zones and load balancers
are there, and do what they did before.
"""

from __future__ import annotations

from typing import Any

from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..on_backup.objects import described, differing, of_services
from ..on_backup.test_backup import completed, remove, repository, resource, secrets
from ..on_services.stacks import Stack, network, template
from ..on_services.test_barbican import Secrets
from ..on_services.test_designate import Dns, Zone
from ..on_services.test_octavia import Balancer
from ..s3 import S3Server

SERVICES = ("key_manager", "orchestration", "dns", "load_balancer")
BACKUP, RESTORE = "of-all-services", "all-services"
PAYLOAD = "a secret é世"
ZONE = "restored.example."
_STACK, _WAITING = "restored", "waits"
_LENGTH = 20
_before: dict[str, Any] = {}


def test_all_services_are_backed_up(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, s3: S3Server, report: Report
) -> None:
    stored = Secrets(conn)
    _before["secret"] = stored.store("restored", PAYLOAD)
    stack = Stack(conn, _STACK, network(_LENGTH))
    handle = {"type": "OS::Heat::WaitConditionHandle"}
    waiting = Stack(conn, _WAITING, template({"handle": handle}))
    assert stack.reaches("CREATE_COMPLETE")
    assert waiting.reaches("CREATE_COMPLETE")
    zone = Zone.create(conn, ZONE)
    zone.add(f"www.{ZONE}", ["192.0.2.7"])
    zone.becomes("ACTIVE")
    proof.networks(conn)
    api: Any = conn
    balancer = Balancer(conn, api.network.find_subnet(proof.NAME))
    balancer.pool("TCP", 80, ["10.99.0.9"])
    _before.update(
        {
            "outputs": stack.outputs,
            "zone": zone.id,
            "address": balancer.balancer.vip_address,
            "objects": described(conn),
            "services": of_services(conn, *SERVICES),
        }
    )
    cluster.apply(*secrets(s3, cloud.namespace))
    spec = {"repository": repository(s3), "verify": True}
    cluster.apply(resource("OpenStackBackup", BACKUP, cloud.namespace, spec))
    status = completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 400)
    verified = completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 400, "verified")
    report.add(backup_of_all_services={**status, **verified})


def test_the_cloud_is_made_again(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    remove(cluster, cloud.namespace)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
    cluster.apply(*secrets(s3, cloud.namespace))
    spec = {"repository": repository(s3), "backup": BACKUP}
    cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
    status = completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 900)
    report.add(restore_of_all_services=status, new_cloud_seconds=cloud.seconds)


def test_the_apis_tell_what_they_told_before(conn: Connection) -> None:
    assert not differing(described(conn), _before["objects"])
    assert not differing(of_services(conn, *SERVICES), _before["services"])


def test_a_secret_comes_back_byte_for_byte(conn: Connection) -> None:
    assert Secrets(conn).read(_before["secret"]) == PAYLOAD


def test_a_stack_is_changed_and_deleted(conn: Connection) -> None:
    """By the trust of its owner, and with what is stored encrypted."""
    stack = Stack(conn, _STACK)
    assert stack.outputs == _before["outputs"]
    stack.update(network(_LENGTH + 4))
    assert stack.reaches("UPDATE_COMPLETE")
    assert len(stack.outputs["secret"]) == _LENGTH + 4
    stack.delete()


def test_a_user_of_a_stack_is_removed_with_it(conn: Connection) -> None:
    """Heat keeps such users in a domain of its own, by the password of that domain's administrator."""
    Stack(conn, _WAITING).delete()


def test_zones_are_answered(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    dns = Dns(cluster, cloud.namespace, "bind9")
    assert dns.ask(f"www.{ZONE}", patience=120)[:2] == (0, 1)
    zone = Zone(conn.dns, _before["zone"])
    zone.add(f"new.{ZONE}", ["192.0.2.8"])
    assert dns.ask(f"new.{ZONE}", patience=60)[:2] == (0, 1)
    zone.becomes("ACTIVE")


def test_a_load_balancer_is_changed_and_deleted(conn: Connection) -> None:
    api: Any = conn
    balancer = Balancer(conn, api.network.find_subnet(proof.NAME))
    assert balancer.balancer.vip_address == _before["address"]
    [pool] = api.load_balancer.pools()
    subnet = api.network.find_subnet(proof.NAME)
    balancer.make("member", pool.id, address="10.99.0.10", protocol_port=80, subnet_id=subnet.id)
    balancer.delete()
