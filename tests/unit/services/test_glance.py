"""Glance: images on a volume that outlives it."""

from __future__ import annotations

import runpy
import sys
from configparser import ConfigParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from openstack_operator import kube
from openstack_operator.api import references
from openstack_operator.plan import FIELDS_IGNORED, Object, Plan, Release, SpecError
from openstack_operator.services.glance import SERVICE
from openstack_operator.services.glance.model import GLANCE, GlanceSpec
from openstack_operator.services.glance.service import plan
from openstack_operator.testing import context
from tests.planning import planner

ROOT = Path(__file__).parent.parent.parent.parent
CONTRACTS = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
}


CEPH = {
    "fsid": "11111111-2222-3333-4444-555555555555",
    "monitors": "ceph-mon-a",
    "imagesUser": "client.glance",
    "imagesPool": "images",
    "imagesSecret": "ceph-client-images",
}
SECRETS = {
    "ceph-client-images": {"ceph.conf": "", "keyring": "", "key": "k"},
    "mine": {
        "ceph.conf": "[global]\nfsid = 99999999-2222-3333-4444-555555555555\nmon host = 192.0.2.1\n",
        "keyring": "[client.glance]\nkey = AQBvaWJlAAAAABAAaGVsbG9oZWxsb2hlbGxvIQ==\n",
    },
    "s3": {"access": "me", "secret": "pa$s"},
    "swift": {"password": "1%2"},
}


planned = planner(plan, GLANCE, published=CONTRACTS | {"CephStorage": CEPH}, secrets=SECRETS, owner="glance")


def files(made: Plan) -> dict[str, str]:
    return kube.secret_data(next(o for o in made.objects if o["metadata"]["name"] == "glance-config"))


def options(made: Plan) -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read_string(files(made)["glance-api.conf"])
    return parser


def pod(made: Plan) -> Object:
    return next(obj for obj in made.objects if obj["kind"] == "Deployment")["spec"]["template"]["spec"]


def claim(made: Plan) -> Object:
    return next(obj for obj in made.objects if obj["kind"] == "PersistentVolumeClaim")


def test_images_are_kept_unless_the_user_says_otherwise(release: Release) -> None:
    assert claim(planned(release))["metadata"]["annotations"][kube.RETAIN] == "true"
    assert kube.RETAIN not in claim(planned(release, {"storage": {"retention": "Delete"}}))["metadata"]["annotations"]


def test_the_volume_is_what_the_spec_says(release: Release) -> None:
    storage = {"size": "1Ti", "storageClassName": "fast", "accessMode": "ReadWriteMany"}
    assert claim(planned(release, {"storage": storage}))["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Ti"}},
    }


def strategy(made: Plan) -> str:
    return next(obj for obj in made.objects if obj["kind"] == "Deployment")["spec"]["strategy"]["type"]


def test_a_volume_of_one_node_is_released_before_the_next_pod_starts(release: Release) -> None:
    assert strategy(planned(release)) == "Recreate"
    assert strategy(planned(release, {"storage": {"accessMode": "ReadWriteMany"}})) == "RollingUpdate"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"replicas": 2}, "spec.replicas"),
        ({"api": {"replicas": 3}}, "spec.api.replicas"),
        (
            {"api": {"autoscaling": {"maxReplicas": 4}, "resources": {"requests": {"cpu": "1"}}}},
            "spec.api.autoscaling.maxReplicas",
        ),
    ],
)
def test_a_single_pod_runs_if_several_could_not_share_the_volume(
    release: Release, spec: dict[str, Any], field: str
) -> None:
    ctx = context(GLANCE, spec, release=release, published=CONTRACTS, owner="glance")
    made = SERVICE.make_plan(ctx)
    assert next(obj for obj in made.objects if obj["kind"] == "Deployment")["spec"]["replicas"] == 1
    assert not [obj for obj in made.objects if obj["kind"] == "HorizontalPodAutoscaler"]
    said = made.outcome.extra_conditions[FIELDS_IGNORED].message
    assert said.startswith(f"{field}: only one pod runs, since several cannot share a ReadWriteOnce volume")
    shared = {**spec, "storage": {"accessMode": "ReadWriteMany"}}
    made = SERVICE.make_plan(context(GLANCE, shared, release=release, published=CONTRACTS, owner="glance"))
    assert FIELDS_IGNORED not in made.outcome.extra_conditions


