"""A cloud by the names of openstack.k8s.io and by those of c5c3.io: the same models, plans and objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from openstack_operator import kube
from openstack_operator.api import PodSettings, crd, handle, structural
from openstack_operator.api.fields import image_object
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object
from openstack_operator.plan import SHARED_FIELDS, Release, UnsupportedError, Verdict, progressing
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.services.controlplane.c5c3 import API_NAMES, phase, translate
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE, C5C3ControlPlaneSpec

ONE: Object = {
    "apiVersion": "openstack.k8s.io/v1alpha1",
    "kind": "OpenStackControlPlane",
    "metadata": {"name": "cloud"},
    "spec": {
        "region": "North",
        "mariadb": {"replicas": 3, "storageSize": "20Gi", "storageClassName": "fast"},
        "rabbitmq": {"replicas": 3},
        "valkey": {"enabled": True, "replicas": 3, "sentinel": {"enabled": True}},
        "memcached": {"replicas": 2, "memory": "512Mi"},
        "keystone": {"replicas": 2},
        "nova": {"api": {"replicas": 2}, "scheduler": {"replicas": 2}},
        "cinder": {"enabled": True, "api": {"replicas": 2}},
    },
}
OTHER: Object = {
    "apiVersion": "c5c3.io/v1alpha1",
    "kind": "ControlPlane",
    "metadata": {"name": "cloud"},
    "spec": {
        "infrastructure": {
            "mariadb": {"replicas": 3, "storageSize": "20Gi", "storageClass": "fast"},
            "rabbitmq": {"replicas": 3},
            "valkey": {"replicas": 3, "sentinel": {"enabled": True}},
            "memcached": {"replicas": 2, "memory": "512Mi"},
        },
        "services": {
            "keystone": {"replicas": 2},
            "nova": {"api": {"replicas": 2}, "scheduler": {"replicas": 2}},
            "cinder": {"enabled": True, "api": {"replicas": 2}},
        },
        "global": {"region": "North"},
    },
}


@pytest.fixture
def objects(release: Release) -> Any:
    def made(manifest: Object) -> dict[tuple[str, str], Object]:
        paper = OfflineCluster(SERVICES, ACTUATORS, lambda _: release, password="drawn")
        found = [obj for planned in paper.render([manifest], "openstack") for obj in planned.objects]
        return {(obj["kind"], obj["metadata"]["name"]): obj for obj in found}

    return made


def test_both_make_the_same_but_for_groups(objects: Any) -> None:
    ours, theirs = objects(ONE), objects(OTHER)
    # Their APIs have the names of their resources, too.
    kinds = API_NAMES.groups.keys() - {"Cortex", "Tempest"}
    names = {("Service", name) for kind, name in theirs if kind in kinds}
    assert theirs.keys() - ours.keys() == names
    assert ours.keys() <= theirs.keys()
    certificates = {("Secret", f"{name}-api-tls") for _, name in names}
    for name, obj in theirs.items():
        if name in names | certificates:
            continue
        expected = ours[name]
        if name[0] in API_NAMES.groups:
            assert obj["apiVersion"] == f"{name[0].lower()}.openstack.c5c3.io/v1alpha1"
            expected = {**expected, "apiVersion": obj["apiVersion"]}
        if name[0] in LEFT_OPEN:
            expected = {**expected, "spec": {**expected["spec"], "provider": "auto"}}
        assert _without_places(obj) == _without_places(expected)


def _without_places(obj: Object) -> Object:
    """The object without where in its owner's spec it is decided, which has another name in the other door."""
    metadata = obj["metadata"]
    places = {kube.FIELD, SHARED_FIELDS}
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name not in places}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


LEFT_OPEN = ("MariaDB", "RabbitMQ", "Memcached", "Valkey")
"""Kinds whose provider is open where nobody says it, in one of the doors."""


def test_a_provider_is_open_unless_it_is_said(objects: Any) -> None:
    spec = {"infrastructure": {"mariadb": {"provider": "builtin"}, "memcached": {"memory": "1Gi"}}}
    found = objects({**OTHER, "spec": spec})
    told = {kind: found[kind, kind.lower()]["spec"]["provider"] for kind in LEFT_OPEN[:3]}
    assert told == {"MariaDB": "builtin", "RabbitMQ": "auto", "Memcached": "auto"}
    assert ("Valkey", "valkey") not in found


def test_each_resource_has_a_name_of_its_own() -> None:
    handles = [resource.handle for resource in RESOURCES]
    assert len(set(handles)) == len(handles)
    assert {f"{kind}.{group}" for kind, group in API_NAMES.groups.items()} <= set(handles)


def test_kinds_of_kubernetes_and_ours_go_by_their_name_alone() -> None:
    assert handle("v1", "Secret") == "Secret"
    assert handle("networking.k8s.io/v1", "Ingress") == "Ingress"
    assert handle("openstack.k8s.io/v1alpha1", "Keystone") == "Keystone"
    assert handle("keystone.openstack.c5c3.io/v1alpha1", "Keystone") == "Keystone.keystone.openstack.c5c3.io"
    assert handle("k8s.mariadb.com/v1alpha1", "MariaDB") == "MariaDB.k8s.mariadb.com"


