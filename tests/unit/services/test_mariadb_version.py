"""MariaDB from one major version to another: what a plan does, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, SpecError, Step, key
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan
from openstack_operator.testing import context, granted

OLD, NEW = {"version": "10.11"}, {"version": "11.8"}
THREE = {"replicas": 3}
NAMES = [f"mariadb-server-{ordinal}" for ordinal in range(3)]


def made(release: Release, spec: Mapping[str, Any], **changes: Any) -> Plan:
    return plan(context(MARIADB, dict(spec), release=release, **changes))


def server(made_plan: Plan) -> Object:
    return next(obj for obj in made_plan.objects if obj["kind"] == "StatefulSet")


def step(made_plan: Plan, name: str) -> Step | None:
    return next((each for each in made_plan if each.name == name), None)


def live(release: Release, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Children of a resource that has had this spec."""
    children = {key(obj): granted(obj) for obj in made(release, spec).objects if obj["kind"] == "StatefulSet"}
    if spec.get("replicas", 1) > 1:
        data = {"members": ",".join(NAMES), "seed": "", "uuid": "u", "ordered": "", "force": "", "token": ""}
        record = kube.secret(context(MARIADB, dict(spec), release=release), "mariadb-galera", data)
        children[key(record)] = record
    return {"children": children}


def members(versions: str, tables: str = "", missing: str = "") -> dict[str, Any]:
    """Pods and reports of members: the versions of their programs, and those of their system tables."""
    pods, facts = list[Object](), dict[str, Any]()
    for name, version, of_tables in zip(NAMES, versions.split(), (tables or versions).split(), strict=True):
        ready = "False" if name == missing else "True"
        pods.append(
            {
                "metadata": {"name": name, "namespace": "openstack", "uid": name, "labels": {kube.VERSION: version}},
                "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": ready}]},
            }
        )
        answer = {"name": name, "stage": "serving", "status": "Primary", "uuid": "u", "data": True, "size": 3}
        facts[name] = {**answer, "ready": name != missing, "version": version, "tables": of_tables, "why": "looks"}
    return {"pods": pods, "facts": facts}


def test_a_version_has_an_image_of_its_own(release: Release) -> None:
    default, old = server(made(release, {})), server(made(release, OLD))
    images = [each["spec"]["template"]["spec"]["containers"][0]["image"] for each in (default, old)]
    assert images == [release["mariadb"].image, release["mariadb"].versions["10.11"].image]
    labels = [each["spec"]["template"]["metadata"]["labels"][kube.VERSION] for each in (default, old)]
    assert labels == ["11.8", "10.11"]
    assert server(made(release, NEW)) == default, "the default version, said"


def test_a_version_that_the_release_lacks_is_refused(release: Release) -> None:
    message = r"spec.version: release 2025.1 has no mariadb 10.6; choose from 10.11, 11.8"
    with pytest.raises(SpecError, match=message):
        made(release, {"version": "10.6"})
    with pytest.raises(SpecError, match=message):
        made(release, {"version": "10.6", "provider": "mariadb-operator"})


def test_a_program_without_other_versions_has_no_choice(release: Release) -> None:
    only = replace(release["mariadb"], versions={})
    with pytest.raises(SpecError, match=r"release 2025.1 has no mariadb 10.6; remove it; only 11.8 is available"):
        replace(release, components={"mariadb": only}).in_version("mariadb", "10.6")


def test_an_upgrade_waits_until_all_members_serve(release: Release) -> None:
    before = live(release, THREE | OLD)
    waiting = made(release, THREE | NEW, **before, **members("10.11 10.11 10.11", missing=NAMES[1]))
    gate = step(waiting, "Version")
    assert gate
    assert gate.barrier
    assert gate.verdict
    assert gate.verdict.message == (
        "the upgrade to MariaDB 11.8 waits until all members serve; not ready:"
        " mariadb-server-1. Repair them, or set the old version again"
    )
    servers = step(waiting, "Server")
    assert servers
    assert gate in servers.after
    begins = step(made(release, THREE | NEW, **before, **members("10.11 10.11 10.11")), "Version")
    assert begins
    assert begins.verdict
    assert begins.verdict.ready


