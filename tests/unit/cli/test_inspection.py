"""`why` finds what keeps a cloud from being ready, and `status` shows it, from objects as a cluster has them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube, pki
from openstack_operator.api import handle
from openstack_operator.cli.inspection import commands
from openstack_operator.cli.inspection.advice import ADVICE, advice
from openstack_operator.cli.inspection.causes import (
    CERTIFICATE_EXPIRED,
    CYCLE,
    JOB_OVERDUE,
    VOLUME_FULL,
    Causes,
    Log,
    Root,
)
from openstack_operator.cli.inspection.certificates import Certificate, Certificates, certificate_lines
from openstack_operator.cli.inspection.commands import FAULT, NOT_READY, READY, Options
from openstack_operator.cli.inspection.snapshot import Snapshot
from openstack_operator.cli.inspection.state import remarks
from openstack_operator.cli.inspection.table import overview
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.cli.terminal import Color
from openstack_operator.plan import Kind, Object, SpecError
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.errors import Forbidden
from openstack_operator.services.rabbitmq import members as rabbitmq_members
from openstack_operator.yaml_text import load
from tests.unit.live_objects import NOW, THEN, deployment, meta, pod, resource

TYPES = {(each.api_version, each.kind) for each in RESOURCES}


def cloud(*resources: Object, workloads: Sequence[Object] = (), pods: Sequence[Object] = ()) -> Snapshot:
    plane = resource("OpenStackControlPlane/cloud", reason="Progressing", message="Keystone/keystone: not yet")
    everything = [plane, *resources]
    return Snapshot(namespace="openstack", resources=everything, workloads=workloads, pods=pods, now=NOW)


def found(snapshot: Snapshot) -> list[Root]:
    answer = Causes(snapshot).of(snapshot.resources[0])
    assert answer
    return answer[1]


PLANE = "OpenStackControlPlane/cloud"
PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "back-off pulling image x: not found"}}


def broken_api(state: Mapping[str, Any], **container: Any) -> Snapshot:
    """A cloud whose Keystone has an API with one pod in that state; Glance waits for it."""
    keystone = resource("Keystone/keystone", PLANE, reason="Progressing", message="API: not yet")
    glance = resource("Glance/glance", PLANE, reason="Waiting", message="waiting for Keystone/keystone")
    api = deployment("keystone-api", "Keystone/keystone")
    member = pod("keystone-api-1-a", "keystone-api", "keystone", state, **container)
    return cloud(keystone, glance, workloads=[api], pods=[member])


def test_an_image_that_cannot_be_pulled_is_the_one_cause_of_all() -> None:
    [root] = found(broken_api(PULL))
    assert root.chain == [PLANE, "Keystone/keystone", "Deployment/keystone-api", "Pod/keystone-api-1-a"]
    assert root.finding.reason == "ImagePullFailed"
    assert root.holds_up == ["Glance/glance"]
    assert (
        advice(root.finding.reason)
        == "correct `image`, let the nodes reach the registry, or give the pods a login to it"
    )


CORRECTION = "correct it, or let the node reach its registry"
MADE_FROM = {
    "openstack.k8s.io/field": "spec.keystone",
    "openstack.k8s.io/shared-fields": "release imageProfile=spec.images",
}


def of_cloud(snapshot: Snapshot, **spec: Any) -> Snapshot:
    """The same, with a Keystone that the control plane made from its template."""
    keystone = next(each for each in snapshot.resources if each["kind"] == "Keystone")
    keystone["metadata"]["annotations"], keystone["spec"] = MADE_FROM, spec
    return snapshot


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"api": {"image": "x"}},
            f"; spec.keystone.api.image of {PLANE} (spec.api.image of Keystone/keystone): {CORRECTION}",
        ),
        (
            {"image": "x", "api": {"image": "other"}},
            f"; spec.keystone.image of {PLANE} (spec.image of Keystone/keystone): {CORRECTION}",
        ),
        (
            {"api": {"image": "other"}, "release": "2025.2"},
            f"set in spec.release of {PLANE} (spec.release of Keystone/keystone)",
        ),
    ],
)
def test_why_names_the_field_of_the_cloud_that_sets_an_image(spec: Any, text: str) -> None:
    [root] = found(of_cloud(broken_api(PULL), **spec))
    assert root.finding.text.endswith(text)
    assert ("no `image` sets it: it belongs to release '2025.2'" in root.finding.text) == ("release" in spec)


def test_why_names_the_release_that_is_checked() -> None:
    pull = {"waiting": {**PULL["waiting"], "message": "back-off pulling image keystone-2026.1:1: not found"}}
    [root] = found(of_cloud(broken_api(pull), release="2025.1", upgrade={"checkRelease": "2026.1"}))
    assert "the check of release '2026.1' needs it; load its images on the nodes" in root.finding.text


def test_the_image_of_a_resource_of_nobody_is_its_own_field() -> None:
    snapshot = broken_api(PULL)
    keystone = next(each for each in snapshot.resources if each["kind"] == "Keystone")
    keystone["spec"] = {"image": "x"}
    [root] = found(snapshot)
    assert root.finding.text.endswith(f"; spec.image of Keystone/keystone: {CORRECTION}")


QUOTA = 'pods "keystone-api-1-a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=9, limited: pods=9'


@pytest.mark.parametrize(
    ("component", "text"),
    [
        ("api", f"are set in spec.keystone.api of {PLANE} (spec.api of Keystone/keystone)"),
        ("db-sync", "raise the quota, or lower the requests of the pods"),
    ],
)
def test_why_names_the_field_of_the_cloud_that_a_quota_is_about(component: str, text: str) -> None:
    snapshot = replace(of_cloud(broken_api(PULL)), pods=[])
    [api] = snapshot.workloads
    api["metadata"]["labels"] = {kube.COMPONENT: component}
    refusal = {"type": "ReplicaFailure", "status": "True", "message": QUOTA, "lastTransitionTime": THEN}
    api["status"] |= {"conditions": [refusal], "replicas": 0, "updatedReplicas": 0}
    [root] = found(snapshot)
    assert root.finding.reason == "PodsRefused"
    assert root.finding.text.endswith(text)


@pytest.mark.parametrize(
    ("state", "container", "log"),
    [
        (PULL, {}, None),
        (
            {"waiting": {"reason": "CrashLoopBackOff"}},
            {"restartCount": 3},
            Log("keystone-api-1-a", "main", previous=True),
        ),
        ({"running": {"startedAt": THEN}}, {}, Log("keystone-api-1-a", "main", previous=False)),
        ({"running": {"startedAt": THEN}}, {"restartCount": 2}, Log("keystone-api-1-a", "main", previous=False)),
        ({"terminated": {"exitCode": 1}}, {}, Log("keystone-api-1-a", "main", previous=False)),
        ({"terminated": {"exitCode": 0}}, {}, None),
    ],
)
def test_the_log_is_that_of_the_container_that_failed(state: Any, container: Any, log: Log | None) -> None:
    [root] = found(broken_api(state, **container))
    assert root.finding.log == log


KEY = (
    "the key of client.glance is refused (RADOS permission denied); copy the key from `ceph auth get"
    " client.glance` into the Secret"
)


def test_a_wrong_keyring_is_named_with_its_client_and_what_to_do() -> None:
    ceph = resource("CephStorage/ceph", PLANE, reason="KeyRefused", message=KEY, stalled=True)
    glance = resource("Glance/glance", PLANE, reason="Waiting", message="waiting for CephStorage/ceph")
    glance["spec"] = {"dependsOn": [{"kind": "CephStorage", "name": "ceph"}]}
    [root] = found(cloud(ceph, glance))
    assert (root.finding.subject, root.finding.reason) == ("CephStorage/ceph", "KeyRefused")
    assert "client.glance" in root.finding.text
    assert root.holds_up == ["Glance/glance"]
    assert "`cephSecretRef`" in advice("KeyRefused")


def test_a_halted_roll_out_has_the_advice_of_the_documentation() -> None:
    assert advice("RolloutPaused") == "to continue, change the field that the message names"
    assert advice("RolloutStopped").startswith(
        "read the log of the pod in the message; correct or undo the last change"
    )


def job_of(minutes: int, **status: Any) -> Snapshot:
    """A cloud whose Keystone has a job that runs for so long."""
    keystone = resource("Keystone/keystone", PLANE, reason="Progressing", message="Schema: not yet")
    began = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    metadata = meta("Job", "keystone-db-sync-1", "Keystone/keystone")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}}
    job["status"] = {"active": 1, "startTime": began, **status}
    member = pod("keystone-db-sync-1-a", "", "keystone", {"running": {"startedAt": began}}, ready=True)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "keystone-db-sync-1", "uid": metadata["uid"]}
    member["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    member["status"]["phase"] = "Running"
    member["status"]["conditions"][-1]["status"] = "True"
    return cloud(keystone, workloads=[job], pods=[member])


def test_a_hanging_job_is_named_with_its_log_and_a_remedy() -> None:
    [root] = found(job_of(16))
    assert root.chain == [PLANE, "Keystone/keystone", "Job/keystone-db-sync-1"]
    assert (root.finding.reason, root.finding.failed) == (JOB_OVERDUE, True)
    assert root.finding.text.endswith("is running since 2026-01-01 12:14 UTC, and is not finished")
    assert root.finding.log == Log("keystone-db-sync-1-a", "main", previous=False)
    assert "`kubectl delete job`" in advice(JOB_OVERDUE)


def test_a_job_that_runs_for_some_minutes_is_no_failure() -> None:
    [root] = found(job_of(14))
    assert (root.finding.subject, root.finding.failed) == ("Job/keystone-db-sync-1", False)
    [forged] = found(job_of(16, startTime="0000-01-01T00:00:00Z"))
    assert not forged.finding.failed
    snapshot = job_of(60)
    [job] = snapshot.workloads
    job["spec"] = {"template": {"spec": {"activeDeadlineSeconds": 7200}}}
    [ends] = found(snapshot)
    assert not ends.finding.failed


def test_a_job_whose_pod_crashes_is_named_by_that() -> None:
    snapshot = job_of(60)
    [member] = snapshot.pods
    member["status"]["conditions"][-1]["status"] = "False"
    ended = {"terminated": {"exitCode": 1, "message": "x", "startedAt": THEN, "finishedAt": THEN}}
    [status] = member["status"]["containerStatuses"]
    status |= {"ready": False, "restartCount": 3, "lastState": ended}
    status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    [root] = found(snapshot)
    assert root.finding.reason == "CrashLoop"


FULL = '2026-01-01 12:00:00 0 [ERROR] mariadbd: Error writing file (errno: 28 "No space left on device")'


def test_a_full_volume_is_named_with_the_field_of_its_size() -> None:
    """The program ends again and again: what its log says is the cause, not the last change."""
    mariadb = resource("MariaDB/mariadb", PLANE, reason="Progressing", message="Server: not yet")
    mariadb["metadata"]["annotations"] = {"openstack.k8s.io/field": "spec.mariadb"}
    server = {**deployment("mariadb-server", "MariaDB/mariadb"), "kind": "StatefulSet"}
    ended = {"terminated": {"exitCode": 1, "message": FULL, "startedAt": THEN, "finishedAt": THEN}}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    member = pod("mariadb-server-0", "", "mariadb", state, restartCount=3, lastState=ended)
    member["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "mariadb-server", "uid": "s"}]
    member["metadata"]["ownerReferences"][0] |= {"apiVersion": "apps/v1", "controller": True}
    [root] = found(cloud(mariadb, workloads=[server], pods=[member]))
    assert root.chain[-1] == "Pod/mariadb-server-0"
    assert root.finding.reason == VOLUME_FULL
    field = f"set in spec.mariadb.storageSize of {PLANE} (spec.storageSize of MariaDB/mariadb)"
    assert "No space left on device" in root.finding.text
    assert root.finding.text.endswith(field)
    assert advice(VOLUME_FULL).startswith("enlarge the volume, or remove data")


def test_a_broker_without_disk_does_not_heal_by_itself() -> None:
    text = "RabbitMQ: all publishers wait for rabbitmq-server-0: 40 MiB of its volume are free, 50 MiB must be"
    vhost = resource("RabbitMQVhost/nova", PLANE, reason="Retrying", message=text)
    [root] = found(cloud(vhost))
    assert (root.finding.reason, root.finding.failed) == (VOLUME_FULL, True)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("InvalidSpec", "spec.tls.secretRef: Secret 'mine': the certificate ended at 2025-12-31 00:00 UTC"),
        ("InvalidSpec", "spec.tls.pkiRef: the authority of PKI/internal ended at 2025-12-31 00:00 UTC"),
        ("Retrying", "keystone.example.org: certificate verify failed: certificate has expired (_ssl.c:1010)"),
    ],
)
def test_an_expired_certificate_is_named_with_what_to_do(reason: str, text: str) -> None:
    keystone = resource("Keystone/keystone", PLANE, reason=reason, message=text)
    [root] = found(cloud(keystone))
    assert (root.finding.reason, root.finding.text, root.finding.failed) == (CERTIFICATE_EXPIRED, text, True)
    assert "docs/how-to/renew-certificates.md" in advice(CERTIFICATE_EXPIRED)


def test_a_missing_secret_is_named_by_the_resource_itself() -> None:
    text = "spec.database.secretRef.name: there is no Secret 'x' in this namespace"
    keystone = resource("Keystone/keystone", PLANE, reason="MissingReference", message=text, stalled=True)
    [root] = found(cloud(keystone))
    assert (root.finding.subject, root.finding.text, root.finding.failed) == ("Keystone/keystone", text, True)


def test_findings_that_block_others_come_before_starting_ones() -> None:
    mariadb = resource("MariaDB/mariadb", PLANE, reason="Unschedulable", message="no node", stalled=True)
    keystone = resource("Keystone/keystone", PLANE, reason="Waiting", message="waiting for MariaDB/mariadb")
    cortex = resource("Memcached/memcached", PLANE, reason="Progressing", message="starts")
    first, second = found(cloud(cortex, keystone, mariadb))
    assert (first.finding.subject, first.holds_up) == ("MariaDB/mariadb", ["Keystone/keystone"])
    assert second.finding.subject == "Memcached/memcached"


def test_a_circle_of_dependencies_is_named() -> None:
    def waits(kind: str, on: str) -> Object:
        needs = [{"kind": on, "name": on.lower()}]
        return resource(f"{kind}/{kind.lower()}", PLANE, reason="Waiting", message=f"waits for {on}", dependsOn=needs)

    causes = found(cloud(waits("Glance", "Placement"), waits("Placement", "Glance")))
    assert [(root.finding.reason, root.finding.subject) for root in causes] == [
        (CYCLE, "Glance/glance → Placement/placement → Glance/glance")
    ]
    assert advice(CYCLE) == "remove one of these references"


def waiting(kind: str, count: int, needs: Mapping[int, Sequence[int]]) -> list[Object]:
    """Resources of which each waits for others, by their numbers."""
    return [
        resource(
            f"{kind}/p{number}",
            PLANE,
            reason="Waiting",
            message="waits",
            dependsOn=[{"kind": kind, "name": f"p{other}"} for other in needs.get(number, ())],
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [30, 32])
def test_all_that_wait_for_all_are_circles_and_found_at_once(count: int) -> None:
    """A user who may write resources must not keep the administrator's program busy."""
    needs = {number: [other for other in range(count) if other != number] for number in range(count)}
    causes = found(cloud(*waiting("Placement", count, needs)))
    assert {root.finding.reason for root in causes} == {CYCLE}
    assert len(causes) <= count


