"""Every sample, golden and definition is taken by a strict API server, and a second apply changes nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from openstack_operator.kube import Object, secret_data
from openstack_operator.runtime.reconcile.compare import covers
from openstack_operator.yaml_text import load, load_text

from .harness import Cluster
from .rest import MORE, Rest, kind_of

ROOT = Path(__file__).parent.parent.parent
GOLDENS = sorted((ROOT / "src" / "openstack_operator" / "services").glob("*/cases/*.yaml"))
# Files for Helm, OLM, Flux and Argo CD are tried by test_charts.py, tools/checks/olm_bundle.py and make e2e-install.
_FOLDERS_OF_OTHERS = {"charts", "bundle", "flux", "argo-cd"}
# What kubectl and helm read themselves is no object.
DEPLOYED = sorted(
    path
    for path in (ROOT / "deploy").rglob("*.yaml")
    if path.name != "kustomization.yaml" and not _FOLDERS_OF_OTHERS & {*path.relative_to(ROOT).parts}
)

# Everything the API names, as a user may write it who wants a large cloud.
LARGE = """
apiVersion: openstack.k8s.io/v1alpha1
kind: OpenStackControlPlane
metadata:
  name: large
spec:
  region: Central
  networkBackend: ovn
  storageBackend: ceph
  tls: {enabled: true, issuerRef: {name: company-ca, kind: ClusterIssuer}}
  mariadb: {replicas: 3, storageSize: 200Gi}
  rabbitmq: {replicas: 3}
  memcached: {replicas: 3}
  keystone: {replicas: 3}
  glance: {replicas: 3, storageType: ceph}
  placement: {replicas: 3}
  neutron: {replicas: 3, mechanism: ovn}
  nova: {replicas: 3}
  cinder: {enabled: true, replicas: 3, backends: [{name: fast, type: ceph}, {name: local, type: lvm}]}
  heat: {enabled: false}
  horizon: {enabled: true, replicas: 2}
"""


@pytest.fixture
def rest(kubeconfig: Path, cluster: Cluster) -> Iterator[Rest]:
    connection = Rest(kubeconfig, cluster.namespace)
    yield connection
    connection.close()


def applied(rest: Rest, objects: list[Object]) -> list[str]:
    """Versions of the objects after they were applied to the test's own namespace."""
    versions: list[str] = []
    for obj in objects:
        # As the operator writes it: plain text would be a write each time.
        body = _encoded(obj)
        # What has a finalizer would keep the namespace from going.
        metadata = {name: value for name, value in body["metadata"].items() if name != "finalizers"}
        if kind_of(obj) not in MORE:
            metadata["namespace"] = rest.namespace
        status, answer = rest.apply({**body, "metadata": metadata})
        assert status in (200, 201), f"{obj['kind']}/{metadata['name']}: {answer}"
        # Where it does not, an operator that starts anew takes it for changed by somebody, and writes it again.
        assert covers({**body, "metadata": metadata}, answer), f"{obj['kind']}/{metadata['name']} is stored differently"
        versions.append(answer["metadata"]["resourceVersion"])
    return versions


def settles(rest: Rest, objects: list[Object]) -> None:
    """Applying again writes nothing. The API server itself rewrites a claim once, and an object of which the first
    apply set nothing, when it notes down who owned the defaults before: these are applied a third time.
    """
    first, second = (applied(rest, objects) for _ in range(2))
    rewritten = [obj for obj, one, other in zip(objects, first, second, strict=True) if one != other]
    for obj in rewritten:
        is_claim = obj["kind"] == "PersistentVolumeClaim"
        assert is_claim or not ("labels" in obj["metadata"] or obj.get("spec")), (
            f"{obj['kind']}/{obj['metadata']['name']}"
        )
    if rewritten:
        assert applied(rest, objects) == second


def _encoded(obj: Object) -> Object:
    if "stringData" not in obj:
        return obj
    data = {name: base64.b64encode(text.encode()).decode() for name, text in obj["stringData"].items()}
    encoded = {name: value for name, value in obj.items() if name != "stringData"} | {"data": data}
    assert secret_data(encoded) == obj["stringData"]
    return encoded


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_cases_and_goldens(rest: Rest, path: Path) -> None:
    objects = load(path)
    settles(rest, objects)


@pytest.mark.parametrize("path", DEPLOYED, ids=lambda path: path.stem)
def test_deployed_objects_are_accepted_by_the_api_server(rest: Rest, path: Path) -> None:
    objects = load(path)
    settles(rest, objects)


def test_a_large_cloud(rest: Rest) -> None:
    objects = load_text(LARGE)
    settles(rest, objects)
