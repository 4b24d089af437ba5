"""Glance: images on a volume that outlives it."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import NotBuilt, Object, Plan, Release
from openstack_operator.services.glance.model import GLANCE
from openstack_operator.services.glance.service import plan
from openstack_operator.testing import context

CONTRACTS = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
}


def planned(release: Release, spec: dict[str, Any] | None = None) -> Plan:
    return plan(context(GLANCE, spec, release=release, published=CONTRACTS))


def claim(made: Plan) -> Object:
    return next(obj for obj in made.objects if obj["kind"] == "PersistentVolumeClaim")


@pytest.mark.parametrize("storage", ["ceph", "swift"])
def test_other_stores_are_not_built_yet(release: Release, storage: str) -> None:
    with pytest.raises(NotBuilt, match=rf"spec.storageType: {storage} is not built yet; use pvc"):
        planned(release, {"storageType": storage})


def test_images_are_kept_unless_the_user_says_otherwise(release: Release) -> None:
    assert claim(planned(release))["metadata"]["annotations"][kube.RETAIN] == "true"
    assert kube.RETAIN not in claim(planned(release, {"storage": {"retention": "Delete"}}))["metadata"]["annotations"]


def test_the_volume_is_what_the_spec_says(release: Release) -> None:
    storage = {"size": "1Ti", "storageClass": "fast", "accessMode": "ReadWriteMany"}
    assert claim(planned(release, {"storage": storage}))["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Ti"}},
    }


def strategy(made: Plan) -> str:
    return next(obj for obj in made.objects if obj["kind"] == "Deployment")["spec"]["strategy"]["type"]


def test_a_volume_of_one_node_is_let_go_of_before_the_next_pod_starts(release: Release) -> None:
    assert strategy(planned(release)) == "Recreate"
    assert strategy(planned(release, {"storage": {"accessMode": "ReadWriteMany"}})) == "RollingUpdate"


def test_images_lie_on_the_volume_and_nowhere_else(release: Release) -> None:
    made = planned(release)
    deployment = next(obj for obj in made.objects if obj["kind"] == "Deployment")
    main = deployment["spec"]["template"]["spec"]["containers"][0]
    mounts = {mount["mountPath"]: mount["name"] for mount in main["volumeMounts"]}
    assert mounts["/var/lib/glance"] == "images"
    assert "/var/lib/glance" not in {path for path, name in mounts.items() if name == "scratch"}