def test_a_long_chain_has_one_cause_at_its_end() -> None:
    chain = {number: [number + 1] for number in range(999)}
    [root] = found(cloud(*waiting("Placement", 1000, chain)))
    assert (root.finding.subject, root.finding.text) == ("Placement/p999", "waits")
    assert len(root.holds_up) == 999


def test_a_cloud_that_is_ready_has_no_cause() -> None:
    snapshot = Snapshot(namespace="openstack", resources=[resource(PLANE)], now=NOW)
    assert Causes(snapshot).of(snapshot.resources[0]) is None


def test_each_reason_of_pods_has_advice() -> None:
    assert set(ADVICE) >= kube.POD_REASONS


def test_the_table_counts_what_is_quiet_and_cuts_what_is_long() -> None:
    snapshot = cloud(
        resource("Keystone/keystone", PLANE, reason="Progressing", message="x" * 300),
        resource("MariaDBDatabase/keystone-db", "Keystone/keystone"),
        pods=[pod("keystone-api-1-a", "keystone-api", "keystone", PULL)],
    )
    counted = {"type": "Progressing", "status": "True", "message": "2 of 7 parts done; x", "observedGeneration": 1}
    snapshot.resources[0]["status"]["conditions"].append(counted)
    lines = overview(snapshot, snapshot.resources).splitlines()
    assert lines[0] == "OpenStackControlPlane/cloud: not Ready (Progressing), 2 of 7 parts done"
    [line] = [line for line in lines if line.startswith("Keystone ")]
    assert line.split()[:5] == ["Keystone", "keystone", "False", "0/1", "30m"]
    assert line.endswith("x…")
    assert lines[-2] == "and 1 small resource, ready"
    assert lines[-1].startswith("`openstack-operator why -n openstack` names the cause")
    all_lines = overview(snapshot, snapshot.resources, every=True).splitlines()
    assert all_lines[-2].split()[:3] == ["MariaDBDatabase", "keystone-db", "True"]


