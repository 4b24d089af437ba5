"""Images in a registry are named by what was pushed there, whatever their tags show later."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from images import __main__ as command
from images import catalog, registry
from images.engine import Engine
from images.shell import CommandError
from tools.cloud import deploy

TARGET = "registry.example.org:5000/team"
_SKOPEO = (
    f"#!{sys.executable} -IS"
    """
import hashlib, os, sys
from urllib.parse import quote
folder = os.environ["REGISTRY"]
target = next(word for word in sys.argv if word.startswith("docker://"))
image = os.path.join(folder, quote(target.removeprefix("docker://"), safe=""))
with open(os.path.join(folder, "asked"), "a") as asked:
    asked.write(" ".join(sys.argv[1:]) + "\\n")
if "copy" in sys.argv:
    digest = "sha256:" + hashlib.sha256(target.encode()).hexdigest()
    open(image, "w").write(digest)
    (file,) = (word.partition("=")[2] for word in sys.argv if word.startswith("--digestfile="))
    open(file, "w").write(digest)
elif os.path.exists(image):
    print(open(image).read())
else:
    sys.exit("manifest unknown")
"""
)


class Built:
    """An engine that has every image."""

    def source(self, reference: str) -> list[str]:
        return ["--insecure-policy", f"docker-daemon:{reference}"]


ENGINE = cast("Engine", Built())


@pytest.fixture(autouse=True)
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a registry: a file an image, with its digest. skopeo is a program of this test."""
    folder, programs = tmp_path / "registry", tmp_path / "bin"
    for each in (folder, programs):
        each.mkdir()
    (programs / "skopeo").write_text(_SKOPEO)
    (programs / "skopeo").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("REGISTRY", str(folder))
    monkeypatch.setenv("OPENSTACK_OPERATOR_CACHE", str(tmp_path / "cache"))
    return folder


def asked(served: Path) -> list[str]:
    """What skopeo was asked: inspect or copy."""
    lines = (served / "asked").read_text().splitlines() if (served / "asked").exists() else []
    return [next(word for word in line.split() if word in {"inspect", "copy"}) for line in lines]


def replaced(served: Path, digest: str) -> None:
    """Somebody pushes something else under every tag."""
    for image in served.glob("registry*"):
        image.write_text(digest)


def test_an_image_is_pushed_once_and_named_by_its_digest(served: Path) -> None:
    for _ in range(2):
        registry.push(ENGINE, TARGET, ["keystone"])
    assert asked(served) == ["inspect", "copy", "inspect"]
    named = registry.pinned(TARGET, ["keystone"])["keystone"]
    name, _, digest = named.partition("@")
    assert name == catalog.reference("keystone", TARGET)
    assert digest == next(served.glob("registry*")).read_text()
    assert asked(served)[3:] == [], "what was pushed from here is known here"


@pytest.mark.security
def test_an_image_that_somebody_replaced_is_not_run(served: Path) -> None:
    registry.push(ENGINE, TARGET, ["keystone"])
    before = registry.pinned(TARGET, ["keystone"])
    replaced(served, f"sha256:{'0' * 64}")
    assert registry.pinned(TARGET, ["keystone"]) == before
    with pytest.raises(CommandError, match=f"serves sha256:{'0' * 64}, and this machine knows sha256:.*delete"):
        registry.push(ENGINE, TARGET, ["keystone"])


@pytest.mark.security
def test_a_tag_pushed_again_elsewhere_keeps_its_first_digest(served: Path, tmp_path: Path) -> None:
    registry.push(ENGINE, TARGET, ["keystone"])
    for known in (tmp_path / "cache" / "digests").iterdir():
        known.unlink()
    replaced(served, f"sha256:{'1' * 64}")
    registry.push(ENGINE, TARGET, ["keystone"])
    assert asked(served).count("copy") == 1, "what others run stays"
    replaced(served, f"sha256:{'2' * 64}")
    assert registry.pinned(TARGET, ["keystone"])["keystone"].endswith(f"@sha256:{'1' * 64}")


def test_a_registry_is_asked_for_itself() -> None:
    registry.push(ENGINE, TARGET, ["keystone"])
    assert registry.pinned("registry.example.org:5000/other", ["keystone"]) == {
        "keystone": catalog.reference("keystone", "registry.example.org:5000/other")
    }


@pytest.mark.seconds
def test_the_commands_print_digests_and_say_what_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    registry.push(ENGINE, TARGET, ["keystone", "nova"])
    assert command.main(["list", "--registry", TARGET]) == 0
    listed, told = capsys.readouterr()
    assert {name for name, image in json.loads(listed).items() if "@sha256:" in image} == {"keystone", "nova"}
    assert "glance" in told and f"python -m images push {TARGET}" in told
    assert command.main(["release", "--registry", TARGET]) == 0
    assert json.loads(listed)["keystone"] in capsys.readouterr()[0]


@pytest.mark.seconds
def test_the_operator_and_its_release_come_from_the_registry() -> None:
    registry.push(ENGINE, TARGET, ["operator", "nova"])
    found: list[dict[str, Any]] = deploy.operator(TARGET)
    (container,) = (doc["spec"]["template"]["spec"]["containers"][0] for doc in found if doc["kind"] == "Deployment")
    assert container["image"] == registry.pinned(TARGET, ["operator"])["operator"]
    # Part of the version in a status, which a digest would make hard to read.
    assert {"name": deploy.BUILD, "value": catalog.tag("operator")} in container["env"]
    release = next(doc["data"]["2025.1.yaml"] for doc in found if doc["metadata"]["name"] == deploy.RELEASES)
    assert catalog.PREFIX not in release
    assert registry.pinned(TARGET, ["nova"])["nova"] in release
