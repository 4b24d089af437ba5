"""The command line: what each command prints, and what it does not load."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import __version__
from openstack_operator.api import Model, Resource, crd
from openstack_operator.api.schema import STATUS
from openstack_operator.cli.command_line import command_line
from openstack_operator.cli.explain import explained
from openstack_operator.cli.kind_index import KINDS, SMALL
from openstack_operator.cli.main import main
from openstack_operator.cli.offline.stored_schemas import file_of, read_schema
from openstack_operator.cli.settings import run_settings
from openstack_operator.plan import Kind
from openstack_operator.registry import ACTUATORS, RESOURCES
from openstack_operator.serve import Settings
from openstack_operator.yaml_text import load, load_text


def test_version_loads_nothing_heavy() -> None:
    code = (
        "import sys; from openstack_operator.cli.main import main; main(['version']);"
        "print({'pydantic', 'httpx2', 'openstack', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["set()"]


LIGHT = {"pydantic", "httpx2", "yaml", "openstack_operator.plan", "openstack_operator.api"}
"""Modules that take long, and that no command needs which says how it is used."""
MODELS = {"openstack_operator.registry", "openstack_operator.services", "openstack_operator.actuators"}
"""Modules of all kinds, which take a second: what is ready, and where a kind is in the API, is known without them."""


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], LIGHT),
        (["status", "--help"], LIGHT),
        (["statsu"], LIGHT),
        (["status"], MODELS),
        (["status", "-n", "openstack", "keystone"], MODELS),
        (["why"], MODELS),
        (["wait"], MODELS),
        (["logs", "nova"], MODELS),
        (["config", "nova"], MODELS),
        (["timeline"], MODELS),
        (["pause", "--all"], MODELS),
        (["backup", "list", "--help"], LIGHT),
        (["backup", "list"], MODELS),
        (["backup", "run", "monday", "--schedule", "nightly"], MODELS),
        (["backup", "restore", "--backup", "monday"], MODELS),
        (["support-bundle", "-o", "bundle.tar.gz"], MODELS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_loads_what_it_needs(arguments: list[str], unwanted: set[str], tmp_path: Path) -> None:
    """Seconds depend on the machine; what is imported does not."""
    code = (
        "import sys\nfrom openstack_operator.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "sys.stdout.write('\\nMODULES ' + ' '.join(sys.modules))"
    )
    # The question ends at a cluster that is not there.
    config = tmp_path / "config"
    config.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "KUBECONFIG": str(config)},
    )
    loaded = done.stdout.rpartition("MODULES ")[2].split()
    assert "openstack_operator.cli.main" in loaded
    assert unwanted & set(loaded) == set()
    assert arguments[-1] == "--help" or done.stderr


@pytest.mark.seconds
def test_validate_makes_no_definition_and_loads_no_other_command_line(root: Path) -> None:
    """The schemas are files, since to make the definitions took twice as long as all the rest."""
    sample = str(root / "deploy/samples/controlplane_minimal.yaml")
    code = (
        "import sys\nfrom openstack_operator.cli.main import main\n"
        f"main(['validate', '-f', {sample!r}])\n"
        "from openstack_operator.api import schema\n"
        "modules = set(sys.modules)\n"
        "print(schema._crd.cache_info().misses, {'cel.cli', 'prompt_toolkit'} & modules, 'cel.cel' in modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["0 set() True"]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.handle)
def test_each_kind_has_a_file_with_its_schema(resource: Resource[Any]) -> None:
    assert file_of(resource).is_file()
    assert read_schema(resource)["properties"].keys() == {"apiVersion", "kind", "metadata", "spec", "status"}


def test_annotations_of_models_are_no_texts() -> None:
    """pydantic evaluates each text again for each subclass, a tenth of the time of `validate`: modules of kinds do
    without `from __future__ import annotations`.
    """

    def subclasses(model: type[Model]) -> set[type[Model]]:
        return {model}.union(*map(subclasses, model.__subclasses__()))

    texts = {
        model.__module__
        for model in subclasses(Model)
        if model.__module__.startswith(("openstack_operator.api.", "openstack_operator.services."))
        # A page's code, which other tests run, may define a model of the same name.
        if vars(sys.modules[model.__module__]).get(model.__name__) is model
        if any(isinstance(annotation, str) for annotation in vars(model).get("__annotations__", {}).values())
    }
    assert texts == set()


def test_the_index_of_kinds_leads_to_their_models() -> None:
    assert [(each.api_version, each.kind, each.as_kind()) for each in KINDS] == [
        (each.api_version, each.kind, Kind.of(each)) for each in RESOURCES
    ]
    assert [each.load_spec() for each in KINDS] == [each.spec for each in RESOURCES]
    assert {(each.resource.api_version, each.resource.kind) for each in ACTUATORS} == SMALL


def test_builds_of_a_version_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(*arguments: str) -> str:
        return run_settings(command_line().parse_args(["run", *arguments])).version

    monkeypatch.delenv("OPERATOR_BUILD", raising=False)
    assert version() == __version__
    assert version("--build", "1f2e") == f"{__version__}+1f2e"
    allowed = STATUS["properties"]["operatorVersion"]["maxLength"]
    assert len(version("--build", "f" * 64)) == allowed
    monkeypatch.setenv("OPERATOR_BUILD", "3d4c")
    assert version() == f"{__version__}+3d4c"


def test_metrics_want_a_token_unless_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(*arguments: str) -> Settings:
        return run_settings(command_line().parse_args(["run", *arguments]))

    for name in ("METRICS_PORT", "METRICS_CERTIFICATE", "METRICS_INSECURE"):
        monkeypatch.delenv(name, raising=False)
    default = settings()
    assert (default.metrics_port, default.metrics_certificate, default.metrics_insecure) == (8443, None, False)
    assert settings("--metrics-port=0").metrics_port == 0
    assert settings("--metrics-certificate=/etc/tls").metrics_certificate == Path("/etc/tls")
    assert settings("--metrics-insecure").metrics_insecure
    for name, value in (("PORT", "9443"), ("CERTIFICATE", "/etc/tls"), ("INSECURE", "true")):
        monkeypatch.setenv(f"METRICS_{name}", value)
    given = settings()
    assert (given.metrics_port, given.metrics_certificate, given.metrics_insecure) == (9443, Path("/etc/tls"), True)
    # What Kubernetes sets in the pods of a namespace with a Service `metrics` breaks no other command.
    monkeypatch.setenv("METRICS_PORT", "tcp://10.96.0.7:8443")
    assert main(["version"]) == 0


@pytest.mark.seconds
@pytest.mark.parametrize("sample", ["minimal", "two"])
def test_a_sample_is_rendered_the_same_twice(root: Path, capsys: pytest.CaptureFixture[str], sample: str) -> None:
    texts: list[str] = []
    for _ in range(2):
        assert main(["render", "-f", str(root / f"deploy/samples/controlplane_{sample}.yaml")]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    objects = load_text(texts[0])
    assert {"Keystone", "Deployment", "StatefulSet", "Secret", "MariaDBDatabase"} <= {obj["kind"] for obj in objects}
    names = [(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in objects]
    assert len(names) == len(set(names))


PLACEMENT = "apiVersion: openstack.k8s.io/v1alpha1\nkind: Placement\nmetadata: {name: p}\n"


def test_render_refuses_an_invalid_spec_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "nova.yaml"
    manifest.write_text(f"{PLACEMENT}spec: {{config: {{api: {{auth_strategy: noauth2}}}}}}\n")
    assert main(["render", "-f", str(manifest)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert f"{manifest}:4: Placement/p: spec.config.api.auth_strategy: " in output.err
    assert "remove it from config" in output.err


def test_a_file_without_anything_of_ours_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "other.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
    assert main(["render", "-f", str(manifest)]) == 1
    assert "no resource of this operator" in capsys.readouterr().err


def test_an_unknown_release_names_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "p.yaml"
    manifest.write_text(f"{PLACEMENT}spec: {{release: '1999.1'}}\n")
    assert main(["render", "-f", str(manifest)]) == 1
    assert "spec.release: there is no release '1999.1'; choose from 2025.1" in capsys.readouterr().err


def test_validate_says_ok_and_counts(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(root / "deploy/samples/controlplane_minimal.yaml")
    assert main(["validate", "-f", sample]) == 0
    output = capsys.readouterr()
    assert re.fullmatch(r"OK: \d+ objects of 1 resource; 1 object of other kinds, which are not checked\n", output.out)
    assert output.err == ""
    manifest = tmp_path / "p.yaml"
    manifest.write_text(f"{PLACEMENT}spec: {{replicaz: 1}}\n")
    assert main(["validate", "-o", "json", "-f", sample, "-f", str(manifest)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["resources"]) == (False, 2)
    (error,) = report["errors"]
    assert (error["file"], error["line"], error["path"]) == (str(manifest), 4, "spec.replicaz")
    assert (error["kind"], error["name"]) == ("Placement", "p")


def test_strict_fails_for_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "p.yaml"
    manifest.write_text(f"{PLACEMENT}spec: {{}}\n")
    assert main(["validate", "-f", str(manifest)]) == 0
    assert main(["validate", "--strict", "-f", str(manifest)]) == 1
    assert "MariaDB/mariadb is missing in the files" in capsys.readouterr().err


@pytest.mark.seconds
def test_standard_input(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (root / "deploy/samples/controlplane_minimal.yaml").read_bytes()
    command = [sys.executable, "-m", "openstack_operator.cli", "validate", "-f", "-"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout[:3], done.stderr) == (0, b"OK:", b"")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: [")))
    assert main(["validate", "-f", "-"]) == 1
    assert capsys.readouterr().err.startswith("<stdin>:2: document 1: is not YAML")


@pytest.mark.parametrize("arguments", [["render"], ["validate", "-f"], ["validate", "-o", "xml", "-f", "a"], ["rendr"]])
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_kind_nobody_knows_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--serves", "PodMonitor", "-f", "/dev/null"]) == 2
    assert "PodMonitor.monitoring.coreos.com" in capsys.readouterr().err


def test_a_folder_of_releases_that_is_not_there_is_status_2(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = str(root / "deploy/samples/controlplane_minimal.yaml")
    missing, file = str(tmp_path / "none"), tmp_path / "file"
    file.touch()
    # The operator itself must not find a cluster where it does not stop.
    monkeypatch.setenv("KUBECONFIG", missing)
    for command in (["render", "-f", sample], ["validate", "-f", sample], ["run", "--health-port", "0"]):
        for folder in (missing, str(file)):
            with pytest.raises(SystemExit) as stopped:
                main([*command, "--releases", folder])
            assert stopped.value.code == 2
            assert f"--releases (RELEASES): there is no folder '{folder}'" in capsys.readouterr().err
    monkeypatch.setenv("RELEASES", missing)
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--health-port", "0"])
    assert stopped.value.code == 2


def test_explain_says_what_a_field_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "keystone.fernet.rotationSchedule"]) == 0
    text = capsys.readouterr().out
    assert "default: 0 0 * * 0" in text
    assert main(["explain", "oscp.keystone"]) == 0
    assert "fernet" in capsys.readouterr().out


def test_explain_says_defaults_of_a_kind_and_of_its_template_alike() -> None:
    for where in ("keystone", "oscp.keystone"):
        lines = explained(RESOURCES, f"{where}.fernet").splitlines()
        assert any(line.startswith("  maxActiveKeys ") and line.endswith(" Default: 3.") for line in lines)
        assert "  default: 3" in explained(RESOURCES, f"{where}.fernet.maxActiveKeys").splitlines()
        # The other half of it is what its own field says.
        keys = explained(RESOURCES, f"{where}.credentialKeys").splitlines()
        assert '  default: {"rotationSchedule": "@monthly"}' in keys
        assert "  default: false" in explained(RESOURCES, f"{where}.networkPolicies.enabled").splitlines()
        assert not any("default" in line for line in explained(RESOURCES, f"{where}.config").lower().splitlines()[2:])


def test_explain_has_images_of_c5c3_as_objects() -> None:
    page = explained(RESOURCES, "controlplanes.c5c3.io.infrastructure.ceph.rook.image")
    assert '  default: {"repository": "quay.io/ceph/ceph", "tag": "v' in page
    assert "  Image of Ceph that Rook runs." in page


DEFINITIONS = sorted((Path(__file__).parent.parent.parent / "deploy").glob("crds*/*.yaml"))
"""Files of them, which only the tests that look into them read."""


@cache
def definitions() -> dict[Path, dict[str, Any]]:
    return {path: load(path)[0] for path in DEFINITIONS}


def names_of(definition: dict[str, Any]) -> set[str]:
    """Names by which kubectl takes a kind without its group."""
    names = definition["spec"]["names"]
    return {names["plural"], names["singular"], names["kind"], *names["shortNames"]}


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_explain_knows_every_kind_by_every_name(path: Path) -> None:
    definition = definitions()[path]
    group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
    version = definition["spec"]["versions"][0]["name"]
    names = names_of(definition)
    theirs = {name for other in definitions().values() if other is not definition for name in names_of(other)}
    page = explained(RESOURCES, definition["metadata"]["name"])
    assert page.startswith(f"{kind} <object>")
    assert names - theirs
    for name in (*(names - theirs), *(f"{each}{end}.{group}" for each in names for end in ("", f".{version}"))):
        assert explained(RESOURCES, name) == page
        assert explained(RESOURCES, f"{name}.status.conditions.type").startswith(f"{kind}.status.conditions.type <")


def test_every_definition_is_asked_for_by_its_names() -> None:
    assert {each["metadata"]["name"] for each in definitions().values()} == {each.crd_name for each in RESOURCES}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.handle)
def test_explain_says_every_field_of_spec_and_status(resource: Resource[Any]) -> None:
    full = f"{resource.plural}.{resource.group}"
    fields = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        page = explained(RESOURCES, f"{full}.{part}")
        assert all(f"  {field} " in page for field in fields[part].get("properties", {}))


def test_explain_knows_what_is_in_the_status_of_a_kind() -> None:
    assert "name" in explained(RESOURCES, "nova.status.cells")


def test_explain_names_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "keystone.fernet.rotationSchedul"]) == 1
    error = capsys.readouterr().err
    assert "did you mean rotationSchedule?" in error
    assert "choose from rotationSchedule, maxActiveKeys" in error
    assert main(["explain", "kestone"]) == 1
    error = capsys.readouterr().err
    assert "did you mean Keystone" in error
    assert "choose from OpenStackControlPlane" in error
    for path in ("", ".", "nova.", "nova..cells", "nova.status.nothing.at.all", "nova.cells[0].nam", "\udcff"):
        assert main(["explain", path]) in {0, 1}


@pytest.mark.seconds
def test_generate_says_what_is_stale(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("deploy/samples", "releases"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(root / name)
    assert main(["generate", "--check", "--root", str(tmp_path)]) == 1
    assert "deploy/rbac.yaml is stale" in capsys.readouterr().err
    assert not (tmp_path / "deploy" / "crds").exists()
