"""Nodes as the operator sees them: names, labels, and whether they answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ...plan import Node
from ...plan.node_labels import NodeLabels, as_roles
from ..kubernetes.kinds import Kind
from .entries import Cached, Change, Meta
from .store import Store

_AWAY = frozenset({"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"})
"""Taints that Kubernetes gives a Node whose kubelet is silent, or says that it cannot run pods."""


class _Taint(msgspec.Struct, frozen=True):
    key: str


class _Spec(msgspec.Struct, frozen=True):
    taints: tuple[_Taint, ...] | None = None


class _Node(msgspec.Struct):
    metadata: Meta
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Node).decode
_ANSWERS, _IS_AWAY = b'{"isAway":false}', b'{"isAway":true}'


def read_node(item: bytes, _: Kind, *, node_labels: NodeLabels = "legacy") -> Cached:
    """Return an entry without images, addresses and conditions, which the kubelet writes every few minutes. Its labels
    have the short names of the node's roles.
    """
    node = _decode(item)
    is_away = any(taint.key in _AWAY for taint in node.spec.taints or ())
    labels = as_roles(node.metadata.labels, node_labels)
    meta = msgspec.structs.replace(node.metadata, annotations={}, finalizers=(), labels=dict(labels))
    return Cached(meta, _IS_AWAY if is_away else _ANSWERS)


def has_changed(change: Change) -> bool:
    """Return True if a Node came, went or has other labels, or if it began or ceased to answer."""
    if change.old is None or change.new is None:
        return True
    old, new = change.old, change.new
    return (old.meta.uid, old.meta.labels, old.raw) != (new.meta.uid, new.meta.labels, new.raw)


class Nodes(Mapping[str, Node]):
    """Nodes as plans see them, made on access: most plans read one of thousands, and others none."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, name: str) -> Node:
        if (node := self._store.get("", name)) is None:
            raise KeyError(name)
        return Node(node.meta.uid, node.meta.labels, is_away=node.raw == _IS_AWAY)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(node.meta.name for node in self._store))

    def __len__(self) -> int:
        return len(self._store)
