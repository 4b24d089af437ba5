"""Names that differ by group, and earlier ones: what is stored by them can be written anew, and nothing else."""

from __future__ import annotations

from typing import Any

import cel
import pytest

from openstack_operator.api import crd
from openstack_operator.cli.offline.rules import FUNCTIONS
from openstack_operator.registry import RESOURCES
from openstack_operator.services.glance.model import GlanceSpec, stores
from openstack_operator.services.mariadb.model import MariaDBSpec

KINDS = {resource.handle: resource for resource in RESOURCES}
C5C3_GLANCE = "Glance.glance.openstack.c5c3.io"


def spec_of(kind: str) -> dict[str, Any]:
    return crd(KINDS[kind])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def refused(schema: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Fields that rules of an object, and not of its fields, name."""
    found: list[str] = []
    for rule in schema["x-kubernetes-validations"]:
        context = cel.Context({"self": new, "oldSelf": old}, dict(FUNCTIONS))
        if cel.compile(rule["rule"]).execute(context) is not True:
            found.append(rule["fieldPath"])
    return found


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ({"storageClass": "fast"}, {"storageClassName": "fast"}, []),
        ({"storageClass": "fast"}, {"storageClassName": "slow"}, [".storageClassName"]),
        ({"storageClass": "fast"}, {}, [".storageClassName"]),
        ({"storageClass": "fast"}, {"storageClass": "fast"}, [".storageClassName", ".storageClass"]),
        ({"storageClassName": "fast"}, {"storageClassName": "fast"}, []),
        ({"storageClassName": "fast"}, {"storageClassName": "slow"}, [".storageClassName"]),
        ({"storageClassName": "fast"}, {}, [".storageClassName"]),
        ({}, {"storageClassName": "fast"}, [".storageClassName"]),
        ({}, {}, []),
    ],
)
def test_an_earlier_name_of_a_storage_class_is_written_as_the_present(
    old: dict[str, Any], new: dict[str, Any], fields: list[str]
) -> None:
    assert refused(spec_of("Glance")["properties"]["storage"], old, new) == fields


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ("rbd", "ceph", []),
        ("file", "pvc", []),
        ("swift", "swift", []),
        ("s3", "s3", []),
        ("rbd", "pvc", [".storageType"]),
        ("rbd", "s3", [".storageType"]),
    ],
)
def test_a_backend_is_written_as_a_storage_type(old: str, new: str, fields: list[str]) -> None:
    # The API server had filled in the default of what nobody wrote.
    before = {"storageType": "pvc", "storage": {"backend": old}}
    assert refused(spec_of("Glance"), before, {"storageType": new, "storage": {}}) == fields


def test_storage_of_images_cannot_change() -> None:
    ours, theirs = spec_of("Glance"), spec_of(C5C3_GLANCE)
    assert refused(ours, {"storageType": "ceph"}, {"storageType": "pvc"}) == [".storageType"]
    assert refused(theirs, {"storageType": "ceph"}, {"storageType": "pvc"}) == [".storageType"]
    rbd, file = ({"storage": {"backend": name}} for name in ("rbd", "file"))
    assert refused(theirs, rbd, rbd) == []
    assert refused(theirs, rbd, file) == [".storage.backend"]


def test_kinds_of_c5c3_keep_the_names_of_its_manifests() -> None:
    storage = spec_of(C5C3_GLANCE)["properties"]["storage"]["properties"]
    assert {"storageClass", "backend"} <= storage.keys()
    assert "storageClassName" not in storage
    assert storage["backend"]["enum"] == ["file", "rbd", "swift", "s3"]
    mariadb = spec_of("ControlPlane.c5c3.io")["properties"]["infrastructure"]["properties"]["mariadb"]["properties"]
    assert "storageClass" in mariadb
    assert "storageClassName" not in mariadb


def test_no_mark_of_a_dialect_is_in_a_definition() -> None:
    for resource in RESOURCES:
        text = str(crd(resource))
        assert not [mark for mark in ("x-ours", "x-theirs", "x-renamed", "x-called", "x-as-object") if mark in text]


def test_either_name_is_read() -> None:
    for name in ("storageClass", "storageClassName", "storage_class_name"):
        assert MariaDBSpec.model_validate({name: "fast"}).storage_class_name == "fast"
    assert stores(GlanceSpec.model_validate({"storage": {"backend": "rbd"}}))[0].type == "ceph"
