"""Every sample, golden and definition is taken by a strict API server, and a second apply changes nothing."""

from __future__ import annotations

import base64
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from openstack_operator.kube import Object, secret_data
from openstack_operator.runtime.reconcile.compare import covers
from openstack_operator.yaml_text import load, load_text

from .rest import MORE, Rest, kind_of

ROOT = Path(__file__).parent.parent.parent
GOLDENS = {
    folder.parent.name: sorted(folder.glob("*.yaml"))
    for folder in (ROOT / "src" / "openstack_operator" / "services").glob("*/cases")
}
"""Cases and what becomes of them, by service."""
# Files for Helm, OLM, Flux and Argo CD are tried by test_charts.py, tools/checks/olm_bundle.py and make e2e-install.
_FOLDERS_OF_OTHERS = {"charts", "bundle", "flux", "argo-cd"}
# What kubectl and helm read themselves is no object.
DEPLOYED = sorted(
    path
    for path in (ROOT / "deploy").rglob("*.yaml")
    if path.name != "kustomization.yaml" and not _FOLDERS_OF_OTHERS & {*path.relative_to(ROOT).parts}
)

_numbers = itertools.count()

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


@pytest.fixture(scope="module")
def connection(kubeconfig: Path) -> Iterator[Rest]:
    """One connection, in whose namespace nothing is made."""
    connection = Rest(kubeconfig, "default")
    yield connection
    connection.close()


@pytest.fixture
def rest(connection: Rest) -> Iterator[Callable[[], Rest]]:
    """The same connection in a new namespace each time."""
    yield lambda: connection.in_new_namespace(f"manifests-{os.getpid()}-{next(_numbers)}")


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
    # Definitions are applied when the server is made: for one that is as it should be, this is the second time.
    before = [rest.version(obj) if kind_of(obj) in MORE else "" for obj in objects]
    written = [
        (obj, version)
        for obj, old, version in zip(objects, before, applied(rest, objects), strict=True)
        if old != version
    ]
    again = zip(written, applied(rest, [obj for obj, _ in written]), strict=True)
    rewritten = {version: obj for (obj, old), version in again if old != version}
    for obj in rewritten.values():
        is_claim = obj["kind"] == "PersistentVolumeClaim"
        assert is_claim or not ("labels" in obj["metadata"] or obj.get("spec")), (
            f"{obj['kind']}/{obj['metadata']['name']}"
        )
    assert applied(rest, list(rewritten.values())) == list(rewritten)


def _encoded(obj: Object) -> Object:
    if "stringData" not in obj:
        return obj
    data = {name: base64.b64encode(text.encode()).decode() for name, text in obj["stringData"].items()}
    encoded = {name: value for name, value in obj.items() if name != "stringData"} | {"data": data}
    assert secret_data(encoded) == obj["stringData"]
    return encoded


def content(obj: Object) -> str:
    """What the API server looks at: not the name, and of the values in a Secret none."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "name"}
    kept = {name: sorted(value) if name in ("data", "stringData") else value for name, value in obj.items()}
    return json.dumps({**(kept if obj["kind"] == "Secret" else obj), "metadata": metadata}, sort_keys=True)


def distinct(files: Mapping[str, list[Object]]) -> dict[str, list[Object]]:
    """The objects of some files, each content once: of 1,100 objects in the cases of all services 850 differ."""
    seen = set[str]()
    found: dict[str, list[Object]] = {}
    for name, objects in files.items():
        by_content = {content(obj): obj for obj in reversed(objects)}
        found[name] = [obj for obj in objects if by_content[content(obj)] is obj and content(obj) not in seen]
        seen |= by_content.keys()
    return found


def test_objects_that_differ_in_what_the_server_reads_are_all_sent() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "stringData": {"key": "value"}}
    renamed, retold = {**secret, "metadata": {"name": "two"}}, {**secret, "stringData": {"key": "other"}}
    labeled = {**secret, "metadata": {"name": "one", "labels": {"app": "nova"}}}
    rekeyed = {**secret, "stringData": {"other": "value"}}
    config = {**secret, "kind": "ConfigMap", "data": {"key": "value"}}
    changed = {**config, "data": {"key": "other"}}
    assert distinct({"a": [secret, renamed, labeled], "b": [retold, rekeyed, config, changed]}) == {
        "a": [secret, labeled],
        "b": [rekeyed, config, changed],
    }


@pytest.mark.parametrize("service", sorted(GOLDENS))
def test_cases_and_goldens(rest: Callable[[], Rest], service: str) -> None:
    files = {path.stem: load(path) for path in GOLDENS[service]}
    sent = distinct(files)
    assert {kind_of(obj) for objects in sent.values() for obj in objects} == {
        kind_of(obj) for objects in files.values() for obj in objects
    }
    for objects in sent.values():
        settles(rest(), objects)


@pytest.mark.parametrize("path", DEPLOYED, ids=lambda path: path.stem)
def test_deployed_objects_are_accepted_by_the_api_server(rest: Callable[[], Rest], path: Path) -> None:
    objects = load(path)
    settles(rest(), objects)


def test_a_large_cloud(rest: Callable[[], Rest]) -> None:
    objects = load_text(LARGE)
    settles(rest(), objects)
