"""What a preview shows of changed objects, and how manifests come to a cluster; no server."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import crd
from openstack_operator.cli.command_line import command_line
from openstack_operator.cli.main import main
from openstack_operator.cli.preview import commands, definitions
from openstack_operator.cli.preview.changes import FieldChange, changes
from openstack_operator.cli.preview.client import Address, Write
from openstack_operator.cli.preview.edit import LastApply, apply_manifest, apply_note, conflict_note, last_apply
from openstack_operator.cli.preview.outage import last_durations, outages
from openstack_operator.cli.preview.running import RunningOperator, write_releases
from openstack_operator.cli.preview.text import as_json, lines
from openstack_operator.cli.settings import run_settings
from openstack_operator.kube.masking import decode_content, secret_values
from openstack_operator.plan import Object
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, JOB, SECRET, STATEFUL_SET, Kind
from openstack_operator.runtime.reconcile.apply import APPLIED

THEN, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:00:42Z"


def live(kind: Kind, name: str, /, **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "openstack", "uid": name, "resourceVersion": "1", "generation": 1}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def secret(name: str, **data: str) -> Object:
    return live(SECRET, name, data={key: base64.b64encode(text.encode()).decode() for key, text in data.items()})


SHOWN_NOWHERE = ("hidden-too", "opensesame", "tiny12", "sesame", "swordfish", "plugh12")
VARIABLE = [{"name": "DB_PASSWORD", "value": "swordfish"}]
IN_CONFIG = {"san": {"synology_one_time_pass": "plugh12"}}
NEW_SECTION = "[a]\nb = 1\n[new]\nshown = 2\npassword = opensesame\n"


def config(name: str, **data: str) -> Object:
    """A Secret of the operator's."""
    made = secret(name, **data)
    made["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "openstack-operator"}
    return made


def deployment(name: str, image: str, pods: int = 1, strategy: str = "RollingUpdate") -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return live(DEPLOYMENT, name, spec={"replicas": pods, "template": template, "strategy": {"type": strategy}})


def at(kind: Kind, name: str) -> Address:
    return Address(kind, "openstack", name)


def one(kind: Kind, before: Object | None, after: Object | None) -> dict[Address, Write]:
    return {at(kind, ((after or before) or {})["metadata"]["name"]): Write(before, after)}


def test_server_bookkeeping_is_no_change() -> None:
    before, after = deployment("api", "a"), deployment("api", "a")
    after["metadata"] |= {"resourceVersion": "2", "generation": 2, "annotations": {APPLIED: "1234"}}
    after["status"] = {"replicas": 1}
    assert changes(one(DEPLOYMENT, before, after)) == []


def test_a_field_is_named_by_its_path_and_its_entry() -> None:
    (change,) = changes(one(DEPLOYMENT, deployment("api", "a"), deployment("api", "b")))
    assert change.fields == [FieldChange("spec.template.spec.containers[main].image", "a", "b")]
    assert change.replaces_pods


def test_a_number_of_pods_replaces_none() -> None:
    (change,) = changes(one(DEPLOYMENT, deployment("api", "a"), deployment("api", "a", 2)))
    assert change.fields == [FieldChange("spec.replicas", 1, 2)]
    assert not change.replaces_pods


def test_an_object_that_is_being_deleted_is_deleted() -> None:
    before, after = deployment("api", "a"), deployment("api", "a")
    after["metadata"]["deletionTimestamp"] = THEN
    assert [each.verb for each in changes(one(DEPLOYMENT, before, after))] == ["deleted"]
    assert changes(one(DEPLOYMENT, after, None)) == []
    assert changes({at(DEPLOYMENT, "api"): Write(None, None)}) == []


CONF = "[DEFAULT]\ndebug = {debug}\ntransport_url = rabbit://nova:{password}@mq\n[api]\nworkers = 2\n[none]\n"


def test_configuration_is_compared_option_by_option() -> None:
    before = config("api-config", **{"nova.conf": CONF.format(debug=False, password="one")})
    after = config("api-config", **{"nova.conf": CONF.format(debug=True, password="two")})
    (change,) = changes(one(SECRET, before, after))
    assert change.fields == [
        FieldChange("data.nova.conf [DEFAULT] debug", "False", "True"),
        FieldChange("data.nova.conf [DEFAULT] transport_url", "***", "***"),
    ]


@pytest.mark.security
def test_no_secret_is_shown() -> None:
    password = "correct-horse-battery"
    writes = {
        **one(SECRET, None, secret("login", password=password)),
        **one(SECRET, secret("old", password="x"), secret("old", password=password)),
        **one(
            DEPLOYMENT, live(DEPLOYMENT, "api", spec={"note": "a"}), live(DEPLOYMENT, "api", spec={"note": password})
        ),
        **one(DEPLOYMENT, live(DEPLOYMENT, "env", spec={"env": []}), live(DEPLOYMENT, "env", spec={"env": VARIABLE})),
        **one(DEPLOYMENT, live(DEPLOYMENT, "conf", spec={}), live(DEPLOYMENT, "conf", spec={"config": IN_CONFIG})),
        **one(
            SECRET,
            config("conf", **{"a.conf": "[a]\nwebhook = http://h\n"}),
            config("conf", **{"a.conf": f"[a]\nwebhook = http://{password}/h\nurl = http://u:hidden-too@h\n"}),
        ),
        **one(SECRET, config("new", **{"a.conf": "[a]\nb = 1\n"}), config("new", **{"a.conf": NEW_SECTION})),
        # A user's own, whatever its form: short, with nothing known of it before, or as a configuration file.
        **one(SECRET, live(SECRET, "short"), secret("short", password="tiny12")),
        **one(SECRET, secret("own", file="[a]\nnote = b\n"), secret("own", file="[a]\nnote = sesame\n")),
    }
    differences = changes(writes)
    text = "\n".join(lines(differences, [], [], {})) + json.dumps(as_json(differences, [], [], {}))
    assert password not in text
    assert base64.b64encode(password.encode()).decode() not in text
    assert not [each for each in SHOWN_NOWHERE if each in text]
    assert "webhook" in text
    assert "data.a.conf [new] shown: 2 (new)" in text


@pytest.mark.security
def test_a_text_of_the_cluster_cannot_move_the_cursor() -> None:
    before, after = deployment("api", "a"), deployment("api", "b\x1b[2J\nc")
    before["spec"]["\x1b[2JNo changes.\n"] = 1
    (change,) = changes(one(DEPLOYMENT, before, after))
    text = list(lines([change], [], ["Nova/nova: \x1b[2J"], {}))
    assert not any("\x1b" in line or "\n" in line for line in text)


REVISION = "deployment.kubernetes.io/revision"


def rolled_out(reason: str = "NewReplicaSetAvailable", end: str = LATER, of: str = "api-1") -> Object:
    """A Deployment whose last roll-out has ended."""
    made = deployment("api", "a")
    made["metadata"]["annotations"] = {REVISION: "3"}
    message = f'ReplicaSet "{of}" has successfully progressed.'
    progress = {"type": "Progressing", "reason": reason, "lastUpdateTime": end, "message": message}
    return {**made, "status": {"conditions": [progress]}}


def replica_set(name: str, revision: str, owner: str = "api", **annotations: str) -> Object:
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": THEN,
            "annotations": {REVISION: revision, **annotations},
            "ownerReferences": [{"uid": owner, "controller": True}],
        }
    }