def test_images_lie_on_the_volume_and_nowhere_else(release: Release) -> None:
    made = planned(release)
    deployment = next(obj for obj in made.objects if obj["kind"] == "Deployment")
    main = deployment["spec"]["template"]["spec"]["containers"][0]
    mounts = {mount["mountPath"]: mount["name"] for mount in main["volumeMounts"]}
    assert mounts["/var/lib/glance"] == "images"
    assert "/var/lib/glance" not in {path for path, name in mounts.items() if name == "scratch"}


@pytest.mark.parametrize(
    "spec",
    [{"storageType": "ceph"}, {"storage": {"backend": "rbd", "rbd": {"pool": "images"}}}],
    ids=["type", "backend"],
)
def test_images_in_ceph(release: Release, spec: dict[str, Any]) -> None:
    made = planned(release, spec)
    found = options(made)
    assert found["DEFAULT"]["enabled_backends"] == "rbd:rbd"
    assert (found["rbd"]["rbd_store_user"], found["rbd"]["rbd_store_pool"]) == ("glance", "images")
    assert found["image_conversion"]["output_format"] == "raw"
    assert found["image_import_opts"]["image_import_plugins"] == "[image_conversion]", "Glance wants a list in brackets"
    mounts = {mount["mountPath"] for mount in pod(made)["containers"][0]["volumeMounts"]}
    assert {"/etc/ceph/ceph.conf", "/etc/ceph/ceph.client.glance.keyring"} <= mounts
    assert not [obj for obj in made.objects if obj["kind"] == "PersistentVolumeClaim"]
    assert strategy(made) == "RollingUpdate"
    job = next(obj for obj in made.objects if obj["kind"] == "Job")["spec"]["template"]["spec"]
    assert "keyring" not in str(job), "the schema needs no key of Ceph's"


SHOWS_LOCATIONS = {"OS_DEFAULT__SHOW_IMAGE_DIRECT_URL": "true", "OS_DEFAULT__SHOW_MULTIPLE_LOCATIONS": "true"}


def shows_locations(made: Plan) -> dict[str, bool]:
    """By name of an API: True where it says where images are."""
    programs = {obj["metadata"]["name"]: obj for obj in made.objects if obj["kind"] == "Deployment"}
    containers = {name: obj["spec"]["template"]["spec"]["containers"][0] for name, obj in programs.items()}
    env = {name: {each["name"]: each.get("value") for each in main["env"]} for name, main in containers.items()}
    return {name: found | SHOWS_LOCATIONS == found for name, found in env.items()}


def endpoints(made: Plan) -> dict[str, str]:
    return next(obj for obj in made.objects if obj["kind"] == "KeystoneService")["spec"]["endpoints"]


@pytest.mark.security
def test_users_are_not_told_where_in_ceph_images_lie(release: Release) -> None:
    made = planned(release, {"storageType": "ceph", "expose": {"type": "NodePort", "host": "192.0.2.1"}})
    assert shows_locations(made) == {"glance-api": False, "glance-internal-api": True}
    assert "glance-internal-api." in endpoints(made)["internal"]
    assert made.outcome.published["internalURL"] == endpoints(made)["internal"]
    assert "internal" not in endpoints(made)["public"]
    services = {
        o["metadata"]["name"]: o["spec"].get("type", "ClusterIP") for o in made.objects if o["kind"] == "Service"
    }
    assert services == {"glance-api": "NodePort", "glance-internal-api": "ClusterIP"}


def test_a_single_api_serves_all_if_images_are_not_cloned(release: Release) -> None:
    for spec in ({}, {"storageType": "swift"}):
        made = planned(release, spec)
        assert shows_locations(made) == {"glance-api": False}
        assert endpoints(made)["internal"] == made.outcome.published["internalURL"] == endpoints(made)["public"]


def test_internal_api_exists_unless_a_volume_of_one_node_is_used(release: Release) -> None:
    backends = [{"name": "rbd", "type": "ceph"}, {"name": "file", "type": "pvc"}]
    assert shows_locations(planned(release, {"storage": {"backends": backends}})) == {"glance-api": True}
    shared = {"backends": backends, "accessMode": "ReadWriteMany"}
    assert shows_locations(planned(release, {"storage": shared})) == {"glance-api": False, "glance-internal-api": True}


def test_every_pod_of_the_cloud_reaches_the_api_inside(release: Release) -> None:
    made = planned(release, {"storageType": "ceph", "networkPolicies": {"enabled": True}})
    policies = {o["metadata"]["name"]: o["spec"] for o in made.objects if o["kind"] == "NetworkPolicy"}
    rules = policies["glance-internal-api"]["ingress"]
    assert [rule["ports"] for rule in rules] == [[{"port": 9292, "protocol": "TCP"}]]
    ours = {"podSelector": {"matchExpressions": [{"key": kube.KIND, "operator": "Exists"}]}}
    assert rules[0]["from"] == [ours], "keystoneclient and Tempest call it, too"


