"""The key manager of Nova, Cinder and Glance: the Barbican they name, and none where they name none."""

from __future__ import annotations

from collections.abc import Mapping
from configparser import ConfigParser
from typing import Any, NamedTuple

import pytest

from openstack_operator import kube
from openstack_operator.api import Resource, references
from openstack_operator.plan import Context, Object, Plan, Release
from openstack_operator.services import cinder, glance, nova
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.testing import context

PUBLISHED: dict[str, Mapping[str, str]] = {
    "MariaDB": {"host": "mariadb.openstack.svc", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack.svc", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "https://keystone-api:5000/v3", "trustSecret": "internal-bundle"},
    "Glance": {"internalURL": "http://glance-api:9292"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
    "Cinder": {"internalURL": "http://cinder-api:8776", "attaches": "nfs"},
    "Barbican": {"internalURL": "https://barbican-api:9311", "trustSecret": "internal-bundle"},
}
SECRETS = {"neutron-credentials": {"metadata": "shared"}, "internal-bundle": {"ca.crt": "PEM"}}
NFS = {"name": "files", "type": "nfs", "nfs": {"shares": ["files.example:/a"]}}


class Client(NamedTuple):
    """A service that reads keys, with the Secrets of the configurations of its programs, and the user of each."""

    service: Any
    spec: Mapping[str, Any]
    users: Mapping[str, str]
    file: str


CLIENTS = {
    "nova": Client(
        nova.SERVICE,
        {"cinderRef": {"name": "cinder"}},
        {"nova-config": "nova", "nova-cell1-config": "nova", "nova-cell1-compute-config": "nova-compute"},
        "nova.conf",
    ),
    "cinder": Client(
        cinder.SERVICE,
        {"backends": [NFS], "backup": {"type": "posix"}},
        {"cinder-config": "cinder", "cinder-files-config": "cinder", "cinder-backup-config": "cinder"},
        "cinder.conf",
    ),
    "glance": Client(glance.SERVICE, {}, {"glance-config": "glance"}, "glance-api.conf"),
}
REF = {"barbicanRef": {"name": "barbican"}}


def planned(release: Release, name: str, spec: Mapping[str, Any], **changes: Any) -> Plan:
    client = CLIENTS[name]
    resource: Resource[Any] = client.service.resource
    given: dict[str, Any] = {"published": PUBLISHED, "secrets": SECRETS, "owner": name, **changes}
    ctx: Context[Any] = context(resource, {**client.spec, **spec}, release=release, **given)
    made: Plan = client.service.plan(ctx)
    return made


def objects(made: Plan, kind: str) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in made.objects if obj["kind"] == kind}


def configured(made: Plan, name: str, secret: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None, default_section="none")
    parser.read_string(kube.secret_data(objects(made, "Secret")[secret])[CLIENTS[name].file])
    return parser


PROGRAMS = [(name, secret) for name, client in CLIENTS.items() for secret in client.users]


@pytest.mark.parametrize(("name", "secret"), PROGRAMS)
def test_every_program_reads_keys_as_its_users_and_shows_who_it_is(release: Release, name: str, secret: str) -> None:
    conf = configured(planned(release, name, REF), name, secret)
    assert conf["key_manager"]["backend"] == "barbican"
    assert dict(conf["barbican"]) == {
        "barbican_endpoint": "https://barbican-api:9311",
        "barbican_api_version": "v1",
        "auth_endpoint": "https://keystone-api:5000/v3",
        "send_service_user_token": "true",
        "verify_ssl_path": "/etc/openstack-trust/internal-bundle/ca.crt",
    }
    service = conf["barbican_service_user"]
    assert service["username"] == CLIENTS[name].users[secret]
    assert service["password"]


@pytest.mark.parametrize(("name", "secret"), PROGRAMS)
def test_a_service_that_names_no_barbican_has_no_key_manager(release: Release, name: str, secret: str) -> None:
    conf = configured(planned(release, name, {}), name, secret)
    assert not {"key_manager", "barbican", "barbican_service_user"} & set(conf.sections())


@pytest.mark.parametrize("name", CLIENTS)
def test_without_tls_there_is_nothing_to_verify(release: Release, name: str) -> None:
    plain = {"Keystone": {"internalURL": "http://k:5000/v3"}, "Barbican": {"internalURL": "http://b:9311"}}
    made = planned(release, name, REF, published=PUBLISHED | plain)
    for secret in CLIENTS[name].users:
        assert "verify_ssl_path" not in configured(made, name, secret)["barbican"]


@pytest.mark.parametrize("name", CLIENTS)
def test_only_those_wait_that_need_keys_for_their_daily_work(release: Release, name: str) -> None:
    assert ("Barbican" in planned(release, name, REF).condition.values()) is (name != "glance")


def test_nodes_reach_barbican_if_policies_are_on(release: Release) -> None:
    """nova-compute is on the network of its node, which no rule for pods means."""
    policies = {"networkPolicies": {"enabled": True, "nodes": ["192.0.2.0/24"]}}
    named = "nova-uses-barbican-barbican-api"
    assert named not in objects(planned(release, "nova", policies), "NetworkPolicy")
    policy = objects(planned(release, "nova", {**policies, **REF}), "NetworkPolicy")[named]
    assert policy["spec"]["ingress"] == [
        {"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 9311, "protocol": "TCP"}]}
    ]


def test_a_cloud_with_barbican_wires_it_to_all_three(release: Release) -> None:
    def refs(spec: Mapping[str, Any]) -> dict[str, Any]:
        made = cloud(context(CONTROL_PLANE, spec, release=release))
        kids = {obj["metadata"]["name"]: obj["spec"] for obj in made.objects}
        return {name: kid["barbicanRef"] for name, kid in kids.items() if "barbicanRef" in kid}

    cinder_on = {"cinder": {"enabled": True}}
    name = {"name": "barbican"}
    assert refs(cinder_on) == {}
    assert refs({**cinder_on, "barbican": {"enabled": True}}) == {"nova": name, "cinder": name, "glance": name}
    own = {"barbican": {"enabled": True}, "nova": {"barbicanRef": {"name": "mine"}}}
    assert refs(own) == {"nova": {"name": "mine"}, "glance": name}


@pytest.mark.parametrize("name", CLIENTS)
def test_the_reference_is_one_that_the_runtime_follows(name: str) -> None:
    spec = CLIENTS[name].service.resource.spec.model_validate({**CLIENTS[name].spec, **REF})
    assert ("spec.barbicanRef", "Barbican", "barbican") in [(at, r.kind, r.name) for at, r in references(spec)]


@pytest.mark.security
@pytest.mark.parametrize("attaches", ["iscsi", "ceph"])
@pytest.mark.parametrize("ref", [REF, {}], ids=["barbican", "none"])
def test_passphrases_of_volumes_are_on_no_disk_of_a_node(
    release: Release, attaches: str, ref: Mapping[str, Any]
) -> None:
    """libvirt writes them as clear text into its folder, one for each encrypted volume that a guest has."""

    ceph = {"cephKeys": "22222222-2222-8222-8222-222222222222=ceph"} if attaches == "ceph" else {}
    published = PUBLISHED | {"Cinder": {"internalURL": "http://c:8776", "attaches": attaches, **ceph}}
    made = planned(release, "nova", ref, published=published, secrets={**SECRETS, "ceph": {"key": "k"}})
    pod = objects(made, "DaemonSet")["nova-libvirt"]["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume.get("emptyDir") for volume in pod["volumes"]}
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "libvirt-secrets"]
    assert mount["mountPath"] == "/etc/libvirt/secrets"
    # Also without the reference: Nova finds a Barbican in the catalog, too.
    assert volumes["libvirt-secrets"] == {"medium": "Memory", "sizeLimit": "16Mi"}
