"""Specs changed at random: each state is reached, left again without a trace, and no mistake harms what runs."""

from __future__ import annotations

from functools import partial

import pytest

from openstack_operator.cli.offline.schema import with_defaults
from openstack_operator.registry import SERVICES
from tests import search_processes
from tests.searches import IS_LONG

from .bases import bases
from .oracles import message_problems
from .planted import prune_inputs_at_once
from .search import Walk
from .shrink import deltas
from .world import TOO_MUCH, Variant, World

SEEDS, BLOCKS, KINDS = (400, 8, ()) if IS_LONG else (10, 1, ("--small",))
carry_out = partial(search_processes.carry_out, "tests.spec_search")


@pytest.mark.search
@pytest.mark.parametrize("block", range(BLOCKS))
def test_specs_are_reached_left_and_survived(block: int) -> None:
    size = SEEDS // BLOCKS
    carry_out(*KINDS, block * size, (block + 1) * size - 1)


@pytest.mark.search
def test_planted_faults_are_found() -> None:
    carry_out("planted")


def plant_nothing(world: World) -> None:
    """Leave the operator as it is."""
    del world


@pytest.mark.parametrize(("variant", "is_harmed"), [(plant_nothing, False), (prune_inputs_at_once, True)])
def test_a_certificate_outlives_a_roll_out_that_is_stuck(variant: Variant, is_harmed: bool) -> None:
    base = next(each for each in bases("Glance") if (each.spec.get("tls") or {}).get("pkiRef"))
    walk = Walk(base, variant)
    stuck = {"resources": {"requests": {"cpu": TOO_MUCH}}}
    try:
        assert walk.go(base.spec) == []
        plain = {name: value for name, value in base.spec.items() if name != "tls"}
        problems = walk.go(with_defaults(walk.schema, {**plain, **stuck}))
    finally:
        walk.close()
    assert walk.answer == "waiting"
    assert problems == (["secrets/glance-api-tls is gone"] if is_harmed else [])


@pytest.mark.parametrize("handle", [each.resource.handle for each in SERVICES])
def test_each_kind_has_a_spec_to_begin_with(handle: str) -> None:
    assert bases(handle)


@pytest.mark.parametrize(
    ("verdict", "problem"),
    [
        (("False", "InvalidSpec", "spec.replicas: too many; use at most 7"), ""),
        (("False", "InvalidSpec", "a value is wrong"), "names no field"),
        (("False", "MissingReference", ""), "says nothing"),
        (("Unknown", "InternalError", "a bug of the operator"), "inside of the operator"),
        (("False", "InvalidSpec", "spec.size: <class 'int'> expected"), "inside of the operator"),
    ],
)
def test_refusals_that_help_nobody_are_problems(verdict: tuple[str, str, str], problem: str) -> None:
    problems = list(message_problems({"Ready": verdict}))
    assert bool(problems) == bool(problem)
    assert problem in "".join(problems)


def test_specs_differ_in_the_fields_that_lead_from_one_to_the_other() -> None:
    old = {"a": {"b": 1, "c": 2}, "d": [1]}
    fields = list(deltas(old, new := {"a": {"b": 3}, "d": [1], "e": 4}))
    assert [each.path for each in fields] == ["spec.a.b", "spec.a.c", "spec.e"]
    for field in fields:
        old = field.apply({}, old)
    assert old == new
