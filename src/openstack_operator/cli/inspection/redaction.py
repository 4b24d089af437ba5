"""Objects of a cluster without the secrets that a user or a program wrote into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ...kube.masking import MASK, Mask, is_secret_option, secret_values
from ...plan import Object

_OPEN_KEYS = frozenset(
    {"username", "user", "default_user", "project", "host", "since", "generation", "ca.crt", "tls.crt", "clouds.yaml"}
    | {"database", "vhost", "port", "region", "domain", "protocol", "type"}
)
"""Keys of Secrets whose values are no secrets, or hold names that are everywhere. What has the name of a secret within
such a value is one.
"""
_BOOKS = ("kubectl.kubernetes.io/last-applied-configuration",)
"""Annotations that repeat the object in another form."""
_SECRET_FIELD = re.compile(
    r"(?i)(password|passwd|passphrase|token|hmac_?key|private_?key|api_?key|secret_?key|_pass|_pwd?)$"
)
_SECRET_OPTION = re.compile(r"--?[\w-]{1,80}")
"""A word of a command before the value of an option."""


def masked_values(secrets: Iterable[Object]) -> Iterator[str]:
    """Yield the values of Secrets that must be shown nowhere."""
    for each in secrets:
        yield from secret_values(each, _OPEN_KEYS)


def redacted(live: Object, mask: Mask) -> Object:
    """Return an object with its secrets masked, and without what only the API server and kubectl keep books with."""
    metadata = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {name: text for name, text in annotations.items() if name not in _BOOKS}
    return _redacted({**live, "metadata": metadata}, mask, in_config=False)


def redacted_value(value: Any, mask: Mask, *, in_config: bool) -> Any:
    """Return the value of a field without secrets; `in_config` says that it is among the options of a program."""
    return _redacted(value, mask, in_config=in_config)


def _redacted(value: Any, mask: Mask, *, in_config: bool) -> Any:
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return [
            MASK if _is_of_option(last, each) else _redacted(each, mask, in_config=in_config)
            for last, each in zip([None, *entries], entries, strict=False)
        ]
    if not isinstance(value, Mapping):
        return mask.over(value)
    fields = cast("Object", value)
    return {
        name: MASK
        if _is_secret(fields, name, in_config=in_config)
        else _redacted(each, mask, in_config=in_config or name == "config")
        for name, each in fields.items()
    }


def _is_secret(fields: Object, name: str, *, in_config: bool) -> bool:
    """Return True if a field holds a secret, as far as its name says, or that of the environment variable it sets."""
    if isinstance(fields[name], (Mapping, list, bool, type(None))):
        return False
    is_variable = name == "value" and is_secret_option(str(fields.get("name", "")))
    return is_variable or bool(_SECRET_FIELD.search(name)) or (in_config and is_secret_option(name))


def _is_of_option(option: object, value: object) -> bool:
    """Return True for the word of a command that is a secret, by the option before it."""
    if not isinstance(option, str) or not isinstance(value, str) or value.startswith("-"):
        return False
    return bool(_SECRET_OPTION.fullmatch(option)) and is_secret_option(option)
