"""Defaults in words."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.api import default_text, split_default, with_default

FIELDS = {
    "size": {"default": 3},
    "name": {},
    "inner": {"default": {"on": True}, "properties": {"on": {"default": True}}},
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, ""),
        ({"default": None}, ""),
        ({"default": ""}, ""),
        ({"default": []}, ""),
        ({"default": {}}, ""),
        ({"default": False}, "false"),
        ({"default": 0}, "0"),
        ({"default": 0.5}, "0.5"),
        ({"default": "0 0 * * 0"}, "0 0 * * 0"),
        ({"default": ["a", "b"]}, '["a", "b"]'),
        ({"default": {"a": "b"}}, '{"a": "b"}'),
        # What the fields say of themselves.
        ({"default": {"size": 3, "inner": {"on": True}}, "properties": FIELDS}, ""),
        ({"default": {"size": 3, "labels": {}}, "properties": FIELDS}, ""),
        # And what they do not.
        ({"default": {"size": 4, "inner": {"on": True}}, "properties": FIELDS}, '{"size": 4}'),
        ({"default": {"size": 3, "inner": {"on": False}}, "properties": FIELDS}, '{"inner": {"on": false}}'),
        ({"default": {"size": 3, "name": "x"}, "properties": FIELDS}, '{"name": "x"}'),
    ],
)
def test_the_text_of_a_default(schema: dict[str, Any], text: str) -> None:
    assert default_text(schema) == text


@pytest.mark.parametrize("text", ["", "Number of pods.", "Image. Of a registry."])
@pytest.mark.parametrize("default", ["", "1", "1.5", '{"a": "b. c."}', "0 0 * * 0"])
def test_a_default_is_read_as_it_was_said(text: str, default: str) -> None:
    assert split_default(with_default(text, default)) == (text, default)
