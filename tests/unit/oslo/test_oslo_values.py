"""Values of options are right or wrong by the rules of the real oslo.config, type by type."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oslo_config import cfg, types

from images.list_options import describe, describe_type
from openstack_operator import oslo
from openstack_operator.oslo import values
from tests.searches import examples

NUMBERS = st.integers(-70_000, 70_000).map(str) | st.floats().map(str)
WORDS = st.sampled_from(
    [
        "",
        "a",
        "B",
        "auto",
        "true",
        "False",
        "ON",
        "yes",
        "0",
        "1",
        "nan",
        "inf",
        "1e3",
        "1_000",
        "+5",
        "0x10",
        "x y",
        '"a"',
        "'",
    ]
)
ADDRESSES = (
    st.ip_addresses().map(str)
    | st.sampled_from(
        ["01.2.3.4", "1.2.3", "1.2.3.256", "::", "::1%eth0", "1::2::3", "::ffff:1.2.3.4", "::1.2.3.999", "1.2.3.4/8"]
    )
    | st.text("0123456789abcdef:.", max_size=12)
)
HOSTS = st.text("aB9-_.é", max_size=12) | st.sampled_from(
    ["a" * 63, "a" * 64, ".".join(["a" * 63] * 4), "a.example.org.", "example.1", "-a", "a-", "a..b", "a."]
)
URIS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["http:", "HTTPS:", "telnet:", "1a:", "", "a+b:"]),
    st.sampled_from(["//", "/", "", "//u:p@", "//%41@", "//@"]),
    ADDRESSES | HOSTS | ADDRESSES.map("[{}]".format) | st.sampled_from(["[v1.a:b]", "[V1.a]", "[::1%25e]", "[::1%25]"]),
    st.sampled_from(["", ":", ":80", ":123456", ":x"]),
    st.sampled_from(["", "/", "//a", "/a%41;b@:", "/%4", "\\a", "?q", "/a?b#c d", "/é", "/[a]", "/?[a]"]),
)
TEXTS = NUMBERS | WORDS | ADDRESSES | HOSTS | st.text(f"{string.ascii_letters[:8]}015.,:-[]{{}}\"' ", max_size=10)
LIMITS = st.none() | st.integers(-5, 10)


def between(low: Any, high: Any) -> bool:
    """True if both limits can be those of one type."""
    return low is None or high is None or low <= high


LIMIT_PAIRS = st.tuples(LIMITS, LIMITS).filter(lambda pair: between(*pair))
STRINGS = (
    st.builds(types.String, quotes=st.booleans(), max_length=st.none() | st.integers(0, 6))
    | st.builds(types.String, choices=st.just(["auto", "a", "", "B"]), ignore_case=st.booleans())
    | st.builds(types.String, regex=st.sampled_from(["^a", re.compile("b$", re.IGNORECASE)]), ignore_case=st.booleans())
)
INTEGERS = LIMIT_PAIRS.map(lambda pair: types.Integer(*pair)) | st.just(types.Integer(choices=[0, 1, 5]))
FLOATS = LIMIT_PAIRS.map(lambda pair: types.Float(*pair))
PORTS = st.sampled_from([types.Port(), types.Port(min=1, max=1024), types.Port(choices=[0, 5])])
VERSIONS = st.sampled_from([None, 4, 6])
PLAIN = (
    STRINGS
    | INTEGERS
    | FLOATS
    | PORTS
    | st.just(types.Boolean())
    | LIMIT_PAIRS.map(lambda pair: types.Range(*pair))
    | st.builds(types.IPAddress, VERSIONS)
    | st.builds(types.HostAddress, VERSIONS)
    | st.builds(types.HostDomain, VERSIONS)
    | st.just(types.Hostname())
)
LISTS = st.builds(types.List, PLAIN, bounds=st.booleans(), min_length=st.integers(0, 2))
DICTS = st.builds(
    types.Dict,
    PLAIN | LISTS,
    bounds=st.booleans(),
    min_length=st.integers(0, 2),
    key_value_separator=st.sampled_from([":", "=", "->"]),
)


def oslo_reads(type_: Any, text: str) -> bool:
    """Return what oslo.config itself says."""
    try:
        type_(text)
    except ValueError:
        return False
    return True


@given(PLAIN, TEXTS)
def test_values_without_parts_are_read_as_by_oslo_config(type_: Any, text: str) -> None:
    assert values.reads(describe_type(type_), text) == oslo_reads(type_, text)


@pytest.mark.parametrize("kind", [types.IPAddress, types.HostAddress, types.HostDomain])
@given(VERSIONS, ADDRESSES | HOSTS)
def test_addresses_are_read_as_by_oslo_config(kind: Any, version: Any, text: str) -> None:
    assert values.reads(describe_type(kind(version)), text) == oslo_reads(kind(version), text)


@given(st.sampled_from([None, ["http", "telnet"]]), st.sampled_from([None, 20]), URIS)
@example(None, None, "http://a/b?c\nd")
def test_uris_are_read_as_by_oslo_config(schemes: Any, longest: Any, text: str) -> None:
    type_ = types.URI(longest, schemes)
    assert values.reads(describe_type(type_), text) == oslo_reads(type_, text)


def joined(items: st.SearchStrategy[str], brackets: str) -> st.SearchStrategy[str]:
    """Texts of items with commas, some of them in brackets."""
    whole = st.lists(items, max_size=4).map(",".join)
    return whole | whole.map(lambda text: f"{brackets[0]}{text}{brackets[1]}")


@given(LISTS | st.builds(types.List, DICTS), joined(TEXTS, "[]"))
def test_lists_are_read_as_by_oslo_config(type_: Any, text: str) -> None:
    assert values.reads(describe_type(type_), text) == oslo_reads(type_, text)


PAIRS = st.builds("{}{}{}".format, st.sampled_from(["a", "b", "c ", ""]), st.sampled_from([":", "=", "->"]), TEXTS)


@given(DICTS, joined(PAIRS | TEXTS, "{}"))
def test_dictionaries_are_read_as_by_oslo_config(type_: Any, text: str) -> None:
    assert values.reads(describe_type(type_), text) == oslo_reads(type_, text)


LINES = st.text("ab1,\"' \\$\t\n", max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(LINES)
@example("a\n\nb")
@example('"a"')
@example("\\$a$$b$a")
def test_text_is_read_from_a_file_as_by_oslo_config(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.conf"
    path.write_text(oslo.render({"DEFAULT": {"option": text}}), encoding="utf-8")
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("option"), cfg.StrOpt("a", default="A"), cfg.StrOpt("b", default="B")])
    try:
        conf([], default_config_files=[str(path)])
    except cfg.ConfigFileParseError:
        assert values.has_gap(text)
        return
    assert not values.has_gap(text)
    read = values.parse_text(text)
    if read is None:
        # The name of an option, or of none: oslo.config fails on that.
        assert re.search(r"\$[ab]", text)
    else:
        assert read == conf.option


def test_a_program_fails_on_the_value_of_no_option(tmp_path: Path) -> None:
    """So a dollar sign in a password is named, unless it is escaped."""
    path = tmp_path / "a.conf"
    path.write_text(oslo.render({"DEFAULT": {"option": "pa$word"}}), encoding="utf-8")
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("option")])
    conf([], default_config_files=[str(path)])
    with pytest.raises(cfg.NoSuchOptError):
        _ = conf.option
    assert values.option_names("pa$word ${a.b} $$c \\$d $") == ["word", "a.b"]


def test_a_type_that_is_not_oslo_configs_own_takes_any_value() -> None:
    class Odd(types.String):
        """A type of a package, with rules of its own."""

        def __call__(self, value: Any) -> Any:
            raise ValueError

    class Named(types.Integer):
        """A type with the rules of oslo.config."""

    assert describe_type(Odd()) == {} == describe_type(str)
    assert values.reads({}, "anything")
    assert describe_type(Named(min=0)) == {"type": "Integer", "min": 0}


@pytest.mark.parametrize(
    ("option", "description"),
    [
        (cfg.FloatOpt("a", min=0.0), {"type": "Float", "min": 0.0}),
        (cfg.MultiStrOpt("a"), {"type": "MultiString", "multi": True}),
        (cfg.StrOpt("a", secret=True, mutable=True), {"type": "String", "secret": True, "mutable": True}),
        (
            cfg.BoolOpt("a", deprecated_for_removal=True, deprecated_reason="No\n  use.", deprecated_since="2024.1"),
            {"type": "Boolean", "removal": "No use.", "since": "2024.1"},
        ),
        (cfg.PortOpt("a"), {"type": "Port", "min": 0, "max": 65535}),
    ],
)
def test_the_list_describes_an_option(option: Any, description: dict[str, Any]) -> None:
    assert describe(option) == description


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (types.Float(min=0.0), "a number from 0.0"),
        (types.Integer(1, 5), "a whole number from 1 to 5"),
        (types.Integer(choices=[4, 6]), "one of 4, 6"),
        (types.Port(), "a port from 0 to 65535"),
        (types.Boolean(), "true or false"),
        (types.String(choices=["a", ""]), "one of a, ''"),
        (types.String(max_length=3), "text of at most 3 characters"),
        (types.String(regex="^a"), "text that matches ^a"),
        (types.URI(schemes=["http", "https"]), "a URL with http:// or https://"),
        (types.IPAddress(6), "an IP address (IPv6)"),
        (types.List(), "items with commas between them"),
        (
            types.List(types.Port(), bounds=True),
            "items, each a port from 0 to 65535, with commas between them, within [ and ]",
        ),
        (types.Dict(types.Boolean()), "pairs NAME:VALUE, each value true or false, with commas between them"),
        (types.Dict(min_length=1), "at least 1 pairs NAME:VALUE with commas between them"),
    ],
)
def test_types_of_options_are_described_in_words(type_: Any, text: str) -> None:
    assert values.describe(describe_type(type_)) == text
