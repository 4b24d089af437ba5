"""The graph of a cloud and the timeline of its last convergence, from objects as a cluster has them."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from openstack_operator.cli.inspection import graph, pictures, timeline
from openstack_operator.cli.inspection.relations import relations
from openstack_operator.cli.inspection.snapshot import Snapshot
from openstack_operator.plan import Object

GROUP = "openstack.k8s.io/v1alpha1"


def at(seconds: int) -> str:
    return f"2026-01-01T12:{seconds // 60:02}:{seconds % 60:02}Z"


def live(name: str, began: int, ended: int | None, owner: str = "", api: str = GROUP, **more: Any) -> Object:
    kind, _, own_name = name.partition("/")
    owners = [{"kind": owner.partition("/")[0], "name": owner.partition("/")[2], "uid": owner, "controller": True}]
    metadata = {"name": own_name, "uid": name, "creationTimestamp": at(began), "generation": 1}
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
    conditions = [] if ended is None else [{**ready, "lastTransitionTime": at(ended)}]
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {**metadata, **({"ownerReferences": owners} if owner else {})},
        "spec": {},
        "status": {"conditions": conditions},
        **more,
    }


def job(name: str, began: int, ended: int, owner: str) -> Object:
    return live(f"Job/{name}", began, None, owner, "batch/v1", status={"completionTime": at(ended)})


def deployment(name: str, began: int, ended: int, owner: str) -> Object:
    condition = {"type": "Available", "status": "True", "lastUpdateTime": at(ended)}
    return live(f"Deployment/{name}", began, None, owner, "apps/v1", status={"conditions": [condition]})


USER = {
    "keystoneRef": {"name": "keystone"},
    "user": "nova",
    "passwordSecretRef": {"name": "nova-credentials", "key": "password"},
}
PLANE = "OpenStackControlPlane/cloud"
RESOURCES = (
    live(PLANE, 0, 40),
    live("MariaDB/mariadb", 1, 12, PLANE),
    live("Memcached/memcached", 1, 5, PLANE),
    live("Keystone/keystone", 1, 30, PLANE),
    live("KeystoneUser/nova", 20, 31, "Keystone/keystone", spec=USER),
)
WORKLOADS = (
    deployment("memcached", 2, 5, "Memcached/memcached"),
    job("keystone-db-sync", 12, 20, "Keystone/keystone"),
    deployment("keystone-api", 20, 29, "Keystone/keystone"),
)


def test_a_resource_needs_what_its_spec_names() -> None:
    found = relations(RESOURCES)
    assert set(found.needs["Keystone/keystone"]) == {"MariaDB/mariadb", "Memcached/memcached"}
    assert found.owners["Keystone/keystone"] == PLANE
    assert "KeystoneUser/nova" not in found.resources
    assert "KeystoneUser/nova" in relations(RESOURCES, small=True).resources


def test_a_graph_names_each_service_after_what_it_needs() -> None:
    text = graph.as_text(RESOURCES).splitlines()
    assert text == [
        "MariaDB/mariadb",
        "Memcached/memcached",
        "Keystone/keystone",
        "  needs MariaDB/mariadb",
        "  needs Memcached/memcached",
    ]


def test_a_graph_says_what_is_not_ready() -> None:
    broken = live("MariaDB/mariadb", 1, None, PLANE)
    assert graph.as_text([broken]) == "MariaDB/mariadb (not Ready: NotLookedAt)"


def test_a_diagram_of_mermaid_has_an_arrow_for_each_need() -> None:
    lines = graph.as_mermaid(RESOURCES).splitlines()
    assert lines[0] == "flowchart LR"
    assert [line for line in lines if "-->" in line] == ["  n0 --> n1", "  n0 --> n2"]
    assert '  n0["Keystone/keystone"]:::ready' in lines


@pytest.mark.security
def test_a_name_adds_nothing_to_a_picture() -> None:
    hostile = live('MariaDB/a"]<script>&', 1, 2, PLANE)
    assert "<script" not in graph.as_svg([hostile])
    assert "script>" not in graph.as_mermaid([hostile])
    ElementTree.fromstring(graph.as_svg([hostile]))


def test_resources_that_need_each_other_are_drawn() -> None:
    found = {"a": ["b"], "b": ["a"]}
    assert set(graph._ranks(found)) == {"a", "b"}  # pyright: ignore[reportPrivateUsage]


def last() -> timeline.Timeline:
    found = timeline.timeline(Snapshot(namespace="openstack", resources=RESOURCES, workloads=WORKLOADS))
    assert found
    return found


def test_a_timeline_says_what_each_part_waited_for() -> None:
    spans = {each.name: each for each in last().spans}
    assert (spans["Job/keystone-db-sync"].began, spans["Job/keystone-db-sync"].ended) == (12, 20)
    assert spans["Job/keystone-db-sync"].after == "MariaDB/mariadb"
    assert spans["Deployment/keystone-api"].after == "Job/keystone-db-sync"
    assert spans["Keystone/keystone"].after == "Deployment/keystone-api"


def test_the_critical_path_leads_to_what_ended_last() -> None:
    assert last().critical == [
        "MariaDB/mariadb",
        "Job/keystone-db-sync",
        "Deployment/keystone-api",
        "Keystone/keystone",
        "KeystoneUser/nova",
    ]


def test_timeline_has_only_events_since_the_last_change_of_the_cloud() -> None:
    user = {"manager": "kubectl", "fieldsV1": {"f:spec": {}}, "time": at(100)}
    ours = {"manager": "openstack-operator", "fieldsV1": {"f:spec": {}}, "time": at(101)}
    plane = live(PLANE, 0, 120)
    plane["metadata"]["managedFields"] = [user]
    changed = deployment("keystone-api", 20, 118, "Keystone/keystone")
    changed["metadata"]["managedFields"] = [ours]
    snapshot = Snapshot(namespace="openstack", resources=[plane, *RESOURCES[1:]], workloads=[*WORKLOADS[:2], changed])
    found = timeline.timeline(snapshot)
    assert found
    assert [(each.name, each.began, each.ended) for each in found.spans] == [("Deployment/keystone-api", 1, 18)]


def test_a_pod_that_is_replaced_is_no_part_of_a_convergence() -> None:
    server = live("StatefulSet/mariadb-server", 0, None, "MariaDB/mariadb", "apps/v1")
    spec = {"manager": "openstack-operator", "fieldsV1": {"f:spec": {}}, "time": at(2)}
    status = {"manager": "kube-controller-manager", "subresource": "status", "fieldsV1": {}, "time": at(500)}
    server["metadata"]["managedFields"] = [spec, status]
    user = {"manager": "kubectl", "fieldsV1": {"f:spec": {}}, "time": at(100)}
    plane = live(PLANE, 0, 120)
    plane["metadata"]["managedFields"] = [user]
    changed = deployment("keystone-api", 101, 118, "Keystone/keystone")
    snapshot = Snapshot(namespace="openstack", resources=[plane, *RESOURCES[1:]], workloads=[server, changed])
    found = timeline.timeline(snapshot)
    assert found
    assert found.critical == ["Deployment/keystone-api"]
    assert [each.name for each in found.spans] == ["Deployment/keystone-api"]


@pytest.mark.parametrize(("refusals", "status"), [([], 0), (["keystones: no right"], 2)])
def test_a_picture_names_what_may_not_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refusals: list[str], status: int
) -> None:
    class FakeClient:
        async def close(self) -> None: ...

    async def read(*_: Any, with_pods: bool, **__: Any) -> Snapshot:
        assert not with_pods
        return Snapshot(namespace="openstack", resources=RESOURCES, workloads=WORKLOADS, unreadable=refusals)

    def connected(context: str | None) -> FakeClient:
        del context
        return FakeClient()

    monkeypatch.setattr(pictures, "read", read)
    monkeypatch.setattr("openstack_operator.runtime.kubernetes.client.Client.connect", connected)
    for draw in (pictures.draw_graph, pictures.draw_timeline):
        assert draw(pictures.Options()) == status
        printed = capsys.readouterr()
        assert "Keystone/keystone" in printed.out
        assert ("left out, because listing it is forbidden: keystones: no right" in printed.err) == bool(refusals)


def test_pictures_are_pictures() -> None:
    for picture in (graph.as_svg(RESOURCES), timeline.as_svg(last())):
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_text_has_a_bar_for_each_part() -> None:
    text = timeline.as_text(last()).splitlines()
    assert text[0] == "since 2026-01-01 12:00:00 UTC, 31 s"
    assert sum("█" in line for line in text) == len(last().spans)
    assert text[-1].startswith("critical path (*): ")
    assert timeline.as_json(last())["criticalPath"] == list(last().critical)


def test_a_time_that_is_none_breaks_nothing() -> None:
    forged = live("Keystone/keystone", 1, 30, PLANE)
    forged["status"]["conditions"][0]["lastTransitionTime"] = "yesterday"
    assert timeline.timeline(Snapshot(namespace="openstack", resources=[RESOURCES[0], forged])) is None
    assert timeline.timeline(Snapshot(namespace="openstack")) is None
