"""Whatever a definition lets in becomes a plan or an error that names a field: never a fault of the operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import count
from operator import itemgetter
from pathlib import Path
from random import Random
from re import _parser as parser  # pyright: ignore
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openstack_operator.api import structural
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object
from openstack_operator.plan import Release, SpecError
from openstack_operator.plan.service import Service
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.placement.model import PlacementSpec
from tests.searches import IS_LONG, examples

ROOT = Path(__file__).parent.parent.parent
FILES = ReleaseFiles(ROOT / "releases")

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)
# What the operator itself looks into on its way to where the API server checks it.
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": ANYTHING
        | st.fixed_dictionaries({"requiredDuringSchedulingIgnoredDuringExecution": ANYTHING})
        | st.fixed_dictionaries(
            {"requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries({"nodeSelectorTerms": ANYTHING})}
        )
    },
)


def values(schema: Mapping[str, Any], name: str = "") -> st.SearchStrategy[Any]:
    """What the schema takes, as the API server would hand it on; CEL rules are left out."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if name == "affinity":
        return AFFINITY
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from([0, 2, "100m", "1Gi", "2.5"])
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        return st.dictionaries(st.text(max_size=8), ANYTHING, max_size=2) if schema.get("type") else ANYTHING
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _objects(schema)
        case "object":
            keys = st.text(max_size=8) | st.sampled_from(["DEFAULT", "database", "Database", "mysqld"])
            return st.dictionaries(keys, values(schema["additionalProperties"]), max_size=2)
        case "array":
            keys = schema.get("x-kubernetes-list-map-keys")
            unique = itemgetter(*keys) if keys else None
            low, high = schema.get("minItems", 0), min(schema.get("maxItems", 3), 3)
            return st.lists(values(schema["items"]), min_size=low, max_size=high, unique_by=unique)
        case "integer":
            return st.integers(schema.get("minimum", -9), schema.get("maximum", 9))
        case "boolean":
            return st.booleans()
        case _:
            longest = min(schema.get("maxLength", 20), 40)
            if "pattern" in schema:
                return matching(schema["pattern"], longest)
            return st.text(min_size=schema.get("minLength", 0), max_size=longest)


@cache
def matching(pattern: str, longest: int) -> st.SearchStrategy[str]:
    """Texts that an expression matches as a whole. Each is drawn by one number: to draw each character from Hypothesis
    took three quarters of the time that these tests take.
    """
    parts, expression = parser.parse(pattern), re.compile(pattern)

    def text(number: int) -> str:
        random = Random(number)
        tries = ("".join(_characters(parts, random)) for _ in range(1_000))
        return next(each for each in tries if len(each) <= longest and expression.fullmatch(each))

    return st.integers(0, 2**64).map(text)


ALPHABET = "aB0 -_./:@%=,;\"'\\{}[]()<>#$&*+!?|~\n\té漢\x00"
"""What is tried where an expression takes almost any character."""
MANY = 4
"""Repetitions where an expression sets no bound; most of what is longer does not fit into a field."""


def _characters(parts: Iterable[tuple[Any, Any]], random: Random) -> Iterator[str]:
    """One of the texts that the parts of an expression match; anchors and what is looked ahead for are left out."""
    for code, argument in parts:
        match str(code):
            case "LITERAL":
                yield chr(argument)
            case "NOT_LITERAL" | "ANY":
                yield random.choice([each for each in ALPHABET if argument is None or each != chr(argument)])
            case "IN":
                yield random.choice(_class(argument))
            case "BRANCH":
                yield from _characters(random.choice(argument[1]), random)
            case "SUBPATTERN":
                yield from _characters(argument[-1], random)
            case "MAX_REPEAT" | "MIN_REPEAT":
                low, high, inner = argument
                for _ in range(random.randint(low, min(int(high), max(low, MANY)))):
                    yield from _characters(inner, random)
            case "AT" | "ASSERT" | "ASSERT_NOT":
                pass
            case unknown:
                raise LookupError(f"no text is drawn for {unknown}")


def _class(members: Iterable[tuple[Any, Any]]) -> list[str]:
    """Characters of a class: of a negated one those of the alphabet that are not in it."""
    sets = {"CATEGORY_DIGIT": "0179", "CATEGORY_WORD": "aZ0_é", "CATEGORY_SPACE": " \t\n"}
    sets |= {"CATEGORY_NOT_SPACE": "aZ0_-./漢", "CATEGORY_NOT_DIGIT": "a ", "CATEGORY_NOT_WORD": "-. /"}
    characters: list[str] = []
    negated = False
    for code, argument in members:
        match str(code):
            case "NEGATE":
                negated = True
            case "LITERAL":
                characters.append(chr(argument))
            case "RANGE":
                low, high = argument
                characters += map(chr, range(low, min(high, low + 128) + 1))
            case _:
                characters += sets[str(argument)]
    return [each for each in ALPHABET if each not in characters] if negated else characters


def _objects(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    fields = {name: values(field, name) for name, field in schema["properties"].items()}
    required = {name: fields[name] for name in schema.get("required", ())}
    # An object of all defaults is what most of a spec is.
    few = st.fixed_dictionaries(required, optional={name: f for name, f in fields.items() if name not in required})
    return few if required else st.just({}) | few


def release(_: object) -> Release:
    """Which one a spec names is not the question here."""
    return FILES(PlacementSpec())


@pytest.mark.seconds
@pytest.mark.search
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.resource.handle)
def test_every_spec_has_an_answer(service: Service) -> None:
    # What it refers to is planned once; each example has a name of its own.
    paper, numbers = OfflineCluster(SERVICES, ACTUATORS, release, password="drawn"), count()

    @settings(
        max_examples=examples(15),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        derandomize=not IS_LONG,
    )
    @given(values(structural(service.resource.spec)))
    def answered(spec: Object) -> None:
        manifest = {
            "apiVersion": service.resource.api_version,
            "kind": service.resource.kind,
            "metadata": {"name": f"x{next(numbers)}"},
            "spec": spec,
        }
        try:
            next(paper.render([manifest], "openstack"))
        except SpecError as error:
            assert error.path.startswith("spec")

    answered()
