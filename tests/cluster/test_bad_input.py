"""Bad input: a condition that names the field, in the resource and in its cloud, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.cli.offline.documents import parse
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.cli.offline.survey import survey
from openstack_operator.kube import conditions, secret_data
from openstack_operator.plan import Object
from openstack_operator.registry import RESOURCES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import (
    DEPLOYMENT,
    EVENT,
    JOB,
    POD,
    SECRET,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Kind,
)
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import SERVICES_BY_PHASE
from tests.operator_refusals import REFUSALS, Refusal

from .conftest import CRD
from .harness import Cluster, eventually
from .test_controlplane import RESOURCE, listed, operator
from .test_controlplane import SMALL as ENCRYPTED

SMALL: dict[str, Any] = {**ENCRYPTED, "tls": {"enabled": False}}
"""Without certificates, which are a third of the objects, and of which no test here says anything."""
BUILT = [
    service
    for service in SERVICES_BY_PHASE
    if service.kind in RESOURCE and getattr(CONTROL_PLANE.spec(), service.field).enabled
]
"""What a cloud has unless it says otherwise."""
WORKLOADS = (DEPLOYMENT, STATEFUL_SET, SECRET, JOB, Kind("apps/v1", "DaemonSet", "daemonsets"))


async def said(cluster: Cluster, kind: str, name: str, *words: str, reason: str) -> str:
    """Waits for a Ready condition with that reason and all the words; returns its message."""

    async def found() -> str | None:
        condition = await cluster.condition(RESOURCE[kind], name)
        message = condition.get("message", "")
        return message if condition.get("reason") == reason and all(word in message for word in words) else None

    return await eventually(found)


async def versions(cluster: Cluster) -> dict[str, str]:
    """What runs, with the version of each object; of a Job which one it is, since its status may change once more after
    it is complete.
    """
    return {
        f"{kind.kind}/{obj['metadata']['name']}": obj["metadata"]["uid" if kind is JOB else "resourceVersion"]
        for kind in WORKLOADS
        for obj in await listed(cluster, kind)
    }


@asynccontextmanager
async def nothing_changes(cluster: Cluster) -> AsyncGenerator[None]:
    """What ran before the block runs after it, untouched. A cloud may be ready while a job that nothing needs runs."""

    async def done() -> bool:
        return all(conditions(job).get("Complete", {}).get("status") == "True" for job in await listed(cluster, JOB))

    await eventually(done)
    before = await versions(cluster)
    yield
    assert await versions(cluster) == before


LARGE: dict[str, Any] = {
    "storageBackend": "ceph",
    "tls": {"enabled": True, "issuerRef": {"name": "company-ca", "kind": "ClusterIssuer"}},
    "mariadb": {"replicas": 3, "storageSize": "200Gi"},
    "rabbitmq": {"replicas": 3},
    "glance": {"replicas": 2, "storageType": "ceph"},
    "cinder": {"enabled": True, "replicas": 2, "backends": [{"name": "fast", "type": "ceph"}]},
    "horizon": {"enabled": True, "replicas": 1},
    "networkBackend": "ovs",
}


async def test_a_large_cloud_hears_everything_that_is_not_supported(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "large", **LARGE)
        fields = [f"spec.{field}: " for field in ("networkBackend",)]
        await said(cluster, CONTROL_PLANE.kind, "large", *fields, reason="Unsupported")
        assert not [obj for service in BUILT for obj in await listed(cluster, Kind.of(RESOURCE[service.kind]))]


async def test_a_rule_of_the_kind_names_the_field_of_the_cloud(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        glance = {"expose": {"type": "Gateway", "host": "images.example.org"}}
        await cluster.create(CONTROL_PLANE, "cloud", **{**SMALL, "glance": glance})
        words = ("spec.glance.expose.gateway", "type Gateway needs a Gateway; set gateway.parentRefs")
        await said(cluster, CONTROL_PLANE.kind, "cloud", *words, reason="InvalidSpec")


async def test_an_immutable_change_is_refused_by_the_kind_and_workloads_stay(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        before = (await cluster.get(RESOURCE["Placement"], "placement") or {})["spec"]
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"database": {"mariadbRef": {"name": "other"}}})
        words = ("spec.placement.database.mariadbRef", "cannot be changed")
        await said(cluster, CONTROL_PLANE.kind, "cloud", *words, reason="InvalidSpec")
        assert (await cluster.get(RESOURCE["Placement"], "placement") or {})["spec"] == before


async def test_settings_of_the_cloud_reach_services_unless_a_template_differs(
    cluster: Cluster, root: Path, tmp_path: Path
) -> None:
    newer = yaml.safe_load((root / "releases" / "2025.1.yaml").read_text()) | {"release": "2025.2"}
    (tmp_path / "2025.2.yaml").write_text(yaml.safe_dump(newer))
    wanted = {
        "region": "North",
        "release": "2025.2",
        "imageProfile": "kolla",
        "expose": {"type": "NodePort", "host": "cloud.example.org"},
    }
    own = {
        "placement": {"expose": {"type": "LoadBalancer"}, "region": "South"},
        "glance": {"imageProfile": "debian", "release": "2025.1"},
    }
    async with operator(cluster, root, releases=ReleaseFiles(tmp_path, root / "releases")):
        await cluster.create(CONTROL_PLANE, "cloud", **wanted, **own)
        await cluster.ready(CONTROL_PLANE, "cloud")
        for service in BUILT:
            live = (await cluster.get(RESOURCE[service.kind], service.field) or {})["spec"]
            shared = {name: value for name, value in wanted.items() if name in live}
            assert {"release", "imageProfile"} <= set(shared)
            expected = {**shared, **own.get(service.field, {})}
            # The API server fills in the defaults of other fields.
            expected = {
                name: {**live[name], **value} if isinstance(value, dict) else value for name, value in expected.items()
            }
            assert {**live, **expected} == live, service.field
        # What nobody set is the service's own default.
        assert (await cluster.get(RESOURCE["Glance"], "glance") or {})["spec"]["storage"]["retention"] == "Retain"
        run = await cluster.get(DEPLOYMENT, "keystone-api") or {}
        assert "kolla" in run["spec"]["template"]["spec"]["containers"][0]["image"]


async def test_a_wired_option_touches_nothing_that_runs(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        async with nothing_changes(cluster):
            fixed_option = {"config": {"Placement_Database": {"connection": "sqlite://"}}, "replicas": 3}
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", fixed_option)
            path = "config.Placement_Database.connection: the operator sets"
            await said(cluster, "Placement", "placement", f"spec.{path}", reason="InvalidSpec")
            words = ("Placement/placement", f"spec.placement.{path}")
            await said(cluster, CONTROL_PLANE.kind, "cloud", *words, reason="InvalidSpec")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"config": {"DEFAULT": {"debug": True}}})
        await cluster.ready(CONTROL_PLANE, "cloud")


async def test_a_wrong_value_of_an_option_touches_nothing_that_runs(cluster: Cluster, root: Path) -> None:
    async def valid(kind: str, name: str, status: str, *words: str) -> None:
        async def found() -> bool:
            condition = await cluster.condition(RESOURCE[kind], name, "ConfigValid")
            return condition.get("status") == status and all(word in condition["message"] for word in words)

        await eventually(found)

    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await valid("Placement", "placement", "True")
        async with nothing_changes(cluster):
            wrong = {"config": {"placement": {"max_allocation_candidates": "many"}}, "replicas": 3}
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", wrong)
            text = "config.placement.max_allocation_candidates: is 'many'; the option takes a whole number"
            await said(cluster, "Placement", "placement", f"spec.{text}", reason="InvalidSpec")
            await said(cluster, CONTROL_PLANE.kind, "cloud", f"spec.placement.{text}", reason="InvalidSpec")
            await valid("Placement", "placement", "False", f"spec.{text}")
            await valid(CONTROL_PLANE.kind, "cloud", "False", f"spec.placement.{text}")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"config": {"DEFAULT": {"debgu": True}}})
        await cluster.ready(CONTROL_PLANE, "cloud")
        await valid("Placement", "placement", "True", "did you mean debug?")
        await valid(CONTROL_PLANE.kind, "cloud", "True", "spec.placement.config.DEFAULT.debgu")


async def test_a_missing_secret_or_reference_leaves_workloads_as_they_are(cluster: Cluster, root: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta("mine"), "stringData": {"other": "x"}}
    keystone = {"bootstrap": {"adminPasswordSecretRef": {"name": "mine"}}}
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", keystone=keystone, tls={"enabled": False})
        path = "bootstrap.adminPasswordSecretRef"
        message = f"spec.{path}.name: there is no Secret 'mine' in this namespace"
        # Each by the fields that its own user writes.
        paths = {("Keystone", "keystone"): f"spec.{path}", (CONTROL_PLANE.kind, "cloud"): f"spec.keystone.{path}"}
        for (kind, name), field in paths.items():
            words = f"{field}.name: there is no Secret 'mine' in this namespace"
            await said(cluster, kind, name, words, reason="MissingReference")
        await cluster.client.create(SECRET, secret)
        for (kind, name), field in paths.items():
            words = f"{field}.key: Secret 'mine' has no key 'password'"
            await said(cluster, kind, name, words, reason="MissingReference")
        await cluster.change(SECRET, "mine", "/data/password", "gGh1aA==")
        await said(
            cluster, "Keystone", "keystone", f"spec.{path}.key: ", "must be a single line", reason="MissingReference"
        )
        await cluster.change(SECRET, "mine", "/data/password", "Y2hvc2Vu")
        await cluster.ready(CONTROL_PLANE, "cloud")
        async with nothing_changes(cluster):
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/nova", {"glanceRef": {"name": "elsewhere"}})
            words = "glanceRef: there is no Glance 'elsewhere' in this namespace"
            await said(cluster, "Nova", "nova", f"spec.{words}", reason="MissingReference")
            named = ("Nova/nova", f"spec.nova.{words}")
            await said(cluster, CONTROL_PLANE.kind, "cloud", *named, reason="MissingReference")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/nova", {})
        await cluster.ready(CONTROL_PLANE, "cloud")
        before = await cluster.get(DEPLOYMENT, "keystone-api")
        await cluster.delete(SECRET, "mine")
        await said(cluster, "Keystone", "keystone", message, reason="MissingReference")
        assert before
        assert before == await cluster.get(DEPLOYMENT, "keystone-api")


async def test_a_refusal_by_a_services_kind_is_shown_by_the_cloud(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **{**SMALL, "glance": {}})
        await cluster.ready(CONTROL_PLANE, "cloud")
        async with nothing_changes(cluster):
            # Nothing stands in the template yet, so the cloud's own definition has nothing to compare with.
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/mariadb", {"storageSize": "1Gi"})
            await said(
                cluster, CONTROL_PLANE.kind, "cloud", "spec.mariadb.storageSize: ", "shrink", reason="InvalidSpec"
            )
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/mariadb", {})
            await cluster.change(CONTROL_PLANE, "cloud", "/spec/glance", {"database": {"database": "other"}})
            await said(cluster, CONTROL_PLANE.kind, "cloud", "spec.glance.database.database: ", reason="InvalidSpec")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/glance", {})
        await cluster.ready(CONTROL_PLANE, "cloud")


WEEKLY = {"fernet": {"rotationSchedule": "weekly"}}


async def test_a_cloud_of_c5c3_names_its_own_fields(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(C5C3_CONTROL_PLANE, "cloud", services={"keystone": WEEKLY})
        words = ("spec.services.keystone.fernet.rotationSchedule: ", "@weekly")
        message = await said(cluster, C5C3_CONTROL_PLANE.handle, "cloud", *words, reason="InvalidSpec")
        assert "Keystone/keystone spec" not in message, "which nobody wrote"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (
            "keystone",
            WEEKLY,
            ("spec.keystone.fernet.rotationSchedule: ", "@weekly"),
        ),
        (
            "nova",
            {
                "api": {
                    "autoscaling": {"minReplicas": 3, "maxReplicas": 2},
                    "resources": {"requests": {"cpu": "500m"}},
                }
            },
            ("spec.nova.api.autoscaling.minReplicas: ", "raise maxReplicas"),
        ),
    ],
)
async def test_settings_that_services_share_are_checked_by_their_kinds(
    cluster: Cluster, root: Path, field: str, value: dict[str, Any], words: tuple[str, str]
) -> None:
    """Templates leave out rules of what many services have, so that the definition stays small."""
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **{field: value})
        await said(cluster, CONTROL_PLANE.kind, "cloud", *words, reason="InvalidSpec")


async def test_a_failed_job_says_its_last_lines_up_to_the_cloud(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root, skip=("Job",)):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)

        async def bootstrap() -> str | None:
            jobs = [job["metadata"]["name"] for job in await listed(cluster, JOB)]
            return next((name for name in jobs if name.startswith("keystone-bootstrap-")), None)

        job = await eventually(bootstrap)
        url = "mysql+pymysql://keystone:{}@mariadb:3306/keystone"
        await fail(cluster, job, f"Traceback\ncannot reach {url.format('hunter2')}\nno route")
        for kind, name in (("Keystone", "keystone"), (CONTROL_PLANE.kind, "cloud")):
            message = await said(cluster, kind, name, f"job {job} failed", "no route", reason="JobFailed")
            assert url.format("***") in message
            assert "hunter2" not in message


async def fail(cluster: Cluster, job: str, log: str) -> None:
    """Has a job fail as the job controller and the kubelet would tell it."""
    meta = {**cluster.meta(f"{job}-x"), "labels": {"job-name": job}}
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
    await cluster.client.create(Kind("v1", "ServiceAccount", "serviceaccounts"), account)
    await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    stamp = "2026-01-01T00:00:00Z"
    ended = {"terminated": {"exitCode": 1, "message": log, "finishedAt": stamp}}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
    status = {"phase": "Failed", "containerStatuses": [container]}
    await cluster.client.merge_status(POD, cluster.namespace, f"{job}-x", status)
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    found = [{**failed, "type": type_, "lastTransitionTime": stamp} for type_ in ("FailureTarget", "Failed")]
    await cluster.client.merge_status(
        JOB, cluster.namespace, job, {"startTime": stamp, "failed": 1, "conditions": found}
    )


@asynccontextmanager
async def unchecked(client: Client, name: str) -> AsyncGenerator[None]:
    """For a while the API server takes any spec of that definition."""
    definition = await client.get(CRD, None, name) or {}
    path, strict = "/spec/versions/0", definition["spec"]["versions"][0]
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    # With a scale subresource it would still look at the number of replicas.
    loose = {**strict, "schema": anything, "subresources": {"status": {}}}
    await client.patch_json(CRD, "", name, [{"op": "replace", "path": path, "value": loose}])
    yield
    await client.patch_json(CRD, "", name, [{"op": "replace", "path": path, "value": strict}])


@pytest.mark.security
async def test_stored_objects_that_cannot_be_parsed_stop_no_other(cluster: Cluster, root: Path) -> None:
    broken: dict[str, Any] = {
        "number": {"replicas": "many"},
        "shape": {"api": ["not", "a", "map"], "database": 7},
        "text": "not even a map",
    }
    placement = RESOURCE["Placement"]
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        async with unchecked(cluster.client, placement.crd_name):
            body = {"apiVersion": placement.api_version, "kind": placement.kind}
            for name, spec in broken.items():

                async def created(name: str = name, spec: Any = spec) -> bool:
                    # The API server takes a moment to serve a changed definition.
                    try:
                        await cluster.client.create(
                            Kind.of(placement), {**body, "metadata": cluster.meta(name), "spec": spec}
                        )
                    except Exception:
                        return False
                    return True

                await eventually(created)
            await said(cluster, "Placement", "number", "spec.replicas: ", reason="InvalidSpec")
            await said(cluster, "Placement", "shape", "spec.database", "spec.api", reason="InvalidSpec")
            await said(cluster, "Placement", "text", "spec: ", reason="InvalidSpec")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"replicas": 2})

        async def scaled() -> bool:
            live = await cluster.get(DEPLOYMENT, "placement-api") or {}
            return live["spec"]["replicas"] == 2

        await eventually(scaled)
        await cluster.ready(CONTROL_PLANE, "cloud")


async def test_a_refused_resource_can_be_deleted(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/networkBackend", "ovs")
        await said(cluster, CONTROL_PLANE.kind, "cloud", "spec.networkBackend", reason="Unsupported")
        await cluster.delete(CONTROL_PLANE, "cloud")

        async def gone() -> bool:
            for resource in RESOURCES:
                if await listed(cluster, Kind.of(resource)):
                    return False
            return True

        await eventually(gone)


@pytest.mark.parametrize("length", [40, 63])
async def test_a_long_name_is_no_obstacle(cluster: Cluster, root: Path, length: int) -> None:
    name = ("long-" * 13)[: length - 1] + "x"
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL, placement={"enabled": False})
        await cluster.create(RESOURCE["Placement"], name)
        await cluster.create(CONTROL_PLANE, "y" * length, networkBackend="ovs")
        await said(cluster, CONTROL_PLANE.kind, "y" * length, "spec.networkBackend", reason="Unsupported")
        await cluster.ready(RESOURCE["Placement"], name)


@pytest.mark.security
async def test_no_secret_is_told(cluster: Cluster, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud")
        await cluster.ready(CONTROL_PLANE, "cloud")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"config": {"DEFAULT": {"debug": True}}})
        await cluster.delete(DEPLOYMENT, "placement-api")
        await eventually(lambda: cluster.get(DEPLOYMENT, "placement-api"))
        await cluster.ready(CONTROL_PLANE, "cloud")
    held = [obj for obj in await listed(cluster, SECRET) if not obj["metadata"]["name"].endswith("-config")]
    secrets = {value for obj in held for value in secret_data(obj).values() if 24 <= len(value) <= 64}
    assert len(secrets) > 15
    kinds = {kind for kind in (*WORKLOADS, VOLUME_CLAIM, EVENT, *(Kind.of(r) for r in RESOURCES)) if kind != SECRET}
    told = [json.dumps(await listed(cluster, kind)) for kind in kinds]
    told.append(json.dumps([obj["metadata"] for obj in await listed(cluster, SECRET)]))
    log = capsys.readouterr()
    for text in (*told, log.out, log.err):
        assert not [secret for secret in secrets if secret in text]
    assert conditions(await cluster.get(CONTROL_PLANE, "cloud") or {})


ELSEWHERE: dict[str, Any] = {
    "database": {"secretRef": {"name": "db"}},
    "keystone": {"authUrl": "https://keystone.example.org/v3", "appCredentialRef": {"secretName": "app"}},
    "dependsOn": [{"kind": "Memcached", "name": "cache", "condition": "ServerReady"}],
}


async def test_a_login_to_an_external_server_is_named_while_it_lacks_keys(cluster: Cluster, root: Path) -> None:
    placement, memcached = RESOURCE["Placement"], RESOURCE["Memcached"]
    async with operator(cluster, root):
        await cluster.create(placement, "placement", **ELSEWHERE)
        absent = [
            f"{path}: there is no Secret"
            for path in ("spec.database.secretRef.name", "spec.keystone.appCredentialRef.secretName")
        ]
        await said(cluster, "Placement", "placement", *absent, reason="MissingReference")
        for name, data in {"db": {"username": "me"}, "app": {"token": "hidden"}}.items():
            meta = {**cluster.meta(name), "annotations": {ALLOWED_HOSTS: "*.example.org"}}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data}
            await cluster.client.create(SECRET, secret)
        lacking = "spec.database.secretRef: key 'password' of Secret 'db' is missing"
        await said(cluster, "Placement", "placement", lacking, reason="MissingReference")
        await cluster.change(SECRET, "db", "/data/password", "")
        await said(
            cluster, "Placement", "placement", "key 'password' of Secret 'db' is empty", reason="MissingReference"
        )
        await cluster.change(SECRET, "db", "/data/password", "Y2hvc2Vu")
        lacking = "spec.keystone.appCredentialRef.secretName: Secret 'app' holds no login"
        await said(cluster, "Placement", "placement", lacking, reason="MissingReference")
        assert not await listed(cluster, JOB)
        await cluster.change(SECRET, "app", "/data/application_credential_id", "YQ==")
        await cluster.change(SECRET, "app", "/data/application_credential_secret", "Yg==")
        waited = "waiting for Memcached/cache to be ServerReady; there is none in this namespace yet"
        await said(cluster, "Placement", "placement", waited, reason="Waiting")
        assert [job["metadata"]["name"].startswith("placement-db-sync") for job in await listed(cluster, JOB)] == [True]
        assert not await listed(cluster, DEPLOYMENT)
        await cluster.create(memcached, "cache")
        await cluster.ready(placement, "placement")
        told = await cluster.condition(placement, "placement", "EndpointReady")
        assert (told["status"], "create the catalog's entry 'placement'" in told["message"]) == (
            "True",
            True,
        )
        await cluster.change(SECRET, "db", "/data/host", "b3RoZXI=")
        async with nothing_changes(cluster):
            moved = "not other:3306/placement; move them and delete Secret 'placement-db'"
            await said(cluster, "Placement", "placement", moved, reason="InvalidSpec")
        await cluster.delete(SECRET, "placement-db")
        await cluster.ready(placement, "placement")
        unknown = [{"kind": "Memcached", "name": "cache", "condition": "SunReady"}]
        await cluster.change(placement, "placement", "/spec/dependsOn", unknown)
        fault = "spec.dependsOn[0].condition: Memcached has no condition 'SunReady'; "
        await said(cluster, "Placement", "placement", fault, reason="InvalidSpec")
        assert await listed(cluster, DEPLOYMENT), "what runs is left alone"


async def test_a_file_is_judged_as_the_operator_judges_the_resource(cluster: Cluster, root: Path) -> None:
    now = datetime.now(UTC)
    written = {each.name: [in_namespace(cluster, made) for made in each.manifests(now)] for each in REFUSALS}
    cloud = in_namespace(cluster, {**of_kind(CONTROL_PLANE.kind, "cloud"), "spec": dict(SMALL)})
    # Cinder and Glance call a broker.
    beside = [in_namespace(cluster, of_kind(kind, kind.lower())) for kind in ("RabbitMQ", "Glance")]
    async with operator(cluster, root):
        for manifest in (cloud, *beside, *(each for made in written.values() for each in made)):
            if manifest["kind"] == "Secret":
                await cluster.client.create(SECRET, manifest)
            else:
                await cluster.create(RESOURCE[manifest["kind"]], manifest["metadata"]["name"], **manifest["spec"])
        text = yaml.safe_dump_all([cloud, *beside, *(each for made in written.values() for each in made)])
        found = survey(parse(text.encode(), "all")[0], ReleaseFiles(), namespace=cluster.namespace, rules=evaluator())
        for refusal in REFUSALS:
            (finding,) = [each for each in found.findings if (each.path, each.resource) == of_resource(refusal)]
            assert refusal.words in finding.message
            message = f"{finding.path}: {finding.message}"

            async def is_refused(name: str = refusal.name, kind: str = refusal.kind, words: str = message) -> bool:
                return words in (await cluster.condition(RESOURCE[kind], name)).get("message", "")

            await eventually(is_refused)


def of_kind(kind: str, name: str) -> Object:
    return {"apiVersion": RESOURCE[kind].api_version, "kind": kind, "metadata": {"name": name}, "spec": {}}


def in_namespace(cluster: Cluster, manifest: Object) -> Object:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": cluster.namespace}}


def of_resource(refusal: Refusal) -> tuple[str, str]:
    return refusal.field, f"{refusal.kind}/{refusal.name}"
