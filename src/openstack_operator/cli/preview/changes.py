"""The difference between a cluster as it is and as it would be, object by object and field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from ...kube import MANAGED_BY
from ...kube.masking import MASK, Mask, decode_content, is_secret_option, secret_values
from ...plan import Object
from ...plan.steps import WORKLOADS
from ...runtime.kubernetes.kinds import JOB, SECRET
from ...runtime.reconcile.apply import APPLIED
from ..inspection.redaction import redacted_value
from .client import Address, Write

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
_BOOKS = frozenset(
    {
        APPLIED,
        "kubectl.kubernetes.io/last-applied-configuration",
        "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation",
    }
)
"""Annotations of the same kind."""
_MANAGER = "app.kubernetes.io/managed-by"
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
    replaced_at: int = 0
    """Grows with the time at which the pod template changed."""

    @property
    def name(self) -> str:
        """Kind/name; the kind with its group where it is of another operator's or of c5c3's."""
        return f"{self.address.kind.kind}/{self.address.name}"


def changes(writes: Mapping[Address, Write], secrets: Iterable[str] = ()) -> list[ObjectChange]:
    """Return what differs, in the order in which it would be written. `secrets` are values that are shown nowhere."""
    mask = Mask([*secrets, *_values(writes)])
    in_order = sorted(writes.items(), key=lambda item: item[1].edited_at)
    return [change for address, each in in_order if (change := _change(address, each, mask))]


def _change(address: Address, write: Write, mask: Mask) -> ObjectChange | None:
    before, after = write.before, write.after
    if after is not None and "deletionTimestamp" in after["metadata"]:
        after = None
    if before is None:
        return None if after is None else ObjectChange(address, "created")
    if after is None:
        return None if "deletionTimestamp" in before["metadata"] else ObjectChange(address, "deleted")
    pairs = list(_differences("", _content(address, before), _content(address, after)))
    if not pairs:
        return None
    show = _masked_in_secret if address.kind is SECRET else _masked
    is_ours = (before["metadata"].get("labels") or {}).get(_MANAGER) == MANAGED_BY
    fields = [show(path, old, new, mask, is_ours=is_ours) for path, old, new in pairs]
    replaces = address.kind.kind in WORKLOADS and any(path.startswith("spec.template") for path, _, _ in pairs)
    return ObjectChange(address, "changed", fields, replaces, write.replaced_at)


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
        order = [name for name in old if name in new]
        if order != (new_order := [name for name in new if name in old]):
            # It counts: init containers run in it, and another order is another template.
            yield path, order, new_order
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
        if name.startswith("["):
            # A section that comes or goes is shown by its options: each may be a secret.
            old, new = ({} if value is _ABSENT else value for value in (old, new))
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


def _masked(path: str, before: Any, after: Any, mask: Mask, *, is_ours: bool = True) -> FieldChange:
    """Show a field without what is secret in it; nothing of one that is a secret by its name, or by the name of the
    variable that it sets. An image is shown as it is, so that no Secret with the same text hides it.
    """
    if path.endswith(".image"):
        return FieldChange(path, before, after)
    variable, _, field = path.rpartition(".")
    name = variable.rpartition("[")[2].rstrip("]") if field == "value" else field
    if is_secret_option(name) and isinstance(after if before is None else before, (str, int)):
        return FieldChange(path, *(None if value is None else MASK for value in (before, after)))
    in_config = "config" in path.split(".")
    return FieldChange(path, *(redacted_value(value, mask, in_config=in_config) for value in (before, after)))


def _masked_in_secret(path: str, before: Any, after: Any, mask: Mask, *, is_ours: bool) -> FieldChange:
    """Show metadata, and options of a configuration file that the operator wrote and that are no secrets by their
    names. All else is masked: what a user keeps in a Secret is not for others, in whatever form.
    """
    option = path.rpartition(" ")[2]
    is_option = path.startswith("data.") and not option.startswith("[") and "] " in path
    if path.startswith("metadata") or (is_ours and is_option and not is_secret_option(option)):
        return _masked(path, before, after, mask)
    return FieldChange(path, *(None if value is None else MASK for value in (before, after)))


def _values(writes: Mapping[Address, Write]) -> Iterator[str]:
    """Yield what Secrets hold that are not configuration files."""
    for address, each in writes.items():
        if address.kind is SECRET:
            for live in (each.before, each.after):
                yield from secret_values(live)


def is_job(change: ObjectChange) -> bool:
    """Return True for a Job that would run."""
    return change.address.kind is JOB and change.verb == "created"
