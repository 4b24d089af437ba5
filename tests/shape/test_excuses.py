"""No test passes without having checked anything (tests/excuses.py), but for those below."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests import excuses

HYPOTHESIS = "hypothesis calls it with many inputs, of which some give nothing to check"
PARAMETERS = "each of its parameters led to a check when pytest counted them (enable_assertion_pass_hook)"
SOME = "a kind that makes no such object has nothing to check; pytest counted checks for most of its parameters"
EXCEPTIONS = {
    "test_any_answer_is_an_outcome": HYPOTHESIS,
    "test_any_bytes_are_cut_or_refused": HYPOTHESIS,
    "test_a_request_sees_all_that_was_acknowledged_before_it_began": HYPOTHESIS,
    "test_different_names_stay_different": HYPOTHESIS,
    "test_every_spec_has_an_answer": HYPOTHESIS,
    "test_a_value_is_masked_in_each_encoding": HYPOTHESIS,
    "test_a_short_value_is_masked_as_a_word_and_in_each_encoding": HYPOTHESIS,
    "test_no_value_begins_an_option_of_its_own": HYPOTHESIS,
    "test_a_name_of_an_object_is_one_segment": HYPOTHESIS,
    "test_a_name_of_a_server_is_one_segment": HYPOTHESIS,
    "test_keys_of_secrets_exist": SOME,
    "test_services_reach_pods": SOME,
    "test_names_and_labels_fit": PARAMETERS,
    "test_a_lone_or_early_member_starts_nothing_without_proof": PARAMETERS,
    "test_a_namespace_leads_nowhere_else": PARAMETERS,
    "test_a_node_has_one_nova_compute": PARAMETERS,
    "test_a_release_file_stays_in_its_folder": PARAMETERS,
    "test_a_single_member_goes_on_after_any_loss_once_all_are_heard": PARAMETERS,
    "test_each_value_has_a_comment_and_a_schema": PARAMETERS,
    "test_egress_of_each_pod_is_in_one_policy_in_all_cases": SOME,
    "test_every_definition_is_structural": PARAMETERS,
    "test_every_placeholder_of_a_command_is_filled_in": PARAMETERS,
    "test_everything_that_outlives_its_owner_is_marked": SOME,
    "test_no_config_sets_what_a_pod_has_in_its_environment": SOME,
    "test_no_rule_says_a_thing_twice": PARAMETERS,
    "test_objects_that_an_earlier_version_stored_are_accepted": PARAMETERS,
    "test_something_happens_wherever_everybody_is_heard": PARAMETERS,
    "test_without_tls_there_is_nothing_to_verify": PARAMETERS,
    "test_a_query_finds_its_page": "without node, the index of the site is looked at in place of its program",
}
"""Why a test may have an excuse, by its name."""


@cache
def excuses_below(folder: Path) -> list[tuple[Path, excuses.Excuse]]:
    return [(path, excuse) for path in sorted(folder.rglob("*.py")) for excuse in excuses.of_file(path)]


@pytest.mark.seconds
@pytest.mark.parametrize("folder", ["tests", "tools"])
def test_no_test_passes_without_a_check(root: Path, folder: str) -> None:
    found = excuses_below(root / folder)
    assert [f"{path}: {excuse}" for path, excuse in found if excuse.function not in EXCEPTIONS] == []


@pytest.mark.seconds
def test_each_exception_is_needed(root: Path) -> None:
    assert EXCEPTIONS.keys() <= {excuse.function for _, excuse in excuses_below(root / "tests")}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("    figure = measure()\n    pytest.skip('too slow')", "it skips itself"),
        ("    if slow():\n        return\n    assert measure() < 2", "it returns before it has checked anything"),
        ("    for gap in gaps():\n        assert gap < 2", "each assertion is in a loop that may be empty"),
        ("    if fast():\n        assert measure() < 2", "each assertion is in a loop that may be empty"),
        ("    try:\n        assert measure() < 2\n    except Exception:\n        pass", "a failed assertion is caught"),
        ("    with suppress(AssertionError):\n        assert measure() < 2", "a failed assertion is caught"),
        ("    subprocess.run(words, check=False)\n    assert True", "nobody looks at the result of a command"),
    ],
)
def test_an_excuse_is_found(body: str, reason: str) -> None:
    assert reason in " ".join(map(str, excuses.of_source(f"def test_it():\n{body}\n")))


@pytest.mark.parametrize(
    "body",
    [
        "    for gap in (1, 2):\n        assert gap < 3",
        "    gaps = measure()\n    assert gaps\n    for gap in gaps:\n        assert gap < 2",
        "    if fast():\n        assert measure() < 2\n    else:\n        assert measure() < 3",
        "    assert measure() < 2\n    if slow():\n        return\n    assert measure() < 1",
        "    with pytest.raises(ValueError):\n        measure()",
    ],
)
def test_a_test_that_checks_has_no_excuse(body: str) -> None:
    assert [*excuses.of_source(f"def test_it():\n{body}\n")] == []
