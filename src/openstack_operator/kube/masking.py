"""The content of Secrets in a form that may be shown: configuration by its options, and everything else masked."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ..plan import Object
from .hidden_values import HiddenValues, replaced
from .objects import MANAGED_BY
from .quotes import mask_passwords, without_escapes

MASK = "***"
_SHORTEST_LINE = 8
"""Characters of a line of a longer value that is masked by itself."""
_LONGEST_FILE = 128 * 1024
"""Letters of a configuration file; a longer text is none, and takes no time."""
_HEADER = re.compile(r"\[(.+)\]")
_ENTRY = re.compile(r"(?:-\s{1,9})?(?:export\s{1,9})?[\"']?(?P<name>[\w.-]{1,64})[\"']?\s{0,9}[:=]\s{0,9}(?P<value>.*)")
"""A line of a file of settings in another form."""
_BLOCK = frozenset({"|", "|-", ">", ">-", "{", "["})
_OPTION = re.compile(r"(?P<name>[^=:\s](?:[^=:]*[^=:\s])?)\s*[=:]\s*(?P<value>.*)")
_SECRET_OPTION = ("pass", "secret", "token", "key", "connection", "transport_url", "credential", "hmac", "cookie")
"""Parts of the names of options that hold secrets."""
_SECRET_WORD = frozenset({"pw", "pwd", "pin", "kek", "otp", "login"})
"""The same, where a name has them as words of their own."""
_HARMLESS = frozenset({"true", "false", "none", "null", "yes", "True", "False", "None"})
"""Short values that hide nothing."""


def is_secret_option(name: str) -> bool:
    """Return True if an option of a configuration file, or a value of it (`pin[1]`), is a secret, as its name says."""
    text = name.lower()
    return any(part in text for part in _SECRET_OPTION) or not _SECRET_WORD.isdisjoint(re.split("[^a-z0-9]", text))


class Mask:
    """A mask over values that are secret, in any of the forms of `HiddenValues`."""

    def __init__(self, secrets: Iterable[str], names: Iterable[str] = ()) -> None:
        """Words of `names` are no secrets: a short value that is one of them is not masked."""
        words = {word for name in names for word in (name, *re.split(r"[^A-Za-z0-9]", name))} | _HARMLESS
        self._values = HiddenValues({value for value in secrets if value not in words or len(value) >= _SHORTEST_LINE})

    def over(self, value: Any) -> Any:
        """Return a value without what is secret in it."""
        if isinstance(value, str):
            # A color within a value would hide it.
            text = without_escapes(value)
            return mask_passwords(replaced(text, self._values.ranges(text), MASK))
        if isinstance(value, Mapping):
            return {name: self.over(each) for name, each in cast("Object", value).items()}
        if isinstance(value, list):
            return [self.over(each) for each in cast("list[Any]", value)]
        return value


def decode_content(text: str) -> Any:
    """Return the content of a key of a Secret: the options by their sections, as `[name]`, where it is a configuration
    file.
    """
    try:
        content = base64.b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        return text
    sections = parse_options(content) if len(content) <= _LONGEST_FILE else {}
    return {f"[{name}]": options for name, options in sections.items() if options} or content


def parse_options(content: str) -> dict[str, dict[str, str | list[str]]]:
    """Return the options of a configuration file by their sections; none of a text of another form. An option that is
    there several times, as oslo.config has them for lists, has a list.
    """
    sections: dict[str, dict[str, list[str]]] = {}
    options: dict[str, list[str]] | None = None
    values: list[str] | None = None
    depth = 0
    for line in content.split("\n"):
        text = line.strip()
        if not text or text.startswith(("#", ";")):
            continue
        indent = len(line) - len(line.lstrip())
        if values and indent > depth:
            values[-1] += f"\n{text}"
        elif header := _HEADER.match(text):
            options, values = sections.setdefault(header[1], {}), None
        elif options is not None and (option := _OPTION.match(text)):
            values, depth = options.setdefault(option["name"], []), indent
            values.append(option["value"])
        else:
            return {}
    return {
        section: {name: texts[0] if len(texts) == 1 else texts for name, texts in options.items()}
        for section, options in sections.items()
    }


def secret_values(live: Object | None, open_keys: Iterable[str] = ()) -> Iterator[str]:
    """Yield what a Secret holds and must be shown nowhere: of a configuration file that the operator wrote, the options
    that are secrets by their names; everything of all other keys, and of what users keep, with the values and lines in
    it. Of `open_keys` they are only what has the name of a secret.
    """
    labels = ((live or {}).get("metadata") or {}).get("labels") or {}
    is_ours = labels.get("app.kubernetes.io/managed-by") == MANAGED_BY
    for key, text in ((live or {}).get("data") or {}).items():
        content = decode_content(text)
        if not isinstance(content, str):
            yield from _option_values(content, by_name=is_ours or key in open_keys)
        elif key in open_keys:
            yield from _parts(content, by_name=True)
        else:
            yield from dict.fromkeys((text, content, content.strip(), *_parts(content, by_name=False)))


def _option_values(content: Mapping[str, Any], *, by_name: bool) -> Iterator[str]:
    for options in content.values():
        for name, value in options.items():
            values = value if isinstance(value, list) else [value]
            # Addresses are masked where they stand, but for the host; the path of a key is none.
            yield from (
                each
                for each in values
                if (not by_name and len(each) >= _SHORTEST_LINE)
                or (is_secret_option(name) and not each.startswith("/") and "://" not in each)
            )


def _parts(content: str, *, by_name: bool) -> Iterator[str]:
    """Yield the values in a text of JSON, and those and the lines of one of several lines; with `by_name` only those
    that have the name of a secret.
    """
    if len(content) > _LONGEST_FILE:
        return
    if content.lstrip()[:1] in ("{", "["):
        try:
            yield from _leaves(json.loads(content), by_name=by_name)
        except (ValueError, RecursionError):
            pass
        else:
            return
    if "\n" not in content.strip() and not by_name:
        return
    for line in content.splitlines():
        text = line.strip()
        entry = _ENTRY.fullmatch(text)
        value = entry["value"].strip().strip("\"'") if entry else ""
        is_secret = bool(entry) and is_secret_option(entry["name"] if entry else "")
        if value not in _BLOCK and (is_secret or (not by_name and len(value) >= _SHORTEST_LINE)):
            yield value
        # The first and last lines of keys and certificates are in every one of them.
        if not by_name and len(text) >= _SHORTEST_LINE and not text.startswith("-----"):
            yield text


def _leaves(value: Any, name: str = "", *, by_name: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in cast("Object", value).items():
            yield from _leaves(each, key, by_name=by_name)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _leaves(each, name, by_name=by_name)
    elif isinstance(value, (str, int)) and not isinstance(value, bool):
        text = str(value)
        if (name and is_secret_option(name)) or (not by_name and len(text) >= _SHORTEST_LINE):
            yield text
