"""Placeholders for what the operator draws, and for the keys and certificates it makes of that.

A plan on paper draws the same word each time, so that two of them can be compared. Whatever follows from the word would
be a secret that everybody knows: it is found by a second plan with another word, and never shown.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import zip_longest

from ...kube import Object, secret_data
from ...plan import PLACEHOLDER, Key, key
from ...planned import Id, Planned

WORD, ANOTHER = "openstackOperatorDrawsThis", "openstackOperatorDrawsThat"
"""Passwords that the plan and the second plan draw; letters, which stay unchanged in any notation."""

Twins = Mapping[tuple[Id, Key], Object]


def twins(planned: Iterable[Planned]) -> Twins:
    """Return the Secrets of the second plan."""
    return {(each.id, key(obj)): obj for each in planned for obj in each.objects if obj["kind"] == "Secret"}


def masked(id_: Id, obj: Object, twin_objects: Twins) -> Object:
    """Return the object with a placeholder for every line of a Secret that depends on a random value."""
    if obj["kind"] != "Secret" or "data" not in obj:
        return obj
    twin_data = secret_data(twin_objects.get((id_, key(obj))))
    data = {name: _masked(text, twin_data.get(name, "")) for name, text in secret_data(obj).items()}
    encoded = {n: base64.b64encode(text.encode(errors="surrogateescape")).decode() for n, text in data.items()}
    return {**obj, "data": encoded}


def _masked(text: str, twin_text: str) -> str:
    if text.replace(WORD, ANOTHER) == twin_text:
        return text.replace(WORD, PLACEHOLDER)
    if text.startswith("-----BEGIN "):
        return PLACEHOLDER
    pairs = zip_longest(text.splitlines(keepends=True), twin_text.splitlines(keepends=True), fillvalue="")
    return "".join(
        line.replace(WORD, PLACEHOLDER)
        if line.replace(WORD, ANOTHER) == counterpart
        else PLACEHOLDER + "\n" * line.endswith("\n")
        for line, counterpart in pairs
    )
