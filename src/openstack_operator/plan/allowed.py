"""Permission for other resources to use an object, in an annotation of the object itself.

Gateway API has a ReferenceGrant for that, an object of its own (decision 0055).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

ALLOWED_RESOURCES = "openstack.k8s.io/allowed-resources"
"""Annotation of a Secret or of a resource: resources that may name it in their specs, separated by commas. `Kind/name`
is one of the same namespace, `namespace/Kind/name` one of another; `*` stands for every name. Alone, it stands for
every resource of the same namespace."""

MOST_ENTRIES = 64
"""Entries that have an effect: each becomes a part of NetworkPolicies, which the network of the whole cluster reads."""
ANY_NAME = "*"
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_ELSEWHERE = re.compile(rf"({_LABEL})/([A-Z][A-Za-z0-9]{{0,62}})/(\*|{_LABEL}(?:\.{_LABEL})*)")


class AllowedUser(NamedTuple):
    """A resource of another namespace that may use an object."""

    namespace: str
    kind: str
    name: str
    """`*` for every name."""


def allowed_resources(annotations: Mapping[str, str]) -> list[str]:
    """Return the entries of the annotation, each once; those beyond the limit have no effect."""
    entries = (each.strip() for each in annotations.get(ALLOWED_RESOURCES, "").split(","))
    return list(dict.fromkeys(entry for entry in entries if entry))[:MOST_ENTRIES]


def allows(annotations: Mapping[str, str], kind: str, name: str, *, namespace: str = "") -> bool:
    """Return True if a resource may use the object: one of another namespace, or of the same one without any."""
    if namespace:
        entries = {f"{namespace}/{kind}/{name}", f"{namespace}/{kind}/{ANY_NAME}"}
    else:
        entries = {f"{kind}/{name}", f"{kind}/{ANY_NAME}", ANY_NAME}
    return not entries.isdisjoint(allowed_resources(annotations))


def allowed_elsewhere(annotations: Mapping[str, str], kinds: Sequence[str]) -> Iterator[AllowedUser]:
    """Yield each resource of another namespace that may use the object, of the kinds that can name it."""
    for entry in allowed_resources(annotations):
        match = _ELSEWHERE.fullmatch(entry)
        if match and match[2] in kinds:
            yield AllowedUser(*match.groups())


def without_effect(annotations: Mapping[str, str], kinds: Sequence[str]) -> list[str]:
    """Return the entries that allow no resource of these kinds in another namespace anything."""
    return [
        entry
        for entry in allowed_resources(annotations)
        if not any(allowed_elsewhere({ALLOWED_RESOURCES: entry}, kinds))
    ]


def with_entry(annotations: Mapping[str, str], kind: str, name: str, *, namespace: str = "") -> str:
    """Return the annotation, `key=value`, with a further entry, as `kubectl annotate` takes it."""
    entry = "/".join(filter(None, (namespace, kind, name)))
    return f"{ALLOWED_RESOURCES}={','.join([*allowed_resources(annotations), entry])}"