def test_preview_lists_jobs_and_rollouts_in_order_with_their_time() -> None:
    writes = {
        **one(JOB, None, live(JOB, "nova-db-sync-2222")),
        **one(DEPLOYMENT, rolled_out(), deployment("api", "b")),
    }
    differences = changes(writes)
    jobs = [{"metadata": {"name": "nova-db-sync-1111"}, "status": {"startTime": THEN, "completionTime": LATER}}]
    durations = last_durations(differences, writes, [replica_set("api-1", "3")], jobs)
    assert durations == {"Job/nova-db-sync-2222": 42.0, "Deployment/api": 42.0}
    text = "\n".join(lines(differences, outages(differences, writes), [], durations))
    assert "Jobs, in this order:\n  Job/nova-db-sync-2222 (took 42 s the last time)" in text
    assert "one workload at a time:\n  Deployment/api (took 42 s the last time)" in text
    assert text.endswith("2 objects: 1 created, 1 changed; 1 program replaces pods")


@pytest.mark.parametrize(
    ("before", "replica_sets"),
    [
        # The Deployment went back to a ReplicaSet of an earlier roll-out, which is as old as that.
        (rolled_out(), [replica_set("api-1", "3", **{f"{REVISION}-history": "1"}), replica_set("api-2", "2")]),
        (rolled_out(), [replica_set("api-2", "2")]),
        (rolled_out(), [replica_set("api-1", "3", "another")]),
        (rolled_out(of="api-0"), [replica_set("api-1", "3")]),
        (rolled_out("ReplicaSetUpdated"), [replica_set("api-1", "3")]),
        # It was held up for longer than Kubernetes gives a roll-out.
        (rolled_out(end="2026-01-01T12:12:58Z"), [replica_set("api-1", "3")]),
        (rolled_out(end="never"), [replica_set("api-1", "3")]),
        (deployment("api", "a"), [replica_set("api-1", "")]),
    ],
)
def test_nothing_is_said_of_a_roll_out_whose_ends_are_not_known(before: Object, replica_sets: Sequence[Object]) -> None:
    writes = one(DEPLOYMENT, before, deployment("api", "b"))
    assert last_durations(changes(writes), writes, replica_sets, []) == {}


