"""No program of a service starts before its schema is there: goldens hold objects, and not what they wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import Step
from openstack_operator.planned import Planned
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load
from tests.fields import ROOT

FOLDER = ROOT / "src" / "openstack_operator" / "services"
CASES = [path for path in sorted(FOLDER.glob("*/cases/*.yaml")) if not path.stem.endswith(".golden")]
SCHEMA = {"Schema", "Bootstrap"}
"""Steps that make a schema; Keystone's also makes what nobody can log in without."""
RUNNING = {"Deployment", "StatefulSet", "DaemonSet"}
WITHOUT_DATABASE = {
    ("Neutron", "MetadataAgent"): "asks Neutron and Nova over HTTP",
    ("Nova", "Libvirt"): "runs guests, which know no database",
    ("Nova", "Metrics"): "asks libvirt",
    ("Designate", "Servers"): "get zones from the mini DNS",
}
"""Programs that may start without the schema, and why."""


def plans(case: Path) -> Iterator[Planned]:
    """Yield the plans with a schema among those of a case."""
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), password="drawn")
    for planned in paper.render(load(case), "openstack"):
        if planned.plan and any(step.name in SCHEMA for step in planned.plan):
            yield planned


def early(planned: Planned) -> Iterator[tuple[str, str]]:
    """Yield kind and step of each program that may start before the schema."""
    for step in planned.plan or ():
        if any(obj["kind"] in RUNNING for obj in step.objects) and not SCHEMA & earlier(step):
            yield planned.id.kind.partition(".")[0], step.name


def earlier(step: Step) -> set[str]:
    """Return the names of all steps that have to be ready before this one."""
    return {step.name for step in step.after}.union(*map(earlier, step.after))


@pytest.mark.seconds
@pytest.mark.parametrize("case", CASES, ids=[f"{path.parent.parent.name}/{path.stem}" for path in CASES])
def test_no_program_starts_before_its_schema(case: Path) -> None:
    assert {program for planned in plans(case) for program in early(planned)} <= WITHOUT_DATABASE.keys()


def test_every_service_with_a_schema_is_looked_at() -> None:
    full = FOLDER / "controlplane" / "cases" / "full.yaml"
    kinds = {planned.id.kind for planned in plans(full)}
    assert kinds >= {"Barbican", "Cinder", "Designate", "Glance", "Heat", "Keystone", "Neutron", "Nova", "Octavia"}


def test_a_program_that_waits_for_nothing_is_seen() -> None:
    [planned] = plans(FOLDER / "placement" / "cases" / "minimal.yaml")
    assert planned.plan
    program = next(step for step in planned.plan if any(obj["kind"] in RUNNING for obj in step.objects))
    assert "Schema" in earlier(program)
    assert earlier(replace(program, after=())) == set()
