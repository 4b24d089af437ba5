"""Configuration as data: layers, and files oslo.config reads back as they were meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from openstack_operator import oslo
from tests.searches import examples

LETTERS = "abcdefghijklmnopqrstuvwxyz"
# An expression would say the same, and takes twice as long.
NAMES = st.builds(str.__add__, st.sampled_from(LETTERS), st.text(f"{LETTERS}0123456789_", max_size=8))
SECTIONS = st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers() | st.text(max_size=5), max_size=3), max_size=3)


@given(SECTIONS, SECTIONS)
def test_later_layers_win(one: Any, other: Any) -> None:
    merged = oslo.merge(one, other)
    for section, options in merged.items():
        for option, value in options.items():
            expected = other.get(section, {}).get(option, one.get(section, {}).get(option))
            assert value == expected
    assert {s: set(o) for s, o in merged.items()} == {
        s: set(one.get(s, {})) | set(other.get(s, {})) for s in {*one, *other}
    }


@given(SECTIONS, SECTIONS, SECTIONS)
def test_layers_may_be_merged_in_any_grouping(one: Any, two: Any, three: Any) -> None:
    assert (
        oslo.merge(oslo.merge(one, two), three)
        == oslo.merge(one, oslo.merge(two, three))
        == oslo.merge(one, two, three)
    )


@pytest.mark.seconds
@given(SECTIONS, SECTIONS)
def test_merging_changes_no_layer(one: Any, other: Any) -> None:
    before = {section: dict(options) for section, options in one.items()}
    oslo.merge(one, other)
    assert one == before


@given(SECTIONS, SECTIONS)
def test_overlap_names_what_both_set(one: Any, other: Any) -> None:
    assert oslo.overlap(one, other) == oslo.overlap(other, one)
    assert not oslo.overlap(one, {})
    for name in oslo.overlap(one, other):
        section, _, option = name.partition(".")
        assert option in one[section]
        assert option in other[section]


@given(SECTIONS)
def test_equal_options_give_equal_bytes(sections: Any) -> None:
    shuffled = {section: dict(reversed(options.items())) for section, options in reversed(sections.items())}
    assert oslo.render(sections) == oslo.render(shuffled)


def read(path: Path, text: str, option: cfg.Opt, group: str = "g") -> Any:
    """The value oslo.config finds in a file."""
    file = path / "x.conf"
    file.write_text(text, encoding="utf-8")
    conf = cfg.ConfigOpts()
    conf.register_opt(option, group=group)
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    return conf[group][option.dest]


# A file is lines: control characters other than a line break have no place in one.
WORDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S"), exclude_characters="$"), min_size=1, max_size=20
)
QUICK = settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(st.lists(WORDS.filter(lambda word: word[0] not in "'\"" and word.strip() == word), min_size=1, max_size=3))
def test_text_comes_back(tmp_path: Path, words: list[str]) -> None:
    text = " ".join(words)
    rendered = oslo.render({"g": {"o": text}})
    assert read(tmp_path, rendered, cfg.StrOpt("o")) == text


# Passwords with what oslo.config has a meaning for; any of them may be a user's.
PASSWORDS = st.text("ab \\$\"'{}#=%", max_size=8)


@QUICK
@given(PASSWORDS)
@example("pa$word")
@example("pa$$word")
@example("pa\\$word")
@example("${o}")
@example('"quoted"')
@example(" spaced ")
@example("'")
def test_a_password_comes_back(tmp_path: Path, password: str) -> None:
    rendered = oslo.render({"g": {"o": oslo.Verbatim(password)}})
    assert read(tmp_path, rendered, cfg.StrOpt("o")) == password


def test_a_password_loses_the_line_breaks_at_its_end(tmp_path: Path) -> None:
    rendered = oslo.render({"g": {"o": oslo.Verbatim('"pa$s" \r\n'), "p": "x"}})
    assert read(tmp_path, rendered, cfg.StrOpt("o")) == '"pa$s" '
    assert read(tmp_path, rendered, cfg.StrOpt("p")) == "x"


@QUICK
@given(st.integers(-(2**63), 2**63))
def test_numbers_come_back(tmp_path: Path, number: int) -> None:
    assert read(tmp_path, oslo.render({"g": {"o": number}}), cfg.IntOpt("o")) == number


@pytest.mark.parametrize("value", [True, False])
def test_booleans_come_back(tmp_path: Path, value: bool) -> None:
    assert read(tmp_path, oslo.render({"g": {"o": value}}), cfg.BoolOpt("o")) is value


def test_a_list_is_one_line_an_entry(tmp_path: Path) -> None:
    rendered = oslo.render({"g": {"o": ["a", "b, c"]}})
    assert read(tmp_path, rendered, cfg.MultiStrOpt("o")) == ["a", "b, c"]


@pytest.mark.security
@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("kind", [str, oslo.Verbatim])
def test_a_line_break_starts_no_new_option(tmp_path: Path, line_break: str, kind: type[str]) -> None:
    rendered = oslo.render({"g": {"o": kind(f"first{line_break}admin_token = stolen"), "p": "x"}})
    assert "stolen" in read(tmp_path, rendered, cfg.StrOpt("o"))
    assert read(tmp_path, rendered, cfg.StrOpt("admin_token")) is None


def test_default_comes_first() -> None:
    assert oslo.render({"a": {"x": 1}, "DEFAULT": {"y": 2}}) == "[DEFAULT]\ny = 2\n\n[a]\nx = 1\n"
