"""Destinations of the Secrets that a spec names: servers that the spec names as well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .model import Destination, Model, Template, named_fields
from .refs import SecretKeyRef, SecretRef

ALLOWED_HOSTS = "openstack.k8s.io/allowed-hosts"
"""Annotation of a Secret: hosts in specs that it may be sent to, separated by commas; `*.example.org` stands for all
names below that, `*` for every host."""
UNKNOWN = ""
"""Host of a server that a spec names in a way that is not understood."""

# No user, no backslash, nothing that two parsers read in two ways.
_ADDRESS = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(?:[/?#].*)?"
)
_IPV6 = re.compile("[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")


def sent(refs: Mapping[str, SecretRef | SecretKeyRef | None], *addresses: str | None) -> list[Destination]:
    """Return `Model.destinations` of Secrets, by field, that all go to the same servers; none for unset Secrets, and
    none without a server.
    """
    servers = tuple(address for address in addresses if address)
    return [Destination(field, ref.name, servers) for field, ref in refs.items() if ref and servers]


def destinations(spec: Model) -> list[Destination]:
    """Return every Secret in this spec that goes to servers which the spec itself names, with the field's path. What a
    template names belongs to the resource made of it.
    """
    return [
        Destination(f"{path}.{field}", secret, addresses)
        for path, model in models_in(spec)
        for field, secret, addresses in model.destinations()
    ]


def models_in(value: Any, path: str = "spec") -> Iterator[tuple[str, Model]]:
    """Yield every model in a spec with its path as users write it, the spec first; none of a template, which belongs to
    the resource made of it.
    """
    if value is None:
        # Most fields are unset, and to find out that this is no Mapping takes longest.
        return
    if isinstance(value, Model):
        if isinstance(value, Template):
            return
        yield path, value
        for name, field, may_hold_models in named_fields(type(value)):
            if may_hold_models:
                yield from models_in(getattr(value, name), f"{path}.{field}")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, Model):
                yield from models_in(each, f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            if isinstance(each, Model):
                yield from models_in(each, f"{path}[{index}]")


def host_of(address: str) -> str:
    """Return the host of a URL, of `host:port` or of a bare name; UNKNOWN for any other text."""
    match = _ADDRESS.fullmatch(f"[{address}]" if _IPV6.fullmatch(address) else address)
    return match[1].lower().rstrip(".") if match else UNKNOWN


def allowed_hosts(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts that the annotation of a Secret allows."""
    entries = (entry.strip().lower() for entry in annotations.get(ALLOWED_HOSTS, "").split(","))
    return tuple(
        f"[{entry}]" if _IPV6.fullmatch(entry) else entry.removesuffix(".")
        for entry in entries
        if entry not in ("", ".", "*.")
    )


def is_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    """Return True if one of the entries matches the host. Only `*` matches UNKNOWN."""
    return any(
        entry == "*" or (host and (host == entry or (entry.startswith("*.") and host.endswith(entry[1:]))))
        for entry in allowed
    )
