"""Placeholders for passwords that the operator generates, and for the keys and certificates made from them.

Each resource is planned twice, with another password each time. What differs between the two plans depends on the
password, and is never shown: printed manifests must not hold secrets that everybody knows.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import zip_longest

from ...kube import Object, secret_data
from ...plan import PLACEHOLDER, Key, key
from ...planned import Id, Planned

PASSWORD, OTHER_PASSWORD = "openstackOperatorDrawsThis", "openstackOperatorDrawsThat"
"""The passwords of the first and the second plan: letters, which stay unchanged in any notation."""

Counterparts = Mapping[tuple[Id, Key], Object]


def counterparts_of(planned: Iterable[Planned]) -> Counterparts:
    """Return the Secrets of the second plan, by resource, kind and name."""
    return {(each.id, key(obj)): obj for each in planned for obj in each.objects if obj["kind"] == "Secret"}


def masked(id_: Id, obj: Object, counterparts: Counterparts) -> Object:
    """Return the object with a placeholder for every line of a Secret that depends on a random value."""
    if obj["kind"] != "Secret" or "data" not in obj:
        return obj
    other_data = secret_data(counterparts.get((id_, key(obj))))
    data = {name: _masked(text, other_data.get(name, "")) for name, text in secret_data(obj).items()}
    encoded = {n: base64.b64encode(text.encode(errors="surrogateescape")).decode() for n, text in data.items()}
    return {**obj, "data": encoded}


def _masked(text: str, other_text: str) -> str:
    if text.replace(PASSWORD, OTHER_PASSWORD) == other_text:
        return text.replace(PASSWORD, PLACEHOLDER)
    if text.startswith("-----BEGIN "):
        return PLACEHOLDER
    pairs = zip_longest(text.splitlines(keepends=True), other_text.splitlines(keepends=True), fillvalue="")
    return "".join(
        line.replace(PASSWORD, PLACEHOLDER)
        if line.replace(PASSWORD, OTHER_PASSWORD) == counterpart
        else PLACEHOLDER + "\n" * line.endswith("\n")
        for line, counterpart in pairs
    )