def test_the_catalog_names_the_api_inside_once_it_is_ready(release: Release) -> None:
    """A cloud that has one API gets another one: nobody is sent to it before it answers."""
    former = endpoints(planned(release, {}))
    catalog = {"kind": "KeystoneService", "metadata": {"name": "glance-catalog"}, "spec": {"endpoints": former}}
    ctx = context(
        GLANCE,
        {"storageType": "ceph"},
        release=release,
        published=CONTRACTS | {"CephStorage": CEPH},
        secrets=SECRETS,
        owner="glance",
        children={("KeystoneService", "glance-catalog"): catalog},
    )
    made = plan(ctx)
    assert made.outcome.published["internalURL"] == former["internal"]
    steps = {step.name: step for step in made}
    assert steps["InternalAPI"].barrier
    assert steps["InternalAPI"] in steps["Endpoint"].after


def test_only_who_asks_for_ceph_waits_for_it() -> None:
    def kinds(spec: dict[str, Any]) -> list[str]:
        refs = [ref for _, ref in references(GlanceSpec.model_validate(spec)) if ref.kind == "CephStorage"]
        return [ref.name for ref in refs if not ref.optional]

    assert kinds({}) == []
    assert kinds({"storageType": "ceph"}) == ["ceph"]
    assert kinds({"storage": {"rbd": {"cephStorageRef": {"name": "other"}}, "backend": "rbd"}}) == ["other"]
    assert kinds({"storage": {"backends": [{"name": "a", "type": "ceph"}]}}) == ["ceph"]
    assert kinds({"storageType": "ceph", "storage": {"rbd": {"cephSecretRef": {"name": "mine"}}}}) == []


def test_several_stores_at_once(release: Release) -> None:
    s3 = {
        "url": "http://s3.example",
        "accessKeyRef": {"name": "s3", "key": "access"},
        "secretKeyRef": {"name": "s3", "key": "secret"},
    }
    account = {"authUrl": "https://keystone.example/v3", "user": "me", "passwordRef": {"name": "swift"}}
    stores = [
        {"name": "fast", "type": "ceph"},
        {"name": "file", "type": "pvc"},
        {"name": "far", "type": "s3", "s3": s3},
        {"name": "own", "type": "swift"},
        {"name": "theirs", "type": "swift", "swift": account},
    ]
    made = planned(release, {"storage": {"backends": stores}})
    found = options(made)
    assert found["DEFAULT"]["enabled_backends"] == "fast:rbd,file:file,far:s3,own:swift,theirs:swift"
    assert found["glance_store"]["default_backend"] == "fast"
    assert found["fast"]["rbd_store_ceph_conf"] == "/etc/ceph/fast/ceph.conf"
    assert found["far"]["s3_store_secret_key"] == "pa$$s"
    accounts = ConfigParser()
    accounts.read_string(files(made)["swift-theirs.conf"] + files(made)["swift-own.conf"])
    assert (accounts["theirs"]["user"], accounts["theirs"]["key"]) == ("service:me", "1%2")
    assert accounts["own"]["auth_address"] == CONTRACTS["Keystone"]["internalURL"]
    assert claim(made)["metadata"]["name"] == "glance-images"


def test_images_are_copied_between_stores_where_there_are_several(release: Release) -> None:
    two = {"storage": {"backends": [{"name": "a", "type": "pvc"}, {"name": "b", "type": "ceph"}]}}
    for spec, copied in ({}, False), (two, True):
        methods = options(planned(release, spec))["DEFAULT"]["enabled_import_methods"]
        assert methods.startswith("[glance-direct")
        assert methods.endswith("]")
        assert ("copy-image" in methods) == copied
    own = {"config": {"DEFAULT": {"enabled_import_methods": "[glance-direct]"}}}
    assert options(planned(release, own))["DEFAULT"]["enabled_import_methods"] == "[glance-direct]"


