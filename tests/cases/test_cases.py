"""Every service's manifests become exactly the objects that stand beside them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import IRREPLACEABLE, REMEMBERED
from openstack_operator.plan import Object
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import dump_all, load

ROOT = Path(__file__).parent.parent.parent
FOLDERS = sorted((ROOT / "src" / "openstack_operator" / "services").glob("*/cases"))
CASES = [path for folder in FOLDERS for path in sorted(folder.glob("*.yaml")) if not path.stem.endswith(".golden")]


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_case(case: Path, update: bool) -> None:
    golden = case.with_suffix(".golden.yaml")
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), password="drawn")
    # The first is the resource the case is about; what its own children become stands in their goldens.
    planned = next(paper.render(load(case), "openstack"))
    text = dump_all([without_programs(obj) for obj in planned.objects])
    if update:
        golden.write_text(text, encoding="utf-8")
    assert golden.exists(), f"there is no {golden.name} yet; make it with `pytest tests/cases --update` and read it"
    assert text == golden.read_text(encoding="utf-8"), "the plan changed; read the diff, then rewrite with --update"


def without_programs(obj: Object) -> Object:
    """A program that is shipped stands in a file of its own; a golden of it would only be a copy."""
    if obj["kind"] != "Secret" or not any(name.endswith(".py") for name in obj["data"]):
        return obj
    short = base64.b64encode(b"(a file of this package)").decode()
    return {**obj, "data": {name: short if name.endswith(".py") else text for name, text in obj["data"].items()}}


def test_every_service_has_cases() -> None:
    named = {service.plan.__module__.rpartition(".")[0].rpartition(".")[2] for service in SERVICES}
    assert named == {case.parent.parent.name for case in CASES}


def test_no_golden_without_its_case() -> None:
    goldens = {path for folder in FOLDERS for path in folder.glob("*.golden.yaml")}
    # A case without its golden fails in `test_case`, which says how to make it.
    orphans = goldens - {case.with_suffix(".golden.yaml") for case in CASES}
    assert not orphans, "delete these, or give each its manifest"


def test_at_most_three_cases_a_service() -> None:
    for folder in FOLDERS:
        cases = [case.stem for case in CASES if case.parent == folder]
        assert len(cases) <= 3, f"{folder.parent.name}: goldens are for reading diffs; assert special rules instead"


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_irreplaceable_passwords_return_when_their_secret_is_deleted(case: Path) -> None:
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), password="drawn")
    planned = next(paper.render(load(case), "openstack"))
    drawn = base64.b64encode(b"drawn").decode()
    secrets = [obj for obj in planned.objects if obj["kind"] == "Secret" and drawn in obj["data"].values()]
    kept = {IRREPLACEABLE, REMEMBERED}
    lost = {obj["metadata"]["name"] for obj in secrets if not kept & {*obj["metadata"].get("annotations", {})}}
    # Has a copy of what is in keystone-federation-keys.
    assert lost <= {"keystone-federation"}


def test_only_a_process_with_one_thread_is_ended_again() -> None:
    """uWSGI kills one with several in the middle of a request, which its other thread still accepted."""
    commands = [
        container["command"]
        for case in CASES
        for obj in load(case.with_suffix(".golden.yaml"))
        if obj["kind"] in {"Deployment", "StatefulSet"}
        for container in obj["spec"]["template"]["spec"]["containers"]
        if "--cheaper" in container.get("command", ())
    ]
    assert commands
    for command in commands:
        assert command[command.index("--threads") + 1] == "1", command
