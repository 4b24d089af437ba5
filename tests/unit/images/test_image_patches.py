"""Changes to other projects' code: headers, the page that lists them, and the program that applies them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from images import build, catalog, patches
from images.__main__ import main

PATCHES = patches.patches()
APPLY = re.compile(
    r"^COPY patches /tmp/patches\nRUN /tmp/patches/apply && rm -rf /tmp/patches /\w+/[.]cache$", re.MULTILINE
)


@pytest.mark.parametrize("patch", PATCHES, ids=[patch.name for patch in PATCHES])
def test_a_patch_is_applied_by_the_images_that_it_names(patch: patches.Patch) -> None:
    assert re.fullmatch(r"[\w.-]+/\d\d-[a-z-]+[.]patch", patch.name)
    assert re.match("--- a/(lib/python3|share/ceph|bin)", patch.diff)
    for name in patch.images:
        text = (catalog.FOLDER / name / "Containerfile").read_text(encoding="utf-8")
        assert APPLY.search(text)
        assert patch.name in catalog.files(name)["patches/series"].content.decode().splitlines()
        assert f"patches/{patch.name}" in catalog.files(name)


def test_no_containerfile_changes_code_by_itself() -> None:
    checks = 0
    for path in catalog.FOLDER.glob("*/Containerfile"):
        text = path.read_text(encoding="utf-8")
        checks += 1
        assert not re.search(r"sed -i|>> *\S*(dist-packages|\$)", text), path
        assert bool(APPLY.search(text)) == any(path.parent.name in patch.images for patch in PATCHES), path
    assert checks


def test_each_check_is_beside_a_patch() -> None:
    assert {patch.check for patch in PATCHES} >= set(patches.FOLDER.glob("*/*.check"))


@pytest.mark.parametrize(
    "head", ["Reason: a\nImages: oslo", "Reason: a\nUpstream: b\nNeeded-until: \nImages: oslo", "Reason: a\nno header"]
)
def test_a_header_without_a_field_is_refused(head: str, tmp_path: Path) -> None:
    path = tmp_path / "01-x.patch"
    path.write_text(f"{head}\n\n--- a/x\n+++ b/x\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"01-x\.patch: a header has the fields"):
        patches.read(path)


def test_the_documentation_lists_all_patches(root: Path) -> None:
    path = root / "docs" / "reference" / "patches.md"
    assert path.read_text(encoding="utf-8") == patches.page(), "run `make generate`"


def test_pristine_images_have_tags_of_their_own(tmp_path: Path) -> None:
    for name in ("oslo", "keystone", "compute", "cinder"):
        assert catalog.tag(name, pristine=True).endswith("-pristine")
        assert not catalog.tag(name).endswith("-pristine")
    assert catalog.tag("haproxy", pristine=True) == catalog.tag("haproxy")
    present = {catalog.reference(name) for name in (catalog.DEBIAN, *catalog.names())}
    assert build.missing(["keystone"], present, pristine=True) == ["oslo", "keystone"]
    build.stage("keystone", tmp_path, pristine=True)
    assert {path.name for path in (tmp_path / "patches").iterdir()} == {"apply", "series"}
    assert not (tmp_path / "patches" / "series").read_text(encoding="utf-8")


def test_a_cloud_may_run_pristine_images(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PRISTINE", "1")
    assert main(["list"]) == 0
    references = json.loads(capsys.readouterr().out)
    assert references == {name: catalog.reference(name, pristine=True) for name in catalog.deployed()}
    assert main(["release"]) == 0
    release = capsys.readouterr().out
    assert references["keystone"] in release
    assert catalog.reference("keystone") not in release.split()


@pytest.mark.parametrize(
    ("source", "check", "applies"), [("a = 1\n", 0, True), ("a = 3\n", 0, False), ("a = 1\n", 1, False)]
)
def test_a_patch_that_fails_ends_the_build(
    source: str, check: int, *, applies: bool, root: Path, tmp_path: Path
) -> None:
    packages, folder = tmp_path / "lib", tmp_path / "patches"
    (folder / "x").mkdir(parents=True)
    (packages / "python3").mkdir(parents=True)
    (folder / "series").write_text("x/01-y.patch\n", encoding="utf-8")
    diff = "--- a/python3/m.py\n+++ b/python3/m.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    (folder / "x" / "01-y.patch").write_text(f"Reason: test\n\n{diff}", encoding="utf-8")
    (folder / "x" / "01-y.check").write_text(f"raise SystemExit({check})\n", encoding="utf-8")
    module = packages / "python3" / "m.py"
    module.write_text(source, encoding="utf-8")
    program = Path(shutil.copy(root / "images" / "patches" / "apply", folder))
    result = subprocess.run([str(program), str(packages)], capture_output=True, text=True, check=False)
    assert (result.returncode == 0) == applies, result.stderr
    assert (module.read_text(encoding="utf-8") == "a = 2\n") == (source == "a = 1\n")
