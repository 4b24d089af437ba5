"""The modules, programs and images of a service are found from the name of its folder (docs/adding-a-service.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from openstack_operator.services.cloud_services import CLOUD_SERVICES, template_of

FIXED_NAMES = ("__init__.py", "model.py", "service.py", "cases")
SHARED_PROGRAMS = frozenset({"api", "metrics", "nodes", "probes", "schema", "tls", "tls_proxy"})
"""Folders of programs that `parts` and `kube` put into pods, or several services."""


def package(root: Path) -> Path:
    return root / "src" / "openstack_operator"


def service_folders(root: Path) -> list[Path]:
    return sorted(path.parent for path in (package(root) / "services").glob("*/__init__.py"))


def program_folders(root: Path) -> set[str]:
    files = (package(root) / "agents").glob("*/*.*")
    return {path.parent.name for path in files if path.parent.name != "__pycache__"}


def programs_named_in(folder: Path, programs: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each file of agents/ that a string of these modules names, after the module."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in programs:
                yield path.name, str(node.value)


def test_each_service_has_the_fixed_names(root: Path) -> None:
    missing = [
        f"{each.name}/{name}" for each in service_folders(root) for name in FIXED_NAMES if not (each / name).exists()
    ]
    assert missing == []


def test_services_run_programs_of_their_own_folder_or_shared_ones(root: Path) -> None:
    agents = package(root) / "agents"
    programs = {str(path.relative_to(agents)) for path in agents.glob("*/*.*")}
    assert programs
    for folder in service_folders(root):
        for module, program in programs_named_in(folder, programs):
            owner = program.partition("/")[0]
            assert owner in {folder.name, *SHARED_PROGRAMS}, f"{folder.name}/{module} runs {program}"


def test_folders_of_programs_are_of_a_service_or_shared(root: Path) -> None:
    services = {each.name for each in service_folders(root)}
    assert program_folders(root) - services == SHARED_PROGRAMS


def test_the_release_names_the_image_folder_of_each_component(root: Path) -> None:
    checks = 0
    release = yaml.safe_load((root / "releases/2025.1.yaml").read_text(encoding="utf-8"))
    for name, component in release["profiles"]["debian"]["components"].items():
        image = str(component["image"]).rpartition("/")[2].partition(":")[0]
        checks += 1
        assert (root / "images" / image / "Containerfile").exists(), name
    assert checks


def test_components_of_a_service_are_in_the_release(root: Path) -> None:
    checks = 0
    release = yaml.safe_load((root / "releases/2025.1.yaml").read_text(encoding="utf-8"))
    components = release["profiles"]["debian"]["components"]
    for service in CLOUD_SERVICES:
        # Of others, the spec decides which ones they are.
        if isinstance(programs := template_of(service).programs, Mapping):
            checks += 1
            assert set(programs) <= set(components)
    assert checks
