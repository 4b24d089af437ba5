"""What is in a Secret is masked in whatever form a program writes it."""

from __future__ import annotations

import base64
import html
import json
import shlex
import textwrap
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from openstack_operator.cli.inspection.redaction import masked_values, redacted
from openstack_operator.kube.masking import MASK, Mask
from openstack_operator.kube.quotes import mask_passwords

pytestmark = pytest.mark.security


def secret(data: Mapping[str, str], **metadata: Any) -> dict[str, Any]:
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return {"metadata": {"name": "mine", **metadata}, "data": encoded}


def mask_of(text: str, key: str = "content") -> Mask:
    return Mask(masked_values([secret({key: text})]))


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def wrapped(text: str) -> str:
    return textwrap.indent("\n".join(textwrap.wrap(b64(f"{text} {'x' * 90}"), 20)), "    ")


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda text: quote(text, safe=""),
    "percent of a path": quote,
    "percent in lower case": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent and plus": quote_plus,
    "json": json.dumps,
    "json with letters": lambda text: json.dumps(text, ensure_ascii=False),
    "json with escapes": lambda text: "".join(
        f"\\u{int.from_bytes(text.encode('utf-16-be')[at : at + 2]):04x}"
        for at in range(0, len(text.encode("utf-16-be")), 2)
    ),
    "json with slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "json in json": lambda text: json.dumps(json.dumps({"a": text})),
    "python": repr,
    "bytes of python": lambda text: repr(text.encode()),
    "yaml": lambda text: yaml.safe_dump({"a": text}, width=10**6),
    "yaml with escapes": lambda text: yaml.safe_dump({"a": text}, default_style='"', width=10**6),
    "shell": shlex.quote,
    "shell with backslashes": lambda text: "".join(
        f"\\{letter}" if not letter.isalnum() else letter for letter in text
    ),
    "html": html.escape,
    "html by numbers": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in capitals": lambda text: text.encode().hex().upper(),
    "octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "base64": b64,
    "base64 of a line": lambda text: b64(f"{text}\n"),
    "base64 without padding": lambda text: b64(text).rstrip("="),
    "base64 of URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 of URLs without padding": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 of a login": lambda text: b64(f"admin:{text}"),
    "base64 of another login": lambda text: b64(f"nova:{text}"),
    "base64 of a third login": lambda text: b64(f"a:{text}\n"),
    "base64 of json": lambda text: b64(json.dumps({"password": text}, ensure_ascii=False)),
    "wrapped base64": wrapped,
    "percent of base64": lambda text: quote(b64(f"admin:{text}"), safe=""),
    "base64 in json": lambda text: json.dumps({"auth": b64(f"user:{text}")}),
    "hexadecimal of more": lambda text: f"{text}!".encode().hex(),
    "percent in json": lambda text: json.dumps(f"mysql://nova:{quote(text, safe='')}@db"),
    "twice percent": lambda text: quote(quote(text, safe=""), safe=""),
    "URL": lambda text: f"rabbit://nova:{quote(text, safe='')}@mq:5672//",
}
LETTERS = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Z"))
LONG = st.text(LETTERS, min_size=8, max_size=40)
SHORT = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=5, max_size=7)
PLACES = ("{}", "cannot use {} here", "a={}", "['{}']", "({})", "{{'a': '{}'}}", "x\n{}\ny")
WORDS = frozenset({"cannot", "password", "admin", "rabbit", "mysql"})


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(value=LONG, place=st.sampled_from(PLACES))
@example(value="pa'ss\"wörd/+ %&<>", place="{}")
@example(value="corr'ct-h\\rse😀", place="a={}")
def test_a_value_is_masked_in_each_encoding(encoding: str, value: str, place: str) -> None:
    if base64.b64decode(b64(value)).decode() in "".join(PLACES):
        return
    written = ENCODINGS[encoding](value)
    shown = mask_of(value).over(place.format(written))
    assert value not in shown
    assert written not in shown
    assert MASK in shown


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if not name.startswith("shell with")])
@given(value=SHORT)
@example(value="hunte")
@example(value="hunter2")
def test_a_short_value_is_masked_as_a_word_and_in_each_encoding(encoding: str, value: str) -> None:
    if value in WORDS or value.lower() in ("false", "xxxxx"):
        return
    written = ENCODINGS[encoding](value)
    shown = mask_of(value).over(f"cannot use {written}.")
    assert value not in shown
    assert written not in shown


@given(st.text("abcdefghijkmnpqrstuvwz", min_size=3, max_size=7).filter(lambda text: text not in ("true", "yes")))
def test_a_short_value_hides_no_part_of_a_word(value: str) -> None:
    mask = mask_of(value)
    assert mask.over(f"x{value}0 y{value}y") == f"x{value}0 y{value}y"
    assert mask.over(f"<{value}> {value}") == f"<{MASK}> {MASK}"


@given(LONG, st.sampled_from(["\n", " ", "\r\n", "\n\n"]))
def test_ends_of_lines_of_a_secret_do_not_count(value: str, end: str) -> None:
    """Editors and `kubectl create secret --from-file` leave them, and programs strip them."""
    assert value not in mask_of(value + end).over(f"cannot use <{value}>")
    assert value not in mask_of(end + value).over(f"cannot use <{value}>")


