"""The difference between a cluster as it is and as it would be, object by object and field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from ..kube.masking import MASK, Mask, decode_content, is_secret_option, secret_values
from ..plan import Object
from ..plan.steps import WORKLOADS
from ..runtime.apply import APPLIED
from ..runtime.kinds import JOB, SECRET
from .client import Address, Touched

_OF_THE_SERVER = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
        "finalizers",
        "ownerReferences",
    }
)
"""Metadata that the API server and the operator keep books with."""
_BOOKS = frozenset({APPLIED, "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"})
"""Annotations of the same kind."""
_ABSENT = object()

Verb = Literal["created", "changed", "deleted"]


@dataclass(frozen=True)
class FieldChange:
    """A field with its values, None for an absent one. What a Secret holds is masked."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True)
class ObjectChange:
    """The difference of one object."""

    address: Address
    verb: Verb
    fields: Sequence[FieldChange] = ()
    """Of a changed object."""
    replaces_pods: bool = False

    @property
    def name(self) -> str:
        """Kind/name; the kind with its group where it is of another operator's or of c5c3's."""
        return f"{self.address.kind.kind}/{self.address.name}"


def changes(touched: Mapping[Address, Touched], secrets: Iterable[str] = ()) -> list[ObjectChange]:
    """Return what differs, in the order in which it would be written. `secrets` are values that are shown nowhere."""
    mask = Mask([*secrets, *_values(touched)])
    return [change for address, each in touched.items() if (change := _change(address, each, mask))]


def _change(address: Address, touched: Touched, mask: Mask) -> ObjectChange | None:
    before, after = touched.before, touched.after
    if after is not None and "deletionTimestamp" in after["metadata"]:
        after = None
    if before is None:
        return None if after is None else ObjectChange(address, "created")
    if after is None:
        return None if "deletionTimestamp" in before["metadata"] else ObjectChange(address, "deleted")
    pairs = list(_differences("", _content(address, before), _content(address, after)))
    if not pairs:
        return None
    fields = [_field(path, old, new, mask, is_secret=address.kind is SECRET) for path, old, new in pairs]
    replaces = address.kind.kind in WORKLOADS and any(path.startswith("spec.template.") for path, _, _ in pairs)
    return ObjectChange(address, "changed", fields, replaces)


def _content(address: Address, live: Object) -> Object:
    """Return what a user or the operator decides of an object, without its status; configuration by its options."""
    metadata = {name: value for name, value in live["metadata"].items() if name not in _OF_THE_SERVER}
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name not in _BOOKS}
    content = {name: value for name, value in live.items() if name not in ("status", "apiVersion", "kind")}
    if address.kind is SECRET and "data" in live:
        content["data"] = {name: decode_content(text) for name, text in (live["data"] or {}).items()}
    return {**content, "metadata": {**metadata, "annotations": annotations}}


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _mapping_differences(path, cast("Object", before), cast("Object", after))
    elif (old := _by_name(before)) is not None and (new := _by_name(after)) is not None and (old or new):
        for name in [*old, *(each for each in new if each not in old)]:
            yield from _differences(f"{path}[{name}]", old.get(name, _ABSENT), new.get(name, _ABSENT))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(cast("list[Any]", before), cast("list[Any]", after), strict=True)
        for index, pair in enumerate(pairs):
            yield from _differences(f"{path}[{index}]", *pair)
    else:
        yield path, None if before is _ABSENT else before, None if after is _ABSENT else after


def _mapping_differences(path: str, before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    for name in [*before, *(each for each in after if each not in before)]:
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        # The API server leaves out what is empty.
        if all(value is _ABSENT or value in ({}, [], "", None) for value in (old, new)):
            continue
        # Sections of a configuration file and options in them stand apart: data.nova.conf [DEFAULT] debug.
        is_configuration = name.startswith("[") or path.rpartition(" ")[2].startswith("[")
        yield from _differences(f"{path}{' ' if is_configuration else '.'}{name}".lstrip("."), old, new)


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return the entries of a list by their names; None if they have none, or not one each."""
    if not isinstance(value, list):
        return None
    entries = cast("list[Any]", value)
    names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in entries]
    if None in names or len(set(names)) < len(names):
        return None
    return dict(zip(cast("list[str]", names), entries, strict=True))


def _field(path: str, before: Any, after: Any, mask: Mask, *, is_secret: bool) -> FieldChange:
    if is_secret and path.startswith("data."):
        option = path.rpartition(" ")[2]
        # An option of a configuration file is shown, everything else in a Secret is not.
        if " [" not in path or is_secret_option(option):
            return FieldChange(path, *(None if value is None else MASK for value in (before, after)))
    return FieldChange(path, mask.over(before), mask.over(after))


def _values(touched: Mapping[Address, Touched]) -> Iterator[str]:
    """Yield what Secrets hold that are not configuration files."""
    for address, each in touched.items():
        if address.kind is SECRET:
            for live in (each.before, each.after):
                yield from secret_values(live)


def is_job(change: ObjectChange) -> bool:
    """Return True for a Job that would run."""
    return change.address.kind is JOB and change.verb == "created"