def test_an_upgrade_says_who_is_still_to_come(release: Release) -> None:
    begun = live(release, THREE | NEW)
    rolling = step(made(release, THREE | NEW, **begun, **members("10.11 10.11 11.8", "10.11 10.11 10.11")), "Version")
    assert rolling
    assert rolling.verdict
    assert rolling.verdict.message == (
        "0 of 3 members have MariaDB 11.8; mariadb-server-0 runs 10.11; mariadb-server-1 runs 10.11;"
        " mariadb-server-2 has system tables of 10.11"
    )
    two = members("10.11 10.11 11.8")
    two["pods"].pop()
    two["facts"].pop(NAMES[2])
    replaced = step(made(release, THREE | NEW, **begun, **two), "Version")
    assert replaced
    assert replaced.verdict
    assert replaced.verdict.message.endswith("mariadb-server-2 is being replaced")
    assert step(made(release, THREE | NEW, **begun, **members("11.8 11.8 11.8")), "Version") is None, "it is done"
    assert step(made(release, THREE | NEW, **begun), "Version") is None, "no pod says anything"


def test_no_member_is_added_during_an_upgrade(release: Release) -> None:
    """A new one receives all data from another, which must not be of an older version."""
    five = {"replicas": 5} | NEW
    for before, versions in ((OLD, "10.11 10.11 10.11"), (NEW, "10.11 11.8 11.8")):
        assert (
            server(made(release, five, **live(release, THREE | before), **members(versions)))["spec"]["replicas"] == 3
        )
    grown = made(release, five, **live(release, THREE | NEW), **members("11.8 11.8 11.8"))
    assert server(grown)["spec"]["replicas"] == 5


@pytest.mark.parametrize("size", [{}, THREE])
def test_an_older_version_is_refused(release: Release, size: dict[str, Any]) -> None:
    reports = members("10.11 10.11 11.8") if size else {}
    with pytest.raises(SpecError) as refused:
        made(release, size | OLD, **live(release, size | NEW), **reports)
    assert str(refused.value) == (
        "spec.version: 10.11 cannot read the data of the running 11.8; set the old version again, or restore a "
        "backup into a new MariaDB"
    )


def pulling(**container: Any) -> Object:
    """Status of a pod whose image does not exist, with what else is known of its program."""
    waiting = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    return {"phase": "Pending", "containerStatuses": [waiting | container]}


def replaced(**container: Any) -> dict[str, Any]:
    """Members of the old version, the highest of which the StatefulSet has replaced; that one does not answer."""
    three = members("10.11 10.11 11.8", "10.11 10.11 10.11")
    three["pods"][2]["status"] = pulling(**container)
    three["facts"].pop(NAMES[2])
    return three


def test_a_version_that_no_member_has_yet_can_be_taken_back(release: Release) -> None:
    for three in (members("10.11 10.11 10.11"), replaced()):
        back = made(release, THREE | OLD, **live(release, THREE | NEW), **three)
        assert server(back)["spec"]["template"]["metadata"]["labels"][kube.VERSION] == "10.11"
        assert step(back, "Version") is None


def test_a_version_without_an_image_gives_way_to_another_later_one(release: Release) -> None:
    wrong = THREE | {"image": "registry.example.org/mariadb:11.88"}
    three = replaced()
    three["pods"][2]["metadata"]["labels"][kube.VERSION] = "11.88"
    rolling = step(made(release, THREE | NEW, **live(release, wrong), **three), "Version")
    assert rolling
    assert not rolling.barrier, "the member would not serve before it is replaced"
    three["pods"] = three["pods"][1:]
    with pytest.raises(SpecError, match=r"of the running 11.88"):
        made(release, THREE | NEW, **live(release, wrong), **three)


