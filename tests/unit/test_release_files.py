"""Release files: read anew when they change, which wakes all resources; as they were while they are broken."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from openstack_operator.plan import SpecError
from openstack_operator.registry import RESOURCES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.cache.entries import Cached, Meta, Request
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.passes import Result
from openstack_operator.serve import Settings, make_manager
from tests.unit.polling import eventually

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
        ("error", "release file is broken; its previous version stays in use")
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


def test_an_unreadable_release_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "2099.1.yaml").write_text("a: [")
    with pytest.raises(SpecError, match=r"spec.release: 2099.1.yaml cannot be read"):
        ReleaseFiles(tmp_path)(SPEC)


def test_a_folder_without_releases_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no release"):
        ReleaseFiles(tmp_path)(SPEC)


class Looks:
    """A pass that does nothing but count."""

    def __init__(self) -> None:
        self.number = 0

    async def reconcile(self, request: Request, resource: Cached) -> Result:
        del request, resource
        self.number += 1
        return Result()

    async def note_plan(self, request: Request, resource: Cached) -> Result:
        raise NotImplementedError


async def test_a_changed_file_wakes_resources_and_an_unchanged_one_does_not(tmp_path: Path) -> None:
    mounted(tmp_path, GOOD % "one", "..1")
    manager = make_manager(cast("Client", None), Settings(releases=tmp_path, health_port=0), (), None)
    manager.release_pause = 0.001
    kind, looks, looks_at_files = Kind.of(PLACEMENT), Looks(), 0
    versions = manager._release_versions  # pyright: ignore[reportPrivateUsage]

    def count() -> object:
        nonlocal looks_at_files
        looks_at_files += 1
        return versions()

    manager._release_versions = count  # pyright: ignore[reportPrivateUsage]
    manager._passes[kind.handle] = looks  # pyright: ignore[reportPrivateUsage]
    manager.world.stores[kind].put(Cached(Meta("placement", uid="1", resource_version="1", namespace="x"), b"{}"))
    work = asyncio.ensure_future(manager._work())  # pyright: ignore[reportPrivateUsage]
    changes: list[Callable[[], object]] = [
        lambda: mounted(tmp_path, GOOD % "two", "..2"),
        lambda: (tmp_path / "2099.2.yaml").write_text(GOOD % "other"),
        (tmp_path / "2099.2.yaml").unlink,
    ]
    await eventually("the first look", lambda: looks.number == 1)
    for number, change in enumerate(changes, 2):
        seen = looks_at_files
        await eventually("looks at files", lambda: looks_at_files > seen + 10)  # noqa: B023
        assert looks.number == number - 1
        change()
        await eventually("a look at the resource", lambda: looks.number == number)  # noqa: B023
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def test_a_release_knows_the_options_of_those_before(tmp_path: Path) -> None:
    (tmp_path / "options").mkdir()
    for name in ("2098.1", "2098.2", "2099.1"):
        (tmp_path / f"{name}.yaml").write_text((GOOD % "one").replace("2099.1", name))
        lines = f'[nova]\nDEFAULT\n  of_{name} {{"type":"Integer"}}\n  plain\n[glance]\nDEFAULT\n'
        (tmp_path / "options" / f"{name}.txt").write_text(lines)
    release = ReleaseFiles(tmp_path)(SPEC)
    assert release.options == {
        "nova": {"DEFAULT": {"of_2099.1": '{"type":"Integer"}', "plain": ""}},
        "glance": {"DEFAULT": {}},
    }
    assert set(release.earlier_options["nova"]["DEFAULT"]) == {"of_2098.1", "of_2098.2", "plain"}