def upgraded(name: str, release: str, *, held: bool = False, api: str = "True") -> Object:
    """A service of a cloud that is upgraded to 2026.1."""
    live = resource(name, PLANE, release="2026.1")
    live["status"]["release"] = release
    last = {"type": "UpgradeReady", "status": "False", "reason": "Held" if held else "Waiting", "message": "waits"}
    live["status"]["conditions"] += [last, {"type": "APIReady", "status": api, "reason": "Progressing"}]
    return live


def test_status_says_that_a_cloud_is_ready_whose_change_is_not_done() -> None:
    snapshot = cloud()
    listed = snapshot.resources[0]["status"]["conditions"]
    listed[0] |= {"status": "True", "reason": "InvalidSpec"}
    listed.append(listed[0] | {"type": "Progressing"})
    lines = overview(snapshot, snapshot.resources).splitlines()
    assert lines[0] == "OpenStackControlPlane/cloud: Ready, change not done (InvalidSpec)"


def test_status_shows_how_far_an_upgrade_is() -> None:
    snapshot = cloud(
        upgraded("Keystone/keystone", "2026.1"),
        upgraded("Glance/glance", "2025.1", held=True),
        upgraded("Nova/nova", "2025.1", held=True, api="False"),
        upgraded("Neutron/neutron", "2025.1"),
        resource("MariaDB/mariadb", PLANE, release="2026.1"),
    )
    plane = snapshot.resources[0]
    plane["spec"]["release"] = "2026.1"
    plane["status"]["release"] = "2025.1"
    lines = overview(snapshot, snapshot.resources).splitlines()
    assert lines[0] == "OpenStackControlPlane/cloud: not Ready (Progressing), release 2026.1"
    assert lines[1:6] == [
        "upgrade from 2025.1 to 2026.1:",
        "  programs are being replaced: neutron, nova",
        "  all programs are new, the last step waits: glance",
        "  done: keystone",
        "",
    ]