CONTENTS: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps({"auths": {"registry": {"username": "x", "password": text}}}),
    "json with letters": lambda text: json.dumps({"a": [{"b": text}]}, ensure_ascii=False, indent=2),
    "docker": lambda text: json.dumps({"auths": {"registry": {"auth": b64(f"x:{text}")}}}),
    "yaml": lambda text: yaml.safe_dump({"a": {"password": text}, "b": 1}, width=10**6, allow_unicode=True),
    "yaml list": lambda text: f"users:\n- name: x\n  password: {text}\n",
    "environment": lambda text: f"export USER=x\nexport DB_PASS='{text}'\n",
    "lines": lambda text: f"first-line\n{text}\nlast-line\n",
    "properties": lambda text: f"user=x\npassword = {text}\n",
    "clouds.yaml": lambda text: f"clouds:\n  x:\n    auth:\n      username: y\n      password: {text}\n",
    "key": lambda text: f"-----BEGIN PRIVATE KEY-----\n{b64(text * 3)}\n-----END PRIVATE KEY-----\n",
}
SIMPLE = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+/!", min_size=8, max_size=30).filter(
    lambda text: text[0].isalpha() and text[-1].isalnum()
)


@pytest.mark.parametrize("content", [name for name in CONTENTS if name not in ("docker", "key")])
@given(value=SIMPLE)
def test_a_value_within_a_value_is_masked(content: str, value: str) -> None:
    key = "clouds.yaml" if content == "clouds.yaml" else "content"
    mask = mask_of(CONTENTS[content](value), key)
    for written in (value, quote(value, safe=""), b64(f"user:{value}"), json.dumps(value)):
        shown = mask.over(f"cannot log in with <{written}>")
        assert value not in shown
        assert written not in shown


@given(SIMPLE)
def test_key_lines_and_registry_logins_are_masked(value: str) -> None:
    assert b64(value * 3) not in mask_of(CONTENTS["key"](value)).over(f"bad line {b64(value * 3)}")
    shown = mask_of(CONTENTS["docker"](value)).over(f"auth {b64(f'x:{value}')} -----BEGIN PRIVATE KEY-----")
    assert b64(f"x:{value}") not in shown
    assert "-----BEGIN PRIVATE KEY-----" in shown


def test_short_secrets_in_known_files_are_masked() -> None:
    mask = mask_of(CONTENTS["clouds.yaml"]("hunter2"), "clouds.yaml")
    assert mask.over("y used hunter2") == f"y used {MASK}"


def test_words_of_names_are_shown() -> None:
    """A cloud's database is called nova, and so is its password in a test."""
    mask = Mask(masked_values([secret({"password": "nova"})]), ["nova-api", "openstack"])
    assert mask.over("Nova/nova: nova-api, password=nova") == "Nova/nova: nova-api, password=***"


@given(st.text(LETTERS | st.sampled_from(" \n"), max_size=200))
def test_other_text_stays(text: str) -> None:
    shown = mask_of("correct-horse-battery").over(text)
    assert shown == mask_passwords(text)


@given(st.text(st.sampled_from("\\%&u0123456789abcdefx;#'\"\n "), max_size=60))
def test_any_escapes_are_read(text: str) -> None:
    mask_of("correct-horse").over(text)
    shown = mask_of("correct-horse").over(f"{text}correct-horse{text}")
    assert "correct-horse" not in shown


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mysql --password hunter2 -h db", "mysql --password *** -h db"),
        ("mysql --password=hunter2 -h db", "mysql --password=*** -h db"),
        ("openstack --os-password hunter2 list", "openstack --os-password *** list"),
        ("x --api-key 'hunter2 a' y", "x --api-key *** y"),
        ('["x", "--db-pass", "hunter2"]', '["x", "--db-pass", ***]'),
        ("['x', '--token', 'hunter2']", "['x', '--token', ***]"),
        ("DB_PASS=hunter2", "DB_PASS=***"),
        ("ADMIN_PW: hunter2", "ADMIN_PW: ***"),
        ("MYSQL_PWD=hunter2", "MYSQL_PWD=***"),
        ("passphrase = hunter2", "passphrase = ***"),
        ("--password --verbose", "--password --verbose"),
        ("compass: north", "compass: north"),
        ("bypass = 1", "bypass = 1"),
    ],
)
def test_values_named_like_secrets_are_masked(text: str, masked: str) -> None:
    assert mask_passwords(text) == masked


def test_variables_and_options_of_pods_are_masked_by_their_names() -> None:
    env = [{"name": name, "value": "hunter2"} for name in ("DB_PASS", "ADMIN_PW", "MYSQL_PWD", "OS_TOKEN", "API_KEY")]
    container = {"name": "x", "env": env, "args": ["run", "--password", "hunter2", "--verbose", "--api-key", "hunter2"]}
    shown = redacted({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, Mask([]))
    assert "hunter2" not in json.dumps(shown)
    assert shown["spec"]["containers"][0]["args"] == ["run", "--password", MASK, "--verbose", "--api-key", MASK]


def test_a_long_log_takes_as_long_as_it_is() -> None:
    """Each text is looked through a number of times that does not grow with it."""
    mask = Mask([f"value-{number}-{'x' * 20}" for number in range(50)])
    line = 'req-7f3a "GET /v3/a%20b?x=\\u0041" 200 YWRtaW46c2VjcmV0 value-7 0.1\n'
    text = line * 2000
    assert mask.over(text) == text
