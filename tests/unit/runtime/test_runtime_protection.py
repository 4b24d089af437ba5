"""What nobody can make again is marked for programs that prune by label, whoever made it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from openstack_operator.kube import PROTECTED
from openstack_operator.plan import Object, Transient
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.cache.entries import Request, entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.protection import protect_volume_claims
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import VOLUME_CLAIM, Catalog, Kind
from openstack_operator.services.mariadb.model import MARIADB

REQUEST = Request(Kind.of(MARIADB).handle, "x", "mariadb")
LABELS = {"openstack.k8s.io/kind": "mariadb", "app.kubernetes.io/instance": "mariadb"}


class Annotating:
    """A client that takes annotations of claims, unless it refuses those of one."""

    def __init__(self, refused: str = "") -> None:
        self.annotated: list[str] = []
        self._refused = refused

    async def annotate(self, kind: Kind, live: Object, annotations: Mapping[str, str], *, manager: str) -> None:
        assert kind is VOLUME_CLAIM
        assert dict(annotations) == PROTECTED
        if live["metadata"]["name"] == self._refused:
            raise Transient("no route")
        self.annotated.append(live["metadata"]["name"])


def world(client: Annotating, *claims: tuple[str, Mapping[str, Any]]) -> World:
    cluster = World(cast("Client", client), Catalog([MARIADB]), [], lambda change: None)
    for name, changes in claims:
        meta = {"name": name, "namespace": "x", "uid": name, "resourceVersion": "1", "labels": LABELS, **changes}
        cluster.volumes.put(entry({"metadata": meta}, VOLUME_CLAIM))
    return cluster


async def test_claims_of_members_are_marked_once():
    client = Annotating()
    others = {"labels": {**LABELS, "app.kubernetes.io/instance": "other"}}
    claims = (
        ("data-mariadb-server-0", {}),
        ("data-mariadb-server-1", {"annotations": {**PROTECTED, "mine": "stays"}}),
        ("data-mariadb-server-2", {"annotations": {**PROTECTED, "helm.sh/resource-policy": "other"}}),
        ("data-other-server-0", others),
        ("going", {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )
    await protect_volume_claims(world(client, *claims), REQUEST)
    assert client.annotated == ["data-mariadb-server-0", "data-mariadb-server-2"]


async def test_a_claim_that_cannot_be_marked_keeps_no_other_from_it():
    client = Annotating(refused="a")
    await protect_volume_claims(world(client, ("a", {}), ("b", {})), REQUEST)
    assert client.annotated == ["b"]


GOLDENS = sorted(Path(__file__).parents[3].glob("src/openstack_operator/services/*/cases/*.golden.yaml"))


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: f"{path.parents[1].name}-{path.name.split('.')[0]}")
def test_everything_that_outlives_its_owner_is_marked(golden: Path):
    """Argo CD prunes by label what has no owner; so does an owner that leaves an irreplaceable Secret behind."""
    for manifest in yaml.load_all(golden.read_text(), yaml.CSafeLoader):
        annotations = (manifest or {}).get("metadata", {}).get("annotations") or {}
        marks = {"openstack.k8s.io/retain", "openstack.k8s.io/irreplaceable"} & annotations.keys()
        if marks:
            assert annotations.items() >= PROTECTED.items(), manifest["metadata"]["name"]


def test_the_marks_are_those_that_the_programs_read():
    assert PROTECTED == {
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
        "helm.sh/resource-policy": "keep",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
    }


def test_argo_cd_knows_when_each_kind_is_healthy(root: Path):
    settings = yaml.load((root / "deploy" / "argo-cd" / "argocd-cm.yaml").read_text(), yaml.CSafeLoader)["data"]
    assert settings["application.resourceTrackingMethod"] == "annotation"
    rules = yaml.load(settings["resource.customizations"], yaml.CSafeLoader)
    for resource in RESOURCES:
        assert any(fnmatch(f"{resource.group}/{resource.kind}", pattern) for pattern in rules), resource.kind
    programs = [rule["health.lua"] for rule in rules.values()]
    assert programs == programs[:1] * len(programs)
    # Conditions that every kind has, and each health that follows from one.
    assert set(re.findall(r"by_type\.(\w+)", programs[0])) == {"Paused", "Stalled", "Reconciling", "Ready"}
    healths = set(re.findall(r'status = "(\w+)"', programs[0]))
    assert healths == {"Progressing", "Suspended", "Degraded", "Healthy"}


def test_no_application_of_argo_cd_is_called_like_what_it_would_prune(root: Path):
    checks = 0
    names = {resource.role.lower() for resource in RESOURCES}
    for path in (root / "deploy" / "argo-cd").glob("*.yaml"):
        for manifest in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if manifest["kind"] == "Application":
                checks += 1
                assert manifest["metadata"]["name"] not in names
                assert not manifest["spec"]["syncPolicy"]["automated"].get("prune")
    assert checks
