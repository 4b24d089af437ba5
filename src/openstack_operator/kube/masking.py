"""The content of Secrets in a form that may be shown: configuration by its options, and everything else masked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ..plan import Object
from .objects import MANAGED_BY
from .quotes import mask_passwords

MASK = "***"
_SHORTEST_SECRET = 8
_LONGEST_FILE = 128 * 1024
"""Letters of a configuration file; a longer text is none, and takes no time."""
_HEADER = re.compile(r"\[(.+)\]")
_OPTION = re.compile(r"(?P<name>[^=:\s](?:[^=:]*[^=:\s])?)\s*[=:]\s*(?P<value>.*)")
_SECRET_OPTION = ("pass", "secret", "token", "key", "connection", "transport_url", "credential", "hmac", "cookie")
"""Parts of the names of options that hold secrets."""
_SECRET_WORD = frozenset({"pwd", "pin", "kek", "otp", "login"})
"""The same, where a name has them as words of their own."""


def is_secret_option(name: str) -> bool:
    """Return True if an option of a configuration file, or a value of it (`pin[1]`), is a secret, as its name says."""
    text = name.lower()
    return any(part in text for part in _SECRET_OPTION) or not _SECRET_WORD.isdisjoint(re.split("[^a-z0-9]", text))


class Mask:
    """A mask over values that are secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may be part of another.
        values = {value for value in secrets if len(value) >= _SHORTEST_SECRET}
        self._secrets = sorted(values, key=lambda value: (-len(value), value))

    def over(self, value: Any) -> Any:
        """Return a value without what is secret in it."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, MASK)
            return mask_passwords(value)
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


def secret_values(live: Object | None) -> Iterator[str]:
    """Yield what a Secret holds and must be shown nowhere, also in base64: of a configuration file that the operator
    wrote, the options that are secrets by their names; everything of all other keys, and of what users keep.
    """
    labels = ((live or {}).get("metadata") or {}).get("labels") or {}
    is_ours = labels.get("app.kubernetes.io/managed-by") == MANAGED_BY
    for text in ((live or {}).get("data") or {}).values():
        content = decode_content(text)
        if isinstance(content, str):
            yield from (text, content)
            continue
        for options in content.values():
            for name, value in options.items():
                values = value if isinstance(value, list) else [value]
                # Addresses are masked where they stand, but for the host; the path of a key is none.
                yield from (
                    each
                    for each in values
                    if not is_ours or (is_secret_option(name) and not each.startswith("/") and "://" not in each)
                )
