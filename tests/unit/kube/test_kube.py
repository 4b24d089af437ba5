"""Objects as data: names, digests, pods, and what counts as ready."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator import kube
from openstack_operator.api import ComponentSettings as Settings
from openstack_operator.api import PodSettings, Resources
from openstack_operator.plan import Context, Key, Object, Release, ReleaseEntry, State, key
from openstack_operator.services.placement.model import PlacementSpec

NGINX = ReleaseEntry(image="nginx:1", uid=101, gid=102, commands={"run": ("nginx",)}, env={"A": "image", "B": "image"})


def context(owner: str = "placement") -> Context[PlacementSpec]:
    return Context(
        kind="Placement", owner=owner, namespace="openstack", spec=PlacementSpec(), release=Release("r", "debian", {})
    )


NAMES = st.from_regex(r"[a-z]([-a-z0-9.]{0,200}[a-z0-9])?", fullmatch=True)


@given(NAMES, st.integers(20, 63))
def test_a_fitting_name_fits_and_ends_well(name: str, limit: int) -> None:
    found = kube.fitting(name, limit)
    assert len(found) <= limit
    assert found[-1] not in "-."
    assert found == name or len(name) > limit


@given(NAMES, NAMES)
def test_different_names_stay_different(one: str, other: str) -> None:
    if one != other:
        assert kube.fitting(one) != kube.fitting(other)


@given(NAMES)
def test_fitting_again_changes_nothing(name: str) -> None:
    assert kube.fitting(kube.fitting(name)) == kube.fitting(name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(JSON)
def test_none_is_not_wanted_at_any_depth(value: Any) -> None:
    def nones(found: Any) -> bool:
        if isinstance(found, dict):
            return any(entry is None or nones(entry) for entry in found.values())
        return isinstance(found, list) and any(nones(entry) for entry in found)

    assert not nones(kube.drop_none(value))


@given(st.dictionaries(st.text(), st.text()))
def test_a_digest_follows_content_and_not_order(data: dict[str, str]) -> None:
    assert kube.digest(data) == kube.digest(json.loads(json.dumps(dict(reversed(data.items())))))
    assert kube.digest(data) != kube.digest({**data, "more": "x" * 40})


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_a_secret_says_what_was_put_in(data: dict[str, str]) -> None:
    assert kube.secret_data(kube.secret(context(), "s", data)) == data


def test_an_absent_secret_holds_nothing() -> None:
    assert kube.secret_data(None) == {}


def test_every_object_of_a_long_name_fits() -> None:
    ctx = context("a" * 63)
    pod = kube.pod(ctx, "server", kube.Container(entry=NGINX), settings=PodSettings())
    for kind, limit in (("Deployment", 63), ("DaemonSet", 63), ("StatefulSet", 52)):
        assert len(kube.workload(ctx, kind, "server", pod)["metadata"]["name"]) <= limit
    job = kube.job(ctx, "db-sync", pod)
    assert len(job["metadata"]["name"]) <= 63
    for value in job["metadata"]["labels"].values():
        assert len(value) <= 63


def test_a_plan_finds_what_is_live_by_its_component() -> None:
    secret = {"data": {"key": "b25l"}}
    live: dict[Key, Object] = {("Secret", "placement-keys"): secret, ("Service", "placement"): {"spec": {}}}
    lost: dict[str, Object] = {"placement-keys": {"data": {"key": "dHdv"}}, "placement-gone": secret}
    ctx = replace(context(), children=live, deleted_secrets=lost)
    assert ctx.live("Secret", "keys") is secret
    assert ctx.live("Service") == {"spec": {}}
    assert ctx.live("Deployment") is None
    # What is live counts, and what was deleted only if the caller asks for it.
    assert ctx.secret("keys", or_deleted=True) == ctx.secret("keys") == {"key": "one"}
    assert ctx.secret("gone", or_deleted=True) == {"key": "one"}
    assert ctx.secret("gone") == {}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_live_object_with_a_long_name_is_found_again(kind: str) -> None:
    ctx = context("a" * 63)
    template = kube.pod(ctx, "server", kube.Container(entry=MARIADB), settings=PodSettings())
    made = kube.workload(ctx, kind, "server", template)
    assert replace(ctx, children={key(made): made}).live(kind, "server") is made


def test_selectors_are_part_of_the_pods_labels_and_free_of_versions() -> None:
    ctx = context()
    workload = kube.workload(
        ctx, "Deployment", "api", kube.pod(ctx, "api", kube.Container(entry=NGINX), settings=PodSettings())
    )
    wanted = workload["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


MARIADB = ReleaseEntry(image="localhost/mariadb:build", uid=999, gid=999, version="11.8")


@pytest.mark.parametrize(
    ("image", "version"),
    [
        (None, "11.8"),
        ("registry.example.org:5000/team/mariadb:11.4.5", "11.4.5"),
        (f"registry.example.org/mariadb:11.4.5@sha256:{'0' * 64}", "11.4.5"),
        ("registry.example.org:5000/mariadb", None),
        (f"registry.example.org/mariadb@sha256:{'0' * 64}", None),
        ("mariadb:_is-no-label_", None),
        (f"mariadb:{'0' * 64}", None),
    ],
)
def test_pods_say_which_program_they_are_and_in_which_version(image: str | None, version: str | None) -> None:
    main, beside = kube.Container(entry=MARIADB), kube.Container(entry=NGINX, name="beside")
    labels = kube.pod(context(), "server", main, beside, settings=PodSettings(image=image))["metadata"]["labels"]
    assert labels[kube.NAME] == "placement-server"
    assert labels.get(kube.VERSION) == version


def test_workloads_say_what_their_pods_are() -> None:
    template = kube.pod(context(), "server", kube.Container(entry=MARIADB), settings=PodSettings())
    made = [
        kube.workload(context(), "Deployment", "server", template),
        kube.job(context(), "server", template),
        kube.cron_job(context(), "server", template, "@daily"),
    ]
    assert made
    for each in made:
        assert each["metadata"]["labels"] == template["metadata"]["labels"]


def test_changed_work_is_another_job() -> None:
    ctx = context()

    def job(image: str) -> str:
        container = kube.Container(entry=ReleaseEntry(image=image, uid=1, gid=1))
        return kube.job(ctx, "db-sync", kube.pod(ctx, "db-sync", container, settings=PodSettings()))["metadata"]["name"]

    assert job("a:1") == job("a:1")
    assert job("a:1") != job("a:2")


def container(**changes: Any) -> Object:
    main = kube.Container(entry=NGINX, **changes)
    return kube.pod(context(), "api", main, settings=PodSettings())["spec"]["containers"][0]


def test_containers_are_tight_by_default() -> None:
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 101,
        "runAsGroup": 102,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_only_what_is_opened_is_open() -> None:
    found = container(capabilities=["NET_ADMIN"])["securityContext"]["capabilities"]
    assert found == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert container(privileged=True, root=True)["securityContext"] == {"privileged": True, "runAsUser": 0}


def test_own_environment_wins_over_the_images() -> None:
    env = {"B": "own", "C": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert container(env=env)["env"] == [
        {"name": "A", "value": "image"},
        {"name": "B", "value": "own"},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]


def test_pods_bear_no_token_and_one_group_owns_their_volumes() -> None:
    spec = kube.pod(context(), "api", kube.Container(entry=NGINX), settings=PodSettings())["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["fsGroup"] == 102
    assert spec["nodeSelector"] == kube.CONTROL_PLANE


def test_settings_of_the_main_container_leave_its_sidecars_alone() -> None:
    wanted = PodSettings(image="mine:1", resources=Resources(requests={"cpu": "2"}, limits={"memory": "1Gi"}))
    side = kube.Container(name="side", entry=NGINX)
    found = kube.pod(context(), "api", kube.Container(entry=NGINX), side, settings=wanted)["spec"]["containers"]
    assert found[0]["image"] == "mine:1"
    disk = {"requests": {"ephemeral-storage": "64Mi"}, "limits": {"ephemeral-storage": "2Gi"}}
    assert found[0]["resources"] == {
        "requests": {"cpu": "2", "memory": "128Mi", **disk["requests"]},
        "limits": {"memory": "1Gi", **disk["limits"]},
    }
    assert found[1]["image"] == "nginx:1"
    assert found[1]["resources"] == {
        "requests": {"cpu": "10m", "memory": "128Mi", **disk["requests"]},
        "limits": {"memory": "2048Mi", **disk["limits"]},
    }


def test_a_component_wins_over_its_service() -> None:
    service = PodSettings(node_selector={"a": "b"}, priority_class_name="low")
    found = kube.settings(service, Settings(priority_class_name="high", replicas=3))
    assert (found.node_selector, found.priority_class_name) == ({"a": "b"}, "high")
    assert kube.replicas(2, Settings()) == 2
    assert kube.replicas(2, Settings(replicas=0)) == 0


def placed(several: bool = True, replaceable: bool = True, **wanted: Any) -> Object:
    given = PodSettings(**wanted)
    template = kube.pod(context(), "api", kube.Container(entry=NGINX), settings=given)
    selector = kube.selector(context(), "api")
    return kube.placed(template, given, selector, several=several, replaceable=replaceable)["spec"]


def test_several_pods_rather_run_on_different_nodes() -> None:
    (term,) = placed()["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == kube.selector(context(), "api")
    assert "affinity" not in placed(several=False, anti_affinity="hard")


def test_hard_leaves_room_for_a_roll_out_on_full_nodes() -> None:
    """The pods of one revision keep apart from one another, not from those they replace."""
    (term,) = placed(anti_affinity="hard")["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["matchLabelKeys"] == ["pod-template-hash"]


def test_an_affinity_of_the_users_is_kept_and_wins() -> None:
    nodes = {"nodeAffinity": {"a": 1}}
    assert placed(affinity=nodes)["affinity"].keys() == {"nodeAffinity", "podAntiAffinity"}
    own: Object = {"podAntiAffinity": {}}
    assert placed(affinity=own, anti_affinity="hard")["affinity"] == own


def test_constraints_are_about_the_programs_own_pods_unless_they_say_otherwise() -> None:
    zone = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    other = {**zone, "labelSelector": {"matchLabels": {"a": "b"}}}
    found = placed(several=False, topology_spread_constraints=[zone, other])["topologySpreadConstraints"]
    assert [entry["labelSelector"]["matchLabels"] for entry in found] == [kube.selector(context(), "api"), {"a": "b"}]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, {"not-ready": 30, "unreachable": 30}),
        ([{"key": "node.kubernetes.io/unreachable", "tolerationSeconds": 5}], {"not-ready": 30, "unreachable": 5}),
        ([{"operator": "Exists"}], {}),
    ],
)
def test_a_lost_node_is_soon_given_up_unless_the_user_says_otherwise(given: Any, seconds: dict[str, int]) -> None:
    found = placed(tolerations=given)["tolerations"]
    assert {t["key"].rpartition("/")[2]: t["tolerationSeconds"] for t in found if "key" in t} == seconds
    assert "tolerations" not in placed(replaceable=False)


def test_a_volume_is_declared_once_however_often_it_is_mounted() -> None:
    found = kube.pod(
        context(), "api", kube.Container(entry=NGINX, mounts=kube.scratch("/tmp", "/run")), settings=PodSettings()
    )
    assert found["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    assert [mount["subPath"] for mount in found["spec"]["containers"][0]["volumeMounts"]] == ["tmp", "run"]


def live(kind: str, status: Object, *, api: str = "apps/v1", generation: int = 2, **spec: Any) -> Object:
    metadata = {"name": "x", "generation": generation}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec, "status": status}


SEEN = {"observedGeneration": 2}
DEPLOYMENTS = [
    ({}, False),
    ({**SEEN}, False),
    ({**SEEN, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, False),
    ({**SEEN, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 3}, False),
    ({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, False),
    ({**SEEN, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, True),
]


@pytest.mark.parametrize(("status", "ready"), DEPLOYMENTS)
def test_a_deployment_is_ready_when_every_pod_is_of_the_newest_template(status: Object, ready: bool) -> None:
    assert kube.judge(live("Deployment", status, replicas=2)).ready is ready


UPDATED = "have the change"
PROGRESS: list[tuple[str, Object, str]] = [
    ("Deployment", {"replicas": 0}, "0/2 pods ready"),
    ("Deployment", {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, "1/2 pods ready"),
    ("Deployment", {"replicas": 2, "readyReplicas": 2}, f"2/2 pods ready, 0/2 {UPDATED}"),
    (
        "Deployment",
        {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 3},
        "3 of 3 pods ready: 2 new and 1 old, which ends next",
    ),
    (
        "Deployment",
        {"replicas": 4, "updatedReplicas": 4, "readyReplicas": 4},
        "2/2 pods ready, 2 pods more to stop",
    ),
    (
        "StatefulSet",
        {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 2, "currentRevision": "a", "updateRevision": "b"},
        f"2/2 pods ready, 1/2 {UPDATED}",
    ),
    (
        "DaemonSet",
        {
            "desiredNumberScheduled": 2,
            "currentNumberScheduled": 2,
            "updatedNumberScheduled": 1,
            "numberReady": 2,
        },
        f"2/2 pods ready, 1/2 {UPDATED}",
    ),
]


@pytest.mark.parametrize(("kind", "status", "text"), PROGRESS)
def test_a_roll_out_says_what_is_left_of_it(kind: str, status: Object, text: str) -> None:
    verdict = kube.judge(live(kind, {**SEEN, **status}, replicas=2))
    assert (verdict.ready, verdict.message) == (False, f"x: {text}")


def test_a_deployment_of_none_is_ready() -> None:
    assert kube.judge(live("Deployment", SEEN, replicas=0)).ready


def test_a_stateful_set_whose_revision_is_current_is_up_to_date() -> None:
    status = {**SEEN, "replicas": 1, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}
    assert kube.judge(live("StatefulSet", status, replicas=1)).ready
    assert not kube.judge(live("StatefulSet", {**status, "updateRevision": "b"}, replicas=1)).ready


@pytest.mark.parametrize(("wanted", "ready_pods", "ready"), [(0, 0, True), (2, 1, False), (2, 2, True)])
def test_a_daemon_set_is_ready_on_every_node(wanted: int, ready_pods: int, ready: bool) -> None:
    counts = {"desiredNumberScheduled": wanted, "updatedNumberScheduled": wanted, "numberReady": ready_pods}
    assert kube.judge(live("DaemonSet", {**SEEN, **counts})).ready is ready


def condition(type_: str, status: str = "True", **fields: Any) -> Object:
    return {"conditions": [{"type": type_, "status": status, **fields}]}


def test_a_job_is_ready_once_it_is_complete() -> None:
    assert kube.judge(live("Job", condition("Complete"), api="batch/v1")).ready
    running = kube.judge(live("Job", {"failed": 2}, api="batch/v1"))
    assert (running.state, running.message) == (State.PROGRESSING, "job x is running, 2 tries failed")


def test_a_failed_job_shows_the_end_of_its_log() -> None:
    status = {**condition("Failed", message="backoff limit"), "log": "no such table\n"}
    found = kube.judge(live("Job", status, api="batch/v1"))
    assert (found.state, found.reason) == (State.FAILED, "JobFailed")
    assert found.message == "job x failed; its log ends: no such table"
    without = kube.judge(live("Job", condition("Failed", message="backoff limit"), api="batch/v1"))
    assert "backoff limit" in without.message


def test_a_failed_job_is_retried_after_five_minutes_and_stays_failed_meanwhile() -> None:
    failed = condition("Failed", lastTransitionTime="2026-01-01T10:58:00Z", message="backoff limit")
    job = live("Job", failed, api="batch/v1")
    assert kube.next_try(job) == datetime(2026, 1, 1, 11, 3, tzinfo=UTC)
    assert kube.judge(job).message == "job x failed, next try at 11:03 UTC: backoff limit"
    again = kube.annotated(live("Job", {"failed": 1}, api="batch/v1"), {kube.LAST_FAILURE: kube.failure(job)})
    assert kube.next_try(again) is None
    found = kube.judge(again)
    assert (found.state, found.reason) == (State.FAILED, "JobFailed")
    assert found.message == "job x failed and is tried again: backoff limit"
    assert kube.judge({**again, "status": condition("Complete")}).ready


def test_a_claim_waits_for_its_first_pod_and_is_ready_meanwhile() -> None:
    assert kube.judge(live("PersistentVolumeClaim", {"phase": "Pending"}, api="v1")).ready
    assert kube.judge(live("PersistentVolumeClaim", {"phase": "Lost"}, api="v1")).state is State.FAILED


@pytest.mark.parametrize(
    ("size", "conditions", "message"),
    [
        ("10Gi", [], "volume claim x has 10Gi of 20Gi"),
        (
            "10Gi",
            [
                {"type": "Resizing", "status": "True", "message": ""},
                {"type": "ControllerResizeError", "status": "True", "message": "the pool\nhas no space."},
            ],
            "volume claim x has 10Gi of 20Gi: the pool has no space",
        ),
        (
            "10Gi",
            [
                {"type": "ControllerResizeError", "status": "False", "message": "over"},
                {
                    "type": "FileSystemResizePending",
                    "status": "True",
                    "message": "Waiting for user to (re-)start a pod",
                },
            ],
            "volume claim x has 10Gi of 20Gi: Waiting for user to (re-)start a pod",
        ),
        ("20480Mi", [], ""),
        ("21Gi", [], ""),
        (None, [], ""),
    ],
)
def test_a_volume_that_does_not_grow_is_named(size: str | None, conditions: list[Any], message: str) -> None:
    """Its service is ready, since it runs on as it did."""
    status = {"phase": "Bound", "conditions": conditions, **({"capacity": {"storage": size}} if size else {})}
    claim = live("PersistentVolumeClaim", status, api="v1")
    claim["spec"] = {"resources": {"requests": {"storage": "20Gi"}}}
    verdict = kube.judge(claim)
    assert (verdict.ready, verdict.message) == (True, message)


OURS = "openstack.k8s.io/v1alpha1"


def test_a_resource_of_ours_answers_for_itself() -> None:
    ready = condition("Ready", observedGeneration=2, reason="Ready", message="")
    assert kube.judge(live("Keystone", ready, api=OURS)).ready
    stale = condition("Ready", observedGeneration=1, reason="Ready", message="")
    assert kube.judge(live("Keystone", stale, api=OURS)).message == "Keystone/x: the operator is processing its change"
    assert kube.judge(live("Keystone", {}, api=OURS)).message == "Keystone/x has not reported yet"
    assert not kube.judge(live("Keystone", {}, api=OURS)).ready


@pytest.mark.parametrize("reason", ["InvalidSpec", "MissingReference", "JobFailed", "ImagePullFailed", "VolumeLost"])
def test_failures_that_need_a_person_are_passed_on(reason: str) -> None:
    status = condition("Ready", "False", observedGeneration=2, reason=reason, message="spec.x: wrong")
    status["conditions"].append({"type": "Stalled", "status": "True"})
    found = kube.judge(live("Keystone", status, api=OURS))
    assert (found.state, found.reason, found.message) == (State.FAILED, reason, "Keystone/x: spec.x: wrong")


@pytest.mark.parametrize(
    ("reason", "state", "passed_on"),
    [
        ("Progressing", State.PROGRESSING, ""),
        ("ImagePullFailed", State.PROGRESSING, "ImagePullFailed"),
        ("RecoveryInProgress", State.PROGRESSING, "RecoveryInProgress"),
        ("Waiting", State.WAITING, ""),
    ],
)
def test_temporary_failures_are_passed_on_as_progressing(reason: str, state: State, passed_on: str) -> None:
    status = condition("Ready", "False", observedGeneration=2, reason=reason, message="soon")
    found = kube.judge(live("Keystone", status, api=OURS))
    assert (found.state, found.reason, found.message) == (state, passed_on, "Keystone/x: soon")


def test_a_status_of_another_operator_version_is_outdated() -> None:
    told = condition("Ready", observedGeneration=2)
    ours = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "Nova", "metadata": {"name": "nova"}}
    assert kube.outdated({**ours, "status": told}, "1.1")
    assert kube.outdated({**ours, "status": {**told, "operatorVersion": "1.0"}}, "1.1")
    assert not kube.outdated({**ours, "status": {**told, "operatorVersion": "1.1"}}, "1.1")
    # It has said nothing yet.
    assert not kube.outdated(ours, "1.1")
    theirs = {"apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": "memcached"}}
    assert not kube.outdated({**theirs, "status": told}, "1.1")


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({}, State.PROGRESSING),
        (condition("Complete", "False", reason="JobRunning", message="Running"), State.PROGRESSING),
        (condition("Complete", "False", reason="JobNotComplete", message="Not complete"), State.PROGRESSING),
        (condition("Complete", "False", reason="Failed", message="an error"), State.PROGRESSING),
        (condition("Complete", "True", reason="JobComplete", message="Success"), State.READY),
        # It says of a failure that it is complete.
        (condition("Complete", "True", reason="JobFailed", message="Failed"), State.FAILED),
    ],
)
def test_a_copy_by_mariadb_operator_has_succeeded_by_its_reason(conditions: Object, state: State) -> None:
    metadata = {"name": "monday-mariadb"}
    copy = {"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "PhysicalBackup", "metadata": metadata}
    assert kube.judge({**copy, "status": conditions}).state is state


def test_kinds_without_a_rule_are_ready_when_they_exist() -> None:
    assert kube.judge({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}).ready


@pytest.mark.parametrize(
    ("quantity", "number"), [("2", 2), ("1.5", 1.5), ("500m", 0.5), ("1k", 1000), ("1Ki", 1024), ("2Gi", 2 * 1024**3)]
)
def test_an_amount_is_a_number(quantity: str, number: float) -> None:
    assert kube.amount(quantity) == number


@pytest.mark.parametrize("tenths", range(1, 100))
def test_an_amount_is_exact(tenths: int) -> None:
    assert kube.amount(f"{tenths / 10}") == kube.amount(f"{tenths * 100}m")


@pytest.mark.parametrize(
    ("given", "requests"),
    [
        ({}, {"cpu": "10m", "memory": "128Mi"}),
        ({"limits": {"memory": "64Mi"}}, {"cpu": "10m", "memory": "64Mi"}),
        ({"limits": {"memory": "4Gi", "cpu": 2}}, {"cpu": "10m", "memory": "128Mi"}),
        ({"limits": {"memory": "64Mi"}, "requests": {"memory": "32Mi"}}, {"cpu": "10m", "memory": "32Mi"}),
    ],
)
def test_a_limit_bounds_the_request_we_guess(given: dict[str, Any], requests: dict[str, str]) -> None:
    wanted = PodSettings(resources=Resources.model_validate(given))
    found = kube.pod(context(), "api", kube.Container(entry=NGINX), settings=wanted)
    asked = found["spec"]["containers"][0]["resources"]["requests"]
    assert {name: asked[name] for name in ("cpu", "memory")} == requests


def _resources(container: kube.Container, wanted: PodSettings | None = None) -> Object:
    pod = kube.pod(context(), "api", container, settings=wanted or PodSettings())
    return pod["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(
    ("measured", "limit"), [("16Mi", "2048Mi"), ("160Mi", "2560Mi"), ("1Gi", "5120Mi"), ("64Gi", "69632Mi")]
)
@pytest.mark.security
def test_a_container_has_a_limit_of_memory(measured: str, limit: str) -> None:
    assert _resources(kube.Container(entry=NGINX, memory=measured))["limits"]["memory"] == limit


def test_a_limit_of_memory_follows_what_the_user_says() -> None:
    container = kube.Container(entry=NGINX, memory="128Mi")
    more = _resources(container, PodSettings(resources=Resources(requests={"memory": "8Gi"})))
    assert (more["requests"]["memory"], more["limits"]["memory"]) == ("8Gi", "12288Mi")
    own = _resources(container, PodSettings(resources=Resources(limits={"memory": "64Mi", "cpu": "1"})))
    assert own["limits"] == {"memory": "64Mi", "cpu": "1", "ephemeral-storage": "2Gi"}
    assert own["requests"]["memory"] == "64Mi", "no request is above its limit"


@pytest.mark.parametrize(
    ("size", "peak"),
    [("128M", 2**28), ("2GiB", 2**32), ("1GB", 2**31), (1 << 30, 2**31), (None, 0), ("0.4", 0)],
)
def test_a_limit_of_memory_follows_the_configuration(size: object, peak: int) -> None:
    found = kube.peak(size, 2)
    assert int(found or 0) == peak
    limit = _resources(kube.Container(entry=NGINX, memory="128Mi", peak=found))["limits"]["memory"]
    assert kube.amount(limit) > peak


@pytest.mark.security
def test_a_container_may_fill_no_disk_of_its_node() -> None:
    little = kube.Container(entry=NGINX, mounts=kube.scratch("/tmp"))
    assert _resources(little)["limits"]["ephemeral-storage"] == "2Gi"
    cache = kube.Mount(name="cache", path="/cache", volume={"emptyDir": {"sizeLimit": "10Gi"}})
    large = kube.Container(entry=NGINX, mounts=[*kube.scratch("/tmp", large=True), cache])
    assert _resources(large)["limits"]["ephemeral-storage"] == "110Gi"


@pytest.mark.security
def test_containers_that_run_first_have_limits() -> None:
    first = kube.Container(name="first", entry=NGINX, memory="32Mi")
    wanted = PodSettings(resources=Resources(limits={"memory": "64Mi"}))
    pod = kube.pod(context(), "api", kube.Container(entry=NGINX), settings=wanted, init=[first])
    assert pod["spec"]["initContainers"][0]["resources"]["limits"]["memory"] == "2048Mi"


def _deployment(strategy: str, reason: str, **status: int) -> Object:
    conditions = [{"type": "Progressing", "status": "True", "reason": reason}]
    spec = {"replicas": 1, "strategy": {"type": strategy}}
    return {
        "kind": "Deployment",
        "metadata": {"name": "x"},
        "spec": spec,
        "status": {**status, "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("strategy", "reason", "status", "expected"),
    [
        ("Recreate", "NewReplicaSetAvailable", {"replicas": 1}, True),
        ("Recreate", "NewReplicaSetAvailable", {}, True),
        ("Recreate", "NewReplicaSetCreated", {"replicas": 1, "updatedReplicas": 1}, True),
        ("Recreate", "NewReplicaSetAvailable", {"replicas": 1, "updatedReplicas": 1}, False),
        ("Recreate", "ProgressDeadlineExceeded", {"replicas": 1, "updatedReplicas": 1}, False),
        ("RollingUpdate", "ReplicaSetUpdated", {"replicas": 1, "updatedReplicas": 1}, False),
        ("RollingUpdate", "NewReplicaSetAvailable", {}, False),
    ],
    ids=[
        "old pod ends",
        "none",
        "new pod starts",
        "was ready",
        "never ready",
        "old pod ended",
        "none of a rolling one",
    ],
)
def test_a_recreating_deployment_rolls_out_until_its_new_pods_were_ready(
    strategy: str, reason: str, status: dict[str, int], *, expected: bool
) -> None:
    assert kube.Rollout(_deployment(strategy, reason, **status)).is_running is expected


@pytest.mark.security
@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-01-01", "2026-01-01T00:00:00", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", None, 1],
)
def test_a_time_that_no_clock_shows_is_none(text: object) -> None:
    assert kube.valid_time(text) is None
    job = live("Job", condition("Failed", lastTransitionTime=text, message="backoff limit"), api="batch/v1")
    assert kube.next_try(job) is None
    assert kube.judge(job).reason == "JobFailed"


def test_a_time_is_read_whatever_its_zone() -> None:
    assert kube.valid_time("2026-01-01T02:00:00.5+02:00") == datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)