@pytest.mark.parametrize(
    "container",
    [
        {"restartCount": 1},
        {"lastState": {"terminated": {"exitCode": 1}}},
        {"state": {"terminated": {"exitCode": 1}}},
        {"state": {"running": {}}},
        {"state": {"waiting": {"reason": "PodInitializing"}}},
    ],
)
def test_a_version_that_started_once_cannot_be_taken_back(release: Release, container: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"10.11 cannot read the data of the running 11.8"):
        made(release, THREE | OLD, **live(release, THREE | NEW), **replaced(**container))


def test_a_version_that_a_member_reports_cannot_be_taken_back(release: Release) -> None:
    three = replaced()
    three["facts"][NAMES[0]]["tables"] = "11.8"
    with pytest.raises(SpecError, match=r"10.11 cannot read the data of the running 11.8"):
        made(release, THREE | OLD, **live(release, THREE | NEW), **three)


def test_a_single_server_without_an_image_can_be_taken_back(release: Release) -> None:
    before = live(release, NEW)
    [stateful_set] = before["children"].values()
    stateful_set["status"] = {"replicas": 1, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}
    stateful_set["status"]["observedGeneration"] = stateful_set["metadata"].get("generation", 0)
    pods = [("StatefulSet", "mariadb-server", "11.8")]
    back = made(release, OLD, **before, without_image=pods)
    assert server(back)["spec"]["template"]["metadata"]["labels"][kube.VERSION] == "10.11"
    for others in ([], [("StatefulSet", "mariadb-server", "10.11")]):
        with pytest.raises(SpecError, match=r"of the running 11.8"):
            made(release, OLD, **before, without_image=others)


def test_an_upgrade_from_a_version_that_nothing_is_known_of_is_refused(release: Release) -> None:
    before = live(release, {"image": "registry.example.org/mariadb:10.6.21"})
    message = r"spec.release: 10.6.21 runs and cannot be upgraded to 11.8; upgrade to 10.11 first"
    with pytest.raises(SpecError, match=message):
        made(release, {}, **before)


def test_an_image_says_its_version_by_its_tag(release: Release) -> None:
    before = live(release, NEW)
    with pytest.raises(SpecError, match=r"spec.image: 10.11.5 cannot read the data of the running 11.8"):
        made(release, {"image": "registry.example.org/mariadb:10.11.5"}, **before)
    for tag in ("11.8.3", "12.3", "stable", "2025.1-debian-bookworm"):
        made(release, {"image": f"registry.example.org/mariadb:{tag}"}, **before)


def test_servers_write_everything_before_another_version_reads_it(release: Release) -> None:
    config = {"config": {"mysqld": {"innodb-fast-shutdown": 2}}}
    before = live(release, OLD | config)
    message = r"spec.config.mysqld.innodb-fast-shutdown: a version change needs a clean shutdown"
    with pytest.raises(SpecError, match=message):
        made(release, NEW | config, **before)
    made(release, OLD | config, **before)
    made(release, NEW | {"config": {"mysqld": {"innodb-fast-shutdown": 0}}}, **before)


def test_a_single_server_says_that_it_upgrades(release: Release) -> None:
    before = live(release, OLD)
    [stateful_set] = before["children"].values()
    begins = made(release, NEW, **before)
    assert step(begins, "Version") is None, "its pod is not replaced yet"
    changed = granted(server(begins))
    changed["status"] = {**stateful_set.get("status", {}), "observedGeneration": -1}
    children = {"children": {key(changed): changed}}
    upgrading = step(made(release, NEW, **children), "Version")
    assert upgrading
    assert upgrading.verdict
    assert upgrading.verdict.message == (
        "the server upgrades its system tables from MariaDB 10.11 to 11.8, and accepts clients afterwards; see its log"
    )
    changed["status"] = {"observedGeneration": changed["metadata"].get("generation", 0), "replicas": 1}
    changed["status"] |= {"readyReplicas": 1, "updatedReplicas": 1, "currentRevision": "b", "updateRevision": "b"}
    assert step(made(release, NEW, **children), "Version") is None, "it is done"
    away = granted(server(made(release, NEW, **children)))
    away["status"] = {"observedGeneration": -1}
    assert step(made(release, NEW, children={key(away): away}), "Version") is None, "a later restart is no upgrade"