RECREATE = "Recreate"


@pytest.mark.parametrize(
    ("kind", "before", "after", "reason"),
    [
        (DEPLOYMENT, deployment("a", "a"), deployment("a", "b"), ""),
        (DEPLOYMENT, deployment("a", "a"), None, "it is deleted"),
        (
            DEPLOYMENT,
            deployment("a", "a", strategy=RECREATE),
            deployment("a", "b", strategy=RECREATE),
            "all its pods stop",
        ),
        (STATEFUL_SET, {**deployment("a", "a")}, {**deployment("a", "b")}, "its only pod"),
        (STATEFUL_SET, deployment("a", "a", 3), deployment("a", "b", 3), ""),
        (DAEMON_SET, deployment("a", "a"), deployment("a", "b"), "on each node"),
    ],
)
def test_workloads_that_stop_before_the_next_pod_starts(
    kind: Kind, before: Object, after: Object | None, reason: str
) -> None:
    writes = one(kind, before, after)
    stops = outages(changes(writes), writes)
    assert [each.reason.startswith(reason) for each in stops] == ([True] if reason else [])


LAST = "kubectl.kubernetes.io/last-applied-configuration"


def test_a_manifest_comes_to_the_cluster_as_kubectl_apply_brings_it() -> None:
    last = {"spec": {"nova": {"enabled": True, "replicas": 2}, "list": [1]}}
    cluster = {
        "metadata": {"name": "cloud", "uid": "1", "annotations": {LAST: json.dumps(last)}},
        "spec": {"nova": {"enabled": True, "replicas": 2, "default": 1}, "list": [1], "region": "One"},
    }
    manifest = {"metadata": {"name": "cloud"}, "spec": {"nova": {"enabled": False}, "list": [2, 3], "new": {}}}
    new = apply_manifest(cluster, manifest)
    assert new["spec"] == {
        "nova": {"enabled": False, "default": 1},
        "list": [2, 3],
        "region": "One",
        "new": {},
    }
    assert new["metadata"]["uid"] == "1"


SPEC, OF_LAST = {"f:spec": {"f:region": {}}}, {"f:metadata": {"f:annotations": {f"f:{LAST}": {}}}}
KEPT_BY_KUBECTL = {"manager": "kubectl-last-applied", "operation": "Apply", "fieldsV1": OF_LAST, "time": LATER}


def entry(manager: str, operation: str, time: str = THEN, /, **fields: Any) -> Object:
    return {"manager": manager, "operation": operation, "time": time, "fieldsV1": SPEC, **fields}


BY_SERVER, BY_CLIENT = entry("kubectl", "Apply"), entry("kubectl-client-side-apply", "Update", fieldsV1=SPEC | OF_LAST)