@pytest.mark.security
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"storageType": "ceph"},
        {"storage": {"backends": [{"name": "a", "type": "pvc"}, {"name": "b", "type": "ceph"}]}},
    ],
    ids=["volume", "ceph", "two"],
)
def test_web_download_is_off_unless_the_spec_allows_it(release: Release, spec: dict[str, Any]) -> None:
    assert "download" not in options(planned(release, spec))["DEFAULT"]["enabled_import_methods"]
    methods = "[glance-direct,web-download]"
    allowed = options(planned(release, {**spec, "config": {"DEFAULT": {"enabled_import_methods": methods}}}))
    assert allowed["DEFAULT"]["enabled_import_methods"] == methods
    refused = allowed["import_filtering_opts"]["disallowed_hosts"].strip("[]").split(",")
    assert {"localhost", "127.0.0.1", "::1", "0.0.0.0", "169.254.169.254"} <= set(refused)
    assert "kubernetes.default.svc.cluster.local" in refused
    # Glance ignores what is refused where it is told what is allowed, so nothing is unless the user says it.
    assert "allowed_hosts" not in allowed["import_filtering_opts"]


@pytest.mark.security
def test_users_name_the_hosts_that_images_come_from(release: Release) -> None:
    own = {"allowed_hosts": "[images.example.org]", "disallowed_hosts": "[]"}
    filters = options(planned(release, {"config": {"import_filtering_opts": own}}))["import_filtering_opts"]
    assert {name: filters[name] for name in own} == own


def test_metadata_definitions_are_loaded_once_for_each_image(release: Release) -> None:
    def jobs(spec: dict[str, Any]) -> list[str]:
        names = [each["metadata"]["name"] for each in planned(release, spec).objects if each["kind"] == "Job"]
        return [name for name in names if "metadefs" in name]

    (name,) = jobs({})
    assert jobs({"config": {"DEFAULT": {"debug": True}}}) == [name]
    other = {"image": {"repository": "registry.example/glance", "tag": "2"}}
    assert jobs(other) != [name]


def test_the_api_does_not_wait_for_metadata_definitions(release: Release) -> None:
    steps = {step.name: step for step in planned(release)}
    waited, seen = list(steps["API"].after), set[str]()
    while waited:
        step = waited.pop()
        seen.add(step.name)
        waited += step.after
    assert "Schema" in seen
    assert "Definitions" not in seen


def test_two_clusters_need_two_names(release: Release) -> None:
    mine = {"name": "b", "type": "ceph", "rbd": {"cephSecretRef": {"name": "mine"}}}
    with pytest.raises(SpecError, match=r"client\.glance with different keys"):
        planned(release, {"storage": {"backends": [{"name": "a", "type": "ceph"}, mine]}})


def test_a_store_of_s3_needs_a_server(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.storage\.s3"):
        planned(release, {"storageType": "s3"})


def test_a_cache_keeps_to_its_size(release: Release) -> None:
    made = planned(release, {"storageType": "ceph", "imageCache": {"enabled": True, "size": "1Gi"}})
    found = options(made)
    assert found["paste_deploy"]["flavor"] == "keystone+cachemanagement"
    assert int(found["DEFAULT"]["image_cache_max_size"]) < 1024**3
    assert [container["name"] for container in pod(made)["containers"]] == ["main", "cache"]
    folders = [mount for c in pod(made)["containers"] for mount in c["volumeMounts"] if mount["name"] == "cache"]
    assert {mount["mountPath"] for mount in folders} == {found["DEFAULT"]["image_cache_dir"]}
    assert len(pod(planned(release))["containers"]) == 1


class Body:
    """What a client still sends."""

    def __init__(self, *pieces: bytes | OSError) -> None:
        self.left = list(pieces)

    def read(self, _: int = 0) -> bytes:
        piece = self.left.pop(0) if self.left else b""
        if isinstance(piece, OSError):
            raise piece
        return piece


@pytest.mark.parametrize("headers", [{}, {"HTTP_TRANSFER_ENCODING": "Chunked"}], ids=["sized", "chunked"])
@pytest.mark.parametrize("end", [(), (OSError("timeout"), b"never")], ids=["all of it", "a client that goes"])
def test_an_answer_waits_for_the_whole_request(headers: dict[str, str], end: tuple[Any, ...]) -> None:
    body = Body(b"some", b"more", *end)

    def refuses(environ: dict[str, Any], start_response: str) -> list[bytes]:
        return [start_response.encode()]

    def unchanged(api: Any) -> Any:
        return api

    found: dict[str, Any] = {
        "uwsgi": SimpleNamespace(chunked_read=body.read),
        "glance.common.wsgi_app": SimpleNamespace(init_app=lambda: refuses),
        "wsgi_errors": SimpleNamespace(answer_errors=unchanged),
    }
    with mock.patch.dict(sys.modules, found):
        program = runpy.run_path(str(ROOT / "images" / "glance" / "glance_wsgi"))
    assert program["application"]({"wsgi.input": body, **headers}, "begin") == [b"begin"]
    assert body.left == list(end[1:])