@pytest.mark.parametrize(
    ("release", "status", "message", "line"),
    [
        (
            "2026.1",
            "False",
            "check of release 2026.1: nova: no cells",
            "check of release 2026.1: JobFailed: nova: no cells",
        ),
        ("2025.1", "True", "", "check of release 2026.1: succeeded"),
        ("2025.1", "True", "nova: node-9 is away", "check of release 2026.1: succeeded: nova: node-9 is away"),
    ],
)
def test_status_shows_what_the_check_of_a_release_says(release: str, status: str, message: str, line: str) -> None:
    snapshot = cloud(resource("Keystone/keystone", PLANE, release="2025.1"))
    plane = snapshot.resources[0]
    plane["spec"] |= {"release": release, "upgrade": {"checkRelease": "2026.1"}}
    plane["status"]["release"] = "2025.1"
    check = {"type": "PreflightReady", "status": status, "reason": "JobFailed", "message": message}
    plane["status"]["conditions"].append(check)
    assert overview(snapshot, snapshot.resources).splitlines()[1:3] == [line, ""]


@pytest.mark.security
@pytest.mark.parametrize("since", ["2026-11-27t00:00:00z", "0001-01-01T00:00:00+23:59", ""])
def test_a_time_that_a_user_wrote_hides_no_resource(since: str) -> None:
    snapshot = cloud(resource("Keystone/keystone", PLANE), resource("Glance/glance", PLANE))
    for each in snapshot.resources:
        for condition in each["status"]["conditions"]:
            condition["lastTransitionTime"] = since
    lines = overview(snapshot, snapshot.resources).splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(("Keystone ", "Glance "))] == [
        ["Glance", "glance", "True"],
        ["Keystone", "keystone", "True"],
    ]