@pytest.mark.parametrize(
    ("managers", "annotated", "expected"),
    [
        ([BY_SERVER], False, LastApply(is_by_server=True, manager="kubectl")),
        ([BY_SERVER, entry("kubectl-patch", "Update", LATER)], False, LastApply(is_by_server=True, manager="kubectl")),
        ([BY_CLIENT], True, LastApply(is_by_server=False, manager="kubectl-client-side-apply")),
        # First by one, then by the other.
        (
            [BY_SERVER, BY_CLIENT | {"time": LATER}],
            True,
            LastApply(is_by_server=False, manager="kubectl-client-side-apply"),
        ),
        ([BY_CLIENT, BY_SERVER | {"time": LATER}], True, LastApply(is_by_server=True, manager="kubectl")),
        ([BY_SERVER, KEPT_BY_KUBECTL], True, LastApply(is_by_server=True, manager="kubectl")),
        # Flux; what the operator applies of a resource, and its status, is no apply of a user.
        (
            [BY_SERVER, entry("kustomize-controller", "Apply", LATER)],
            False,
            LastApply(is_by_server=True, manager="kustomize-controller"),
        ),
        (
            [BY_SERVER, entry("openstack-operator", "Apply", LATER)],
            False,
            LastApply(is_by_server=True, manager="kubectl"),
        ),
        (
            [BY_SERVER, entry("other", "Apply", LATER, subresource="status")],
            False,
            LastApply(is_by_server=True, manager="kubectl"),
        ),
        (
            [BY_SERVER, entry("labels", "Apply", LATER, fieldsV1={"f:metadata": {}})],
            False,
            LastApply(is_by_server=True, manager="kubectl"),
        ),
        # Created or edited, and never applied; an API server without managers.
        ([entry("kubectl-create", "Update")], False, LastApply(is_by_server=False, manager="")),
        ([], False, LastApply(is_by_server=False, manager="")),
        ([], True, LastApply(is_by_server=False, manager="kubectl")),
    ],
)
def test_a_preview_applies_as_the_last_time(managers: Sequence[Object], annotated: bool, expected: LastApply) -> None:
    annotations = {LAST: "{}"} if annotated else {}
    assert last_apply({"metadata": {"managedFields": managers, "annotations": annotations}}) == expected


def test_a_preview_says_which_apply_it_assumes() -> None:
    on_server, by_client, never = (
        apply_note(each, ["Nova/nova"])
        for each in (
            LastApply(is_by_server=True, manager="kubectl"),
            LastApply(is_by_server=False, manager="kubectl"),
            LastApply(is_by_server=False, manager=""),
        )
    )
    assert on_server.startswith("Nova/nova: applied with --server-side, as the last time; `kubectl apply` without it")
    assert by_client.startswith("Nova/nova: applied without --server-side, as the last time;")
    assert never == "Nova/nova: no file was applied before; fields missing in the file stay"
    assert "--server-side by kustomize-controller" in apply_note(
        LastApply(is_by_server=True, manager="kustomize-controller"), ["a"]
    )


def test_conflict_note_names_the_tool_that_applies() -> None:
    by_kubectl, by_flux = (
        conflict_note("conflict with a", LastApply(is_by_server=True, manager=manager))
        for manager in ("kubectl", "kustomize-controller")
    )
    assert by_kubectl == "conflict with a; with --force-conflicts, kubectl takes these fields over, as shown here"
    assert by_flux == (
        "conflict with a; if its apply is forced, kustomize-controller takes these fields over, as shown here"
    )


def test_null_removes_a_field_and_a_status_is_left_alone() -> None:
    cluster = {"metadata": {"name": "cloud"}, "spec": {"a": 1, "b": 2}, "status": {"phase": "Ready"}}
    new = apply_manifest(cluster, {"metadata": {"name": "cloud"}, "spec": {"a": None}, "status": {"phase": "Odd"}})
    assert new == {"metadata": {"name": "cloud"}, "spec": {"b": 2}, "status": {"phase": "Ready"}}


def test_a_running_operator_has_release_files_of_its_own(tmp_path: Path) -> None:
    operator = RunningOperator(arguments=[], environment={}, files={"/etc/releases": {"2025.1.yaml": "text"}})
    assert write_releases(operator, Path("/etc/releases"), tmp_path) == tmp_path
    assert (tmp_path / "2025.1.yaml").read_text() == "text"
    assert write_releases(operator, Path("/elsewhere"), tmp_path) is None


@pytest.mark.security
def test_a_release_file_is_written_into_its_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    operator = RunningOperator(arguments=[], environment={}, files={"/r": {"../outside.yaml": "text"}})
    write_releases(operator, Path("/r"), folder)
    assert not (tmp_path / "outside.yaml").exists()


