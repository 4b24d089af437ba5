"""What is written for operators of others is taken by their own definitions, and what they do not know is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from openstack_operator.kube import Object
from openstack_operator.plan import Kind, SpecError
from openstack_operator.yaml_text import load, load_text
from tools.operators import crds

from .conftest import install
from .harness import Cluster
from .rest import Rest

SERVERS = load(Path(__file__).parent.parent / "e2e" / "on_providers" / "servers.yaml")


@pytest.fixture
def rest(kubeconfig: Path, cluster: Cluster) -> Iterator[Rest]:
    connection = Rest(kubeconfig, cluster.namespace)
    yield connection
    connection.close()


@pytest.mark.parametrize("obj", SERVERS, ids=lambda obj: f"{obj['kind']}-{obj['apiVersion'].partition('/')[0]}")
def test_objects_of_end_to_end_tests_are_accepted_by_external_definitions(rest: Rest, obj: Object) -> None:
    status, answer = rest.create({**obj, "metadata": {**obj["metadata"], "namespace": rest.namespace}})
    assert status == 201, answer


DATABASE = """
apiVersion: k8s.mariadb.com/v1alpha1
kind: Database
metadata: {name: nova}
spec: {mariaDbRef: {name: database}, charset: utf8mb3}
"""
PROJECT = """
apiVersion: openstack.k-orc.cloud/v1alpha1
kind: Project
metadata: {name: customer}
spec: {cloudCredentialsRef: {secretName: clouds, cloudName: admin}, managementPolicy: managed}
"""
VALKEY = """
apiVersion: cache.cs.sap.com/v1alpha1
kind: Valkey
metadata: {name: cache}
spec: {replicas: 0}
"""
EXTERNAL_SECRET = """
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: clouds}
spec: {data: [{secretKey: clouds.yaml}]}
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DATABASE, 'unknown field "spec.charset"'),
        (PROJECT, "resource must be specified when policy is managed"),
        (VALKEY, "spec.replicas"),
        (EXTERNAL_SECRET, "spec.data[0].remoteRef: Required value"),
    ],
    ids=("database", "project", "valkey", "external-secret"),
)
def test_unknown_fields_are_refused_by_external_definitions(rest: Rest, text: str, reason: str) -> None:
    (obj,) = load_text(text)
    status, answer = rest.create({**obj, "metadata": {**obj["metadata"], "namespace": rest.namespace}})
    assert status in (400, 422), answer
    assert reason in answer["message"]


async def test_a_field_that_an_older_definition_lacks_is_left_out(cluster: Cluster) -> None:
    """Rook's clients have a kind of key since v1.19. Other fields that nobody knows are refused as ever."""
    (definition,) = crds.definitions("rook", only=["cephclients.ceph.rook.io"])
    group = "older.rook.example"
    await install(
        [
            {
                **definition,
                "metadata": {
                    "name": f"cephclients.{group}",
                    "annotations": {"api-approved.kubernetes.io": "unapproved, only a test"},
                },
                "spec": {**definition["spec"], "group": group},
            }
        ]
    )
    kind = Kind(f"{group}/v1", "CephClient", "cephclients", newer_fields=("security",))
    spec = {"caps": {"mon": "profile rbd"}, "security": {"cephx": {"keyType": "aes"}}}
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": cluster.meta("cinder"), "spec": spec}
    assert (await cluster.client.apply(kind, obj))["spec"] == {"caps": spec["caps"]}
    with pytest.raises(SpecError, match="field not declared"):
        await cluster.client.apply(kind, {**obj, "spec": {**spec, "other": 1}})
    with pytest.raises(SpecError, match=r"\.spec\.security"):
        await cluster.client.apply(replace(kind, newer_fields=()), obj)
