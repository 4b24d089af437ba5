"""The page of conditions lists what plans report, kind by kind, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from openstack_operator.generate.condition_types import OF_MANY_KINDS
from openstack_operator.kube import POD_REASONS
from openstack_operator.parts.run.new_images import NEW_IMAGES
from openstack_operator.plan import (
    CONDITION_TYPES,
    PAUSED,
    Plan,
    State,
    Verdict,
    condition_fault,
    condition_type,
    conditions,
)

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "conditions.md").read_text(encoding="utf-8")
TABLES = PAGE.partition("<!-- conditions -->")[2].partition("<!-- end -->")[0]


def rows() -> dict[str, list[str]]:
    """Conditions by kind, from the page, as often as they are there."""
    sections = re.split(r"^### (\w+)$", TABLES, flags=re.MULTILINE)[1:]
    return {
        kind: re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        for kind, text in zip(sections[::2], sections[1::2], strict=True)
    }


def listed() -> dict[str, set[str]]:
    """Conditions by kind, from the page."""
    return {kind: set(types) for kind, types in rows().items()}


def test_every_condition_is_described_once() -> None:
    assert {kind: types for kind, types in rows().items() if len(types) != len(set(types))} == {}


def differences(written: Mapping[str, set[str]]) -> list[str]:
    """Return each condition that is written down and not reported by the plans of a case, or the reverse."""
    found = {kind: set(types) for kind, types in CONDITION_TYPES.items()}
    return [
        *(f"lacks {kind} {type_}" for kind in found for type_ in sorted(found[kind] - written.get(kind, set()))),
        *(f"has {kind} {type_}" for kind in written for type_ in sorted(written[kind] - found.get(kind, set()))),
    ]


def test_every_condition_is_described() -> None:
    hint = "docs/reference/conditions.md has to list the conditions of all cases; one of a new field needs a case"
    assert not differences(listed()), hint


def test_fields_may_wait_for_each_condition() -> None:
    assert all(not condition_fault("Keystone", type_) for type_ in (*CONDITION_TYPES["Keystone"], *OF_MANY_KINDS))
    assert condition_fault("Keystone", "APIReay") == ("Keystone has no condition 'APIReay'; did you mean APIReady?")


def test_the_conditions_of_all_kinds_are_described() -> None:
    assert set(conditions(Plan(), {})) == {"Ready"}
    for name in ("Ready", "Reconciling", "Stalled", PAUSED, condition_type(NEW_IMAGES), *OF_MANY_KINDS):
        assert f"| `{name}` |" in PAGE


def test_every_reason_is_described() -> None:
    """Reasons are written in CamelCase literals; those of states follow from their names."""
    states = {Verdict(state).cause for state in State} - {"Failed"}
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = {"InvalidSpec", "MissingReference", "Unsupported", "JobFailed", "VolumeLost", "Deleting", "InternalError"}
    named |= {"RecoveryInProgress", "Unreachable", "KeyRefused", "MissingPool", "Unhealthy", "RookFailed"}
    named |= {
        "IssuerFailed",
        "Trusting",
        "Renewing",
        "Idle",
        "Pending",
        "Preparing",
        "Moving",
        "TestsFailed",
        "RunFailed",
        "NodesTaken",
    }
    named |= {"Inconsistent", "InvalidOptions", "DeprecatedOptions", "OptionsValid", "UnknownOptions"}
    named |= {*POD_REASONS, "ProgressDeadlineExceeded"}
    assert all(f'"{reason}"' in source for reason in named)
    for reason in states | named:
        assert f"| `{reason}` |" in PAGE
