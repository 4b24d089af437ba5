"""The command line: what each command prints, and what it does not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openstack_operator.cli import main
from openstack_operator.manifests import load_text


def test_version_loads_nothing_heavy() -> None:
    code = (
        "import sys; from openstack_operator.cli import main; main(['version']);"
        "print({'pydantic', 'httpx2', 'openstack', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["set()"]


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


def test_what_would_be_refused_is_refused_on_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "nova.yaml"
    manifest.write_text("kind: Placement\nmetadata: {name: p}\nspec: {config: {api: {auth_strategy: noauth2}}}\n")
    assert main(["render", "-f", str(manifest)]) == 1
    error = capsys.readouterr().err
    assert "spec.config.api.auth_strategy" in error
    assert "remove it from config" in error


def test_a_file_without_anything_of_ours_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "other.yaml"
    manifest.write_text("kind: ConfigMap\nmetadata: {name: c}\n")
    assert main(["render", "-f", str(manifest)]) == 1
    assert "no resource of this operator" in capsys.readouterr().err


def test_an_unknown_release_names_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "p.yaml"
    manifest.write_text("kind: Placement\nmetadata: {name: p}\nspec: {release: '1999.1'}\n")
    assert main(["render", "-f", str(manifest)]) == 1
    assert "spec.release: there is no release '1999.1'; choose from 2025.1" in capsys.readouterr().err


def test_explain_says_what_a_field_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "keystone.fernet.rotationSchedule"]) == 0
    text = capsys.readouterr().out
    assert "default: 0 0 * * 0" in text
    assert main(["explain", "oscp.keystone"]) == 0
    assert "fernet" in capsys.readouterr().out


def test_explain_names_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "keystone.fernet.schedule"]) == 1
    assert "choose from rotationSchedule, maxActiveKeys" in capsys.readouterr().err
    assert main(["explain", "kestone"]) == 1
    assert "choose from OpenStackControlPlane" in capsys.readouterr().err


def test_generate_says_what_is_stale(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("deploy/samples", "releases"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(root / name)
    assert main(["generate", "--check", "--root", str(tmp_path)]) == 1
    assert "deploy/rbac.yaml is stale" in capsys.readouterr().err
    assert not (tmp_path / "deploy" / "crds").exists()