class FakeClient:
    """A client for which logs and Secrets are all that is read."""

    secrets: Sequence[Object] | None = ()
    """None if they may not be listed."""

    async def page(self, kind: Kind, namespace: str, params: Mapping[str, str]) -> bytes:
        assert (kind.kind, namespace, params) == ("Secret", "openstack", {})
        if self.secrets is None:
            raise Forbidden("secrets is forbidden")
        return json.dumps({"items": self.secrets}).encode()

    async def close(self) -> None: ...

    async def log(self, namespace: str, pod: str, container: str, *, lines: int, previous: bool = False) -> str:
        return f"\x1b[2J{namespace} {pod} {container} {lines} {previous}\n\n"


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Answers of the commands about a snapshot."""

    def asked(snapshot: Snapshot, command: Any, **options: Any) -> int:
        async def read(client: Any, namespace: str, *, with_workloads: bool = True) -> Snapshot:
            assert namespace == "openstack"
            return snapshot

        monkeypatch.setattr(commands, "read", read)

        def connect(context: str | None = None) -> FakeClient:
            assert context is None
            return FakeClient()

        monkeypatch.setattr(commands.Client, "connect", connect)
        return command(Options(**options))

    return asked


def test_why_prints_the_way_the_advice_and_the_log(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": THEN, "finishedAt": THEN}}
    snapshot = broken_api({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=3, lastState=ended)
    assert ask(snapshot, commands.why) == NOT_READY
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "OpenStackControlPlane/cloud in namespace openstack is not Ready: Progressing"
    assert lines[2].startswith("1. CrashLoop: Pod/keystone-api-1-a: ")
    assert f"   way:  {PLANE} → Keystone/keystone → Deployment/keystone-api → Pod/keystone-api-1-a" in lines
    assert "   also: Glance/glance" in lines
    assert "   do:   read the log of the container, then undo the last change of an option or an image" in lines
    assert lines[-2:] == [
        "   log of keystone-api-1-a, container main:",
        "     openstack keystone-api-1-a main 5 True",
    ]


def test_a_line_of_the_log_decides_on_the_advice(
    ask: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def log(*arguments: Any, **options: Any) -> str:
        return (
            "My hypervisor has existing instances, but I appear to be a new service in this database. Possible database"
            " configuration error, refusing to start!\nanother line"
        )

    monkeypatch.setattr(FakeClient, "log", log)
    assert ask(broken_api({"terminated": {"exitCode": 1}}), commands.why) == NOT_READY
    printed = capsys.readouterr().out
    assert "   do:   remove the old guests from the node: docs/how-to/remove-a-cloud.md;" in printed
    assert "read the log of the container" not in printed


def test_why_answers_programs(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(broken_api(PULL), commands.why, as_json=True) == NOT_READY
    [answer] = json.loads(capsys.readouterr().out)
    assert answer["subject"] == PLANE
    assert answer["causes"][0]["reason"] == "ImagePullFailed"
    assert answer["causes"][0]["chain"][-1] == "Pod/keystone-api-1-a"


def test_a_resource_is_named_as_kubectl_takes_it(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = broken_api(PULL)
    for name in ("keystone", "keystones/keystone", "Keystone/keystone", "keystones.openstack.k8s.io"):
        assert ask(snapshot, commands.why, resource=name) == NOT_READY
        assert capsys.readouterr().out.startswith("Keystone/keystone in namespace")
    assert ask(snapshot, commands.why, resource="keystone/other") == FAULT
    assert "there is no keystone/other in namespace 'openstack'" in capsys.readouterr().err
    assert ask(snapshot, commands.why, resource="unknown") == FAULT
    assert "there is no kind 'unknown'" in capsys.readouterr().err


def test_status_says_by_its_exit_whether_all_is_ready(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(broken_api(PULL), commands.status) == NOT_READY
    snapshot = Snapshot(namespace="openstack", resources=[resource(PLANE)], now=NOW)
    assert ask(snapshot, commands.status) == READY
    assert ask(snapshot, commands.why) == READY
    assert capsys.readouterr().out.endswith("OpenStackControlPlane/cloud: Ready\n")
    assert ask(Snapshot(namespace="openstack", now=NOW), commands.status) == FAULT
    assert "there is no resource of this operator in namespace 'openstack'" in capsys.readouterr().err


AUTHORITY = pki.authority("a", "internal", NOW)


def certificate(name: str, days: int, owner: str = "", **metadata: Any) -> Object:
    """A Secret with a certificate that ends in so many days, of a resource of the operator if it has an owner."""
    request = pki.Request(common=name, names=frozenset({name}), life=timedelta(days=days))
    return secret_of(pki.issue(AUTHORITY, request, name, NOW).cert, name, owner, **metadata)


def secret_of(pem: str, name: str, owner: str = "", **metadata: Any) -> Object:
    """A Secret with that certificate, of a resource of the operator if it has an owner."""
    files = {"tls.crt": pem, "ca.crt": AUTHORITY.cert}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
    labels = {"labels": {"app.kubernetes.io/managed-by": kube.MANAGED_BY}} if owner else {}
    return {"kind": "Secret", "metadata": {**meta("Secret", name, owner), **labels, **metadata}, "data": data}


CERT_MANAGER = {"annotations": {"cert-manager.io/issuer-name": "company"}}
SHORT_LIVED = pki.authority("b", "internal", NOW, timedelta(days=2)).cert


@pytest.mark.parametrize(
    ("secrets", "lines"),
    [
        ([], []),
        (None, ["certificates: not shown, because you may not list Secrets"]),
        (
            [certificate("glance-tls", 90, "Glance/glance"), certificate("keystone-tls", 40, "Keystone/keystone")],
            [
                "certificates: the first of 2 ends in 40 days, on 2026-02-10; the operator renews it:",
                "  Secret/keystone-tls of Keystone/keystone",
            ],
        ),
        (
            [certificate("own", 20), certificate("stranger", 1)],
            [
                "your certificates: the only one ends in 20 days, on 2026-01-21; renew it yourself:",
                "  Secret/own",
            ],
        ),
        (
            [certificate("keystone-tls-issued", 20, "Keystone/keystone", **CERT_MANAGER)],
            [
                "certificates: the only one ends in 20 days, on 2026-01-21; cert-manager renews it:",
                "  Secret/keystone-tls-issued of Keystone/keystone",
            ],
        ),
        (
            [certificate("keystone-tls", 1, "Keystone/keystone"), certificate("own", 20), certificate("ingress", 9)],
            [
                "certificates: the only one ends in 1 day, on 2026-01-02; the operator renews it:",
                "  Secret/keystone-tls of Keystone/keystone",
                "your certificates: the first of 2 ends in 9 days, on 2026-01-10; renew it yourself:",
                "  Secret/ingress",
            ],
        ),
        (
            [secret_of(SHORT_LIVED, "internal-authority", "PKI/internal"), secret_of(SHORT_LIVED, "own")],
            [
                "your certificates: the only one ends in 2 days, on 2026-01-03; renew it yourself:",
                "  Secret/own",
            ],
        ),
        ([{"kind": "Secret", "metadata": {"name": "own"}, "data": {"tls.crt": "bm9uZQ=="}}], []),
    ],
    ids=[
        "none",
        "forbidden",
        "of the operator",
        "of the user",
        "of cert-manager",
        "of both",
        "authorities",
        "unreadable",
    ],
)
def test_status_says_which_certificate_ends_first_and_who_renews_it(
    secrets: Sequence[Object] | None,
    lines: Sequence[str],
    ask: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeClient, "secrets", secrets)
    expose = {"host": "a.example.org", "type": "Ingress", "ingress": {"secretName": "ingress"}}
    keystone = resource("Keystone/keystone", PLANE, tls={"secretRef": {"name": "own"}}, expose=expose)
    snapshot = Snapshot(namespace="openstack", resources=[resource(PLANE), keystone], now=NOW)
    assert ask(snapshot, commands.status) == READY
    head = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert head[1:] == lines


def test_a_certificate_that_ends_soon_is_marked() -> None:
    for days, life, renewed_by, color in (
        (40, 365, "", None),
        (20, 365, "", Color.YELLOW),
        (-1, 365, "", Color.RED),
        (40, 365, "the operator", None),
        (20, 365, "the operator", Color.YELLOW),
        (6, 365, "the operator", Color.RED),
        # In the middle of its life.
        (3, 6, "the operator", None),
        (0.05, 1, "the operator", Color.RED),
    ):
        end = NOW + timedelta(days=days)
        lines = list(certificate_lines([Certificate("a", "", end, timedelta(days=life), renewed_by)], NOW))
        assert [each for _, each in lines] == [color, color]
        assert ("ended on 2025-12-31" in lines[0][0]) == (days < 0)
        assert ("ends in less than a day, on 2026-01-01" in lines[0][0]) == (days == 0.05)


def test_an_overdue_certificate_comes_before_a_short_lived_one() -> None:
    short = Certificate("short", "", NOW + timedelta(days=1), timedelta(days=2), "the operator")
    late = Certificate("late", "", NOW + timedelta(days=5), timedelta(days=90), "the operator")
    lines = list(certificate_lines([short, late], NOW))
    assert lines[0][0].startswith("certificates: 1 of 2 not renewed in time; the first ends in 5 days, on 2026-01-06;")
    assert lines[1:] == [("  Secret/late", Color.RED)]


async def test_secrets_are_listed_again_after_minutes_alone() -> None:
    now = 0.0
    lists: list[float] = []

    class Counting(FakeClient):
        async def page(self, kind: Kind, namespace: str, params: Mapping[str, str]) -> bytes:
            lists.append(now)
            return await super().page(kind, namespace, params)

    certificates = Certificates(lambda: now)
    client: Any = Counting()
    for _ in range(400):
        await certificates.read(client, "openstack", [])
        now += 2
    assert lists == [0, 300, 600]


def brokers() -> list[Object]:
    """A RabbitMQ that serves, and one that lacks a pod, with the members that the service itself writes."""
    resources: list[Object] = []
    for name, pod_count in (("rabbitmq", 3), ("starts", 2)):
        names = [f"{name}-server-{number}" for number in range(3)]
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        pods = [{"kind": "Pod", "metadata": {"name": each}, "status": ready} for each in names[:pod_count]]
        broker = resource(f"RabbitMQ/{name}", PLANE)
        broker["status"]["members"] = rabbitmq_members.member_status(names, pods)
        resources.append(broker)
    return resources


def test_status_shows_which_members_lead_and_which_are_behind(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    mariadb, ovn, alone = resource("MariaDB/mariadb", PLANE), resource("OVNNetwork/ovn", PLANE), resource("Etcd/etcd")
    joins = {"name": "mariadb-server-2", "role": "backup", "state": "Joiner", "message": "copies data"}
    mariadb["status"]["members"] = [
        {"name": "mariadb-server-0", "role": "backup", "state": "Synced", "message": ""},
        {"name": "mariadb-server-1", "role": "primary", "state": "Synced", "message": ""},
        joins,
    ]
    ovn["status"]["members"] = [
        {"name": "ovn-nb-0", "role": "leader", "state": "member", "message": ""},
        {"name": "ovn-nb-1", "role": "", "state": "unreachable", "message": ""},
    ]
    alone["status"]["members"] = [{"name": "etcd-server-0", "role": "leader", "state": "Serving", "message": ""}]
    resources = [resource(PLANE), mariadb, ovn, alone, *brokers()]
    snapshot = Snapshot(namespace="openstack", resources=resources, now=NOW)
    assert ask(snapshot, commands.status) == READY
    assert capsys.readouterr().out.splitlines()[1:6] == [
        "MariaDB/mariadb: primary mariadb-server-1; 2 of 3 members in step; mariadb-server-2: Joiner: copies data",
        "OVNNetwork/ovn: leader ovn-nb-0; 1 of 2 members in step; ovn-nb-1: unreachable",
        "RabbitMQ/rabbitmq: 3 of 3 members in step",
        "RabbitMQ/starts: 2 of 3 members in step; starts-server-2: Absent: it has no pod",
        "",
    ]
    assert ask(snapshot, commands.status, as_json=True) == READY
    assert json.loads(capsys.readouterr().out)[1]["members"][2] == joins


def test_the_address_of_a_cloud_is_whole_in_80_columns(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for endpoint, lines in (
        ("https://a.example.org/v3", ["OpenStackControlPlane/cloud: Ready, https://a.example.org/v3"]),
        (f"https://{'a' * 40}.org/v3", ["OpenStackControlPlane/cloud: Ready", f"  https://{'a' * 40}.org/v3"]),
    ):
        plane = resource(PLANE)
        plane["status"]["endpoint"] = endpoint
        assert ask(Snapshot(namespace="openstack", resources=[plane], now=NOW), commands.status) == READY
        assert capsys.readouterr().out.splitlines()[: len(lines) + 1] == [*lines, ""]


IGNORED = "spec.config.DEFAULT.worker: Glance 2025.1 ignores it; did you mean workers?"


def remarked(name: str, type_: str, **ready: Any) -> Object:
    """A resource with a condition that informs."""
    live = resource(name, **ready)
    condition = {"type": type_, "status": "True", "reason": "UnknownOptions", "message": IGNORED}
    live["status"]["conditions"].append(condition)
    return live


@pytest.mark.parametrize(
    "type_", ["ConfigValid", "FieldsIgnored", "FieldsInconsistent", "ForeignFields", "NodeLabelsIgnored"]
)
def test_ignored_fields_of_a_ready_service_are_shown(type_: str, ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = Snapshot(namespace="openstack", resources=[remarked("Glance/glance", type_)], now=NOW)
    assert ask(snapshot, commands.status) == READY
    assert f"{type_}: {IGNORED}" in capsys.readouterr().out
    assert ask(snapshot, commands.status, as_json=True) == READY
    assert json.loads(capsys.readouterr().out)[0]["remarks"] == [f"{type_}: {IGNORED}"]
    assert ask(snapshot, commands.why) == READY
    assert capsys.readouterr().out.splitlines() == ["Glance/glance: Ready", f"Glance/glance: {type_}: {IGNORED}"]


def test_why_ends_with_what_a_service_ignores_that_is_not_ready(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    live = remarked("Glance/glance", "ConfigValid", reason="Progressing", message="API: not yet")
    assert ask(Snapshot(namespace="openstack", resources=[live], now=NOW), commands.why) == NOT_READY
    assert capsys.readouterr().out.splitlines()[-2:] == ["", f"Glance/glance: ConfigValid: {IGNORED}"]


@pytest.mark.parametrize(
    ("type_", "reason", "ready"),
    [
        ("ForeignFields", "Allowed", {}),
        ("SingleCopy", "NodeLoss", {}),
        # `Ready` says it already.
        ("ConfigValid", "InvalidOptions", {"reason": "InvalidSpec", "message": IGNORED}),
    ],
)
def test_chosen_or_known_conditions_are_no_remark(type_: str, reason: str, ready: Mapping[str, Any]) -> None:
    live = resource("Glance/glance", **ready)
    live["status"]["conditions"].append({"type": type_, "status": "True", "reason": reason, "message": IGNORED})
    assert remarks(live) == []


def test_unreadable_kinds_are_named_and_count_as_a_fault(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = Snapshot(namespace="openstack", resources=[resource(PLANE)], unreadable=["pods: no"], now=NOW)
    for command in (commands.status, commands.why):
        assert ask(snapshot, command) == FAULT
        assert capsys.readouterr().err == "left out, because listing it is forbidden: pods: no\n"
    assert ask(Snapshot(namespace="openstack", unreadable=["pods: no"], now=NOW), commands.why) == FAULT
    assert "you may not list resources of this operator in namespace 'openstack'" in capsys.readouterr().err


def test_a_log_that_cannot_be_read_leaves_the_command_for_it(
    ask: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*arguments: Any, **options: Any) -> str:
        raise SpecError("Pod/keystone-api-1-a", "previous terminated container not found")

    monkeypatch.setattr(FakeClient, "log", refused)
    assert ask(broken_api({"terminated": {"exitCode": 1}}), commands.why) == NOT_READY
    assert "kubectl logs keystone-api-1-a -c main -n openstack may have more" in capsys.readouterr().out


def test_a_spec_that_the_operator_has_not_looked_at_is_not_ready(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    changed, leaving = resource(PLANE), resource("Keystone/keystone")
    changed["metadata"]["generation"] = 2
    leaving["metadata"]["deletionTimestamp"] = THEN
    for live, reason in ((changed, "NotLookedAt"), (leaving, "Deleting")):
        snapshot = Snapshot(namespace="openstack", resources=[live], now=NOW)
        assert ask(snapshot, commands.status) == NOT_READY
        assert f"{reason}:" in capsys.readouterr().out
        assert ask(snapshot, commands.why) == NOT_READY
        printed = capsys.readouterr().out
        assert f"is not Ready: {reason}" in printed
        assert advice(reason) in printed


def test_events_are_found_by_name_where_no_uid_is_known() -> None:
    events = [{"kind": "PersistentVolumeClaim", "name": "data", "uid": "1", "reason": "ProvisioningFailed"}]
    snapshot = Snapshot(namespace="openstack", warnings=events)
    assert snapshot.about("PersistentVolumeClaim", "data", "") == events
    assert snapshot.about("PersistentVolumeClaim", "data", "1") == events
    assert snapshot.about("PersistentVolumeClaim", "data", "2") == []
    assert snapshot.about("Pod", "data", "") == []


def test_the_log_is_of_the_pod_that_the_cause_names() -> None:
    snapshot = broken_api(PULL)
    starts = pod("keystone-api-1-0", "keystone-api", "keystone", {"running": {"startedAt": "2026-01-01T12:29:59Z"}})
    [root] = found(replace(snapshot, pods=[starts, *snapshot.pods]))
    assert root.finding.subject == "Pod/keystone-api-1-a"
    assert root.finding.log is None


@pytest.mark.parametrize("sample", ["minimal", "full"])
def test_a_cloud_that_starts_has_no_circle(sample: str, root: Path) -> None:
    """Small resources name their owner, and some services know others without needing them."""
    manifests = load(root / "deploy" / "samples" / f"controlplane_{sample}.yaml")
    planned = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(), password="drawn").render(manifests)
    resources: list[Object] = []
    for each in planned:
        owner = {
            "kind": each.id.kind,
            "name": each.id.name,
            "uid": f"{each.id.kind}/{each.id.name}",
            "controller": True,
        }
        for obj in each.objects:
            if (obj["apiVersion"], obj["kind"]) in TYPES:
                uid = f"{handle(obj['apiVersion'], obj['kind'])}/{obj['metadata']['name']}"
                metadata = {**obj["metadata"], "uid": uid, "generation": 1, "ownerReferences": [owner]}
                status = resource(PLANE, reason="Progressing", message="starts")["status"]
                resources.append({**obj, "metadata": metadata, "status": status})
    assert len(resources) > 20
    plane = resource(PLANE, reason="Progressing", message="starts")
    plane["metadata"]["uid"] = "OpenStackControlPlane.openstack.k8s.io/cloud"
    snapshot = Snapshot(namespace="openstack", resources=[plane, *resources], now=NOW)
    assert CYCLE not in {root.finding.reason for root in found(snapshot)}