def test_options_of_the_operator_are_read_from_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_DOMAIN", "of.this.shell")
    env: Mapping[str, str] = {"CLUSTER_DOMAIN": "of.the.cluster", "ISSUER_HOSTS": "a=*.example.org"}
    settings = run_settings(command_line(env).parse_args(["run", "--releases=/etc/releases"]))
    assert settings.cluster_domain == "of.the.cluster"
    assert settings.releases == Path("/etc/releases")
    assert settings.permissions.issuer_hosts == ("a=*.example.org",)


def options(*files: Path, **changes: Any) -> commands.Options:
    def parse(*_: Any) -> commands.OperatorSettings:
        return commands.OperatorSettings()

    return commands.Options(parse=parse, files=[str(each) for each in files], **changes)


def test_another_order_of_containers_is_a_change() -> None:
    both = [{"name": "a"}, {"name": "b"}]
    before, after = deployment("api", "a"), deployment("api", "a")
    before["spec"]["template"]["spec"]["initContainers"] = both
    after["spec"]["template"]["spec"]["initContainers"] = both[::-1]
    (change,) = changes(one(DEPLOYMENT, before, after))
    assert change.fields == [FieldChange("spec.template.spec.initContainers", ["a", "b"], ["b", "a"])]
    assert change.replaces_pods


def test_a_document_that_is_left_out_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    path = tmp_path / "cloud.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: openstack}\n", encoding="utf-8")
    assert main(["plan", "-f", str(path)]) != 0
    text = f"left out, because it is not a resource of this operator: Namespace/openstack ({path})"
    assert text in capsys.readouterr().err


def test_a_wrong_option_is_told_from_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--nope"])
    assert ended.value.code == commands.FAULT
    assert "--nope" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{apiVersion: openstack.k8s.io/v1alpha1, kind: Nova, metadata: null}", "metadata.name"),
        ("{apiVersion: openstack.k8s.io/v1alpha1, kind: Nova, metadata: [a]}", "metadata.name"),
        ("kind: [", "plan"),
        ("{apiVersion: openstack.k8s.io/v1alpha1, kind: Nova, metadata: {}}", "metadata.name"),
        (
            "\n---\n".join(
                f"{{apiVersion: openstack.k8s.io/v1alpha1, kind: Nova, metadata: {{name: a, namespace: {each}}}}}"
                for each in ("one", "two")
            ),
            "one, two; plan one at a time",
        ),
    ],
)
def test_manifests_that_cannot_be_planned_are_refused_by_name(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(text)
    assert commands.plan(options(file)) == commands.FAULT
    assert message in capsys.readouterr().err


KEYRING = "[client.glance]\n\tkey = AQBsecretsecretsecret==\n"


@pytest.mark.security
@pytest.mark.parametrize(
    ("live_secret", "hidden", "shown"),
    [
        (secret("own", keyring=KEYRING), "AQBsecretsecretsecret==", ""),
        (secret("own", file="[a]\nregion_name = sesame-street\n"), "sesame-street", ""),
        (
            config("ours", **{"a.conf": "[a]\nregion_name = sesame-street\npassword = open-sesame\n"}),
            "open-sesame",
            "sesame-street",
        ),
        (secret("own", login="open-sesame"), base64.b64encode(b"open-sesame").decode(), ""),
    ],
)
def test_values_of_a_secret_are_hidden_in_every_form(live_secret: Object, hidden: str, shown: str) -> None:
    values = set(secret_values(live_secret))
    assert hidden in values
    assert shown not in values


@pytest.mark.security
@pytest.mark.parametrize(
    "text", ["[a]\nk" + " " * 900_000 + "x", "[a]\n" + " = \n" * 200_000, "[a]\nb=1\n" + " c\n" * 300_000]
)
def test_a_large_secret_takes_no_time(text: str) -> None:
    """It is no configuration file: none is that long. What takes minutes would end this test."""
    assert decode_content(base64.b64encode(text.encode()).decode()) == text


def test_definitions_are_compared_by_schema_without_server_defaults() -> None:
    wanted = crd(RESOURCES[0])
    stored = copy.deepcopy(wanted)
    stored["spec"]["conversion"] = {"strategy": "None"}
    stored["status"] = {"storedVersions": ["v1alpha1"]}
    assert not definitions.differs(stored, wanted)
    properties = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    name = next(iter(properties))
    field = properties.pop(name)
    assert definitions.differs(stored, wanted)
    properties |= {name: field, "retired": {"type": "string"}}
    assert definitions.differs(stored, wanted)
