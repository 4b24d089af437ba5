"""Release files: read anew when they change, as they were while they are broken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from openstack_operator.catalogue import RESOURCES
from openstack_operator.plan import SpecError
from openstack_operator.release_files import ReleaseFiles

PLACEMENT = next(each for each in RESOURCES if each.handle == "Placement")
GOOD = "release: '2099.1'\nprofiles: {debian: {components: {placement: {image: %s}}}}\n"
SPEC = PLACEMENT.spec.model_validate({"release": "2099.1"})


def image(files: ReleaseFiles) -> str:
    return files(SPEC).components["placement"].image


def mounted(tmp_path: Path, content: str, version: str) -> None:
    """Writes as the kubelet does: files in a new folder, to which a symlink is turned."""
    folder = tmp_path / version
    folder.mkdir()
    (folder / "2099.1.yaml").write_text(content)
    (tmp_path / "..data_new").symlink_to(version)
    (tmp_path / "..data_new").rename(tmp_path / "..data")
    if not (tmp_path / "2099.1.yaml").is_symlink():
        (tmp_path / "2099.1.yaml").symlink_to("..data/2099.1.yaml")


def test_a_mounted_config_map_is_read_anew(tmp_path: Path) -> None:
    mounted(tmp_path, GOOD % "one", "..1")
    files = ReleaseFiles(tmp_path)
    assert image(files) == "one"
    assert files(SPEC) is files(SPEC)
    mounted(tmp_path, GOOD % "two", "..2")
    with capture_logs() as logs:
        assert image(files) == "two"
        assert image(files) == "two"
    assert [entry["event"] for entry in logs] == ["release file has changed"]


@pytest.mark.parametrize(
    "broken", ["profiles: [", "just text", "profiles: {debian: {}}", "profiles: {debian: {components: {a: {}}}}"]
)
def test_a_broken_file_changes_nothing_and_is_said_once(tmp_path: Path, broken: str) -> None:
    mounted(tmp_path, GOOD % "one", "..1")
    files = ReleaseFiles(tmp_path)
    image(files)
    mounted(tmp_path, broken, "..2")
    with capture_logs() as logs:
        assert [image(files), image(files)] == ["one", "one"]
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [
        ("error", "release file is broken; the version before stays in use")
    ]
    mounted(tmp_path, GOOD % "three", "..3")
    assert image(files) == "three"


def test_a_file_edited_in_place_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "2099.1.yaml"
    path.write_text(GOOD % "one")
    files = ReleaseFiles(tmp_path)
    assert image(files) == "one"
    path.write_text(GOOD % "two")
    os.utime(path, ns=(1, 1))
    assert image(files) == "two"


def test_one_that_was_never_good_is_named(tmp_path: Path) -> None:
    (tmp_path / "2099.1.yaml").write_text("a: [")
    with pytest.raises(SpecError, match=r"spec.release: 2099.1.yaml cannot be read"):
        ReleaseFiles(tmp_path)(SPEC)


def test_a_folder_without_releases_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no release"):
        ReleaseFiles(tmp_path)(SPEC)