def test_an_unset_field_keeps_its_default() -> None:
    spec = translate(C5C3ControlPlaneSpec())
    assert spec.model_fields_set == {"mariadb", "rabbitmq", "memcached"}
    assert all(getattr(spec, name).model_fields_set == {"provider"} for name in spec.model_fields_set)
    assert not spec.valkey.enabled


def defaulted(schema: Object, path: str) -> list[str]:
    """Paths of the fields that the API server fills in."""
    inner = [("[]", schema[name]) for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]
    inner += [(f".{name}", field) for name, field in schema.get("properties", {}).items()]
    return [path] * ("default" in schema) + [found for name, field in inner for found in defaulted(field, path + name)]


def test_an_unset_template_field_gets_no_default_from_the_api_server() -> None:
    """A default of a template's would be a decision of the user's for the service it becomes."""
    fields = structural(C5C3ControlPlaneSpec)["properties"]
    for name in ("infrastructure", "services", "cortex", "tempest"):
        assert defaulted(fields[name], name) == []


def test_rules_are_left_to_the_kinds_that_get_what_is_written() -> None:
    """The schema of the other door is checked twice otherwise, and a Glance of two pods would need storage at once."""
    (version,) = crd(C5C3_CONTROL_PLANE)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert "x-kubernetes-validations" not in json.dumps(spec["properties"])
    # But for what no kind below knows.
    assert [each["fieldPath"] for each in spec["x-kubernetes-validations"]] == [".infrastructure.rabbitmq.perService"]
    assert "x-kubernetes-validations" in json.dumps(structural(C5C3ControlPlaneSpec))


def test_a_valkey_that_is_named_runs_unless_it_is_told_not_to() -> None:
    named = {"infrastructure": {"valkey": {}}}
    assert translate(C5C3ControlPlaneSpec.model_validate(named)).valkey.enabled
    told = {"infrastructure": {"valkey": {"enabled": False}}}
    assert not translate(C5C3ControlPlaneSpec.model_validate(told)).valkey.enabled


@pytest.mark.proves("ControlPlane", "status.phase")
@pytest.mark.parametrize(
    ("missing", "expected"),
    [("MariaDB", "Infrastructure"), ("Keystone", "Identity"), ("Glance", "CoreServices"), ("Neutron", "Compute")],
)
def test_phases_are_those_of_c5c3(missing: str, expected: str) -> None:
    verdicts: dict[str, Verdict] = {f"{missing}Ready": progressing("not yet")}
    assert phase(verdicts) == expected
    assert phase({}) == "Ready"


@pytest.mark.parametrize(
    "image",
    [
        {"repository": "registry.example.org:5000/openstack/keystone", "tag": "28.0.0"},
        {"repository": "registry.example.org:5000/keystone"},
        {"repository": "keystone", "tag": "a", "digest": f"sha256:{'a' * 64}"},
        {"repository": "keystone", "digest": f"sha256:{'a' * 64}"},
    ],
)
def test_an_image_is_the_same_object_again(image: dict[str, str]) -> None:
    text = PodSettings.model_validate({"image": image}).image
    assert text
    assert image_object(text) == image


def test_images_are_handed_on_as_the_kind_has_them(objects: Any) -> None:
    image = {"repository": "example.org/nova", "tag": "1"}
    nova = {"image": image, "api": {"image": image}, "compute": {"libvirt": {"image": image}}}
    theirs = objects({**OTHER, "spec": {"services": {"nova": nova}}})["Nova", "nova"]["spec"]
    assert (theirs["image"], theirs["api"]["image"], theirs["compute"]["libvirt"]["image"]) == (image, image, image)
    text = "example.org/nova:1"
    ours = objects({**ONE, "spec": {"nova": {"image": text}, "cortex": {"enabled": True, "image": text}}})
    assert ours["Nova", "nova"]["spec"]["image"] == text
    assert ours["Cortex", "cortex"]["spec"]["image"] == image


@pytest.mark.parametrize("memory", ["1Mi", "2Ti", "0"])
def test_memory_that_no_cache_can_have_is_named_where_it_stands(memory: str) -> None:
    wanted = {"infrastructure": {"memcached": {"replicas": 2, "memory": memory}}}
    with pytest.raises(ValidationError, match=r"infrastructure\.memcached\.memory\n.*; choose 16Mi to 1Ti"):
        C5C3ControlPlaneSpec.model_validate(wanted)


def test_an_unsupported_field_is_named_by_its_path(objects: Any) -> None:
    spec = {"global": {"imageProfile": "kolla", "tls": {"enabled": True}}, "cortex": {"enabled": True}}
    with pytest.raises(UnsupportedError, match=r"spec\.global\.tls\.enabled: "):
        objects({**OTHER, "spec": spec})
