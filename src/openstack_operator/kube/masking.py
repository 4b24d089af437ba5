"""The content of Secrets in a form that may be shown: configuration by its options, and everything else masked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from configparser import Error as ConfigError
from configparser import RawConfigParser
from typing import Any, cast

from ..plan import Object
from .quotes import mask_passwords

MASK = "***"
_SHORTEST_SECRET = 8
_SECRET_OPTION = ("pass", "secret", "token", "key", "connection", "transport_url", "credential", "hmac", "cookie")
"""Parts of the names of options that hold secrets."""
_SECRET_WORD = frozenset({"pwd", "pin", "kek", "otp", "login"})
"""The same, where a name has them as words of their own."""


def is_secret_option(name: str) -> bool:
    """Return True if an option of a configuration file holds a secret, as far as its name says."""
    text = name.lower()
    return any(part in text for part in _SECRET_OPTION) or not _SECRET_WORD.isdisjoint(re.split(r"[_.-]", text))


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
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(content)
    except ConfigError:
        return content
    if not parser.sections() and not parser.defaults():
        return content
    sections = {"DEFAULT": dict(parser.defaults())}
    # Without the defaults, which the parser repeats in each section.
    sections |= {name: dict(cast("Any", parser)._sections[name]) for name in parser.sections()}
    return {f"[{name}]": options for name, options in sections.items() if options}


def secret_values(live: Object | None) -> Iterator[str]:
    """Yield the texts of a Secret, but of configuration files."""
    for text in ((live or {}).get("data") or {}).values():
        content = decode_content(text)
        if isinstance(content, str):
            yield content
