"""Pods as the injector keeps them: the little it looks at, since it keeps all of a cluster."""

from __future__ import annotations

import msgspec

from ..runtime.cache.entries import Cached, Meta
from ..runtime.kubernetes.kinds import Kind
from .labels import LABELS
from .object_names import INJECTOR


class PodFacts(msgspec.Struct, frozen=True):
    """Facts about a pod besides its labels."""

    node: str
    """Node on which it runs; empty before it is bound."""
    ours: tuple[str, ...]
    """Labels that the injector set, and that no other client wrote since."""


class _Labels(msgspec.Struct):
    names: dict[str, msgspec.Raw] = msgspec.field(name="f:labels", default_factory=dict[str, msgspec.Raw])


class _Fields(msgspec.Struct):
    metadata: _Labels = msgspec.field(name="f:metadata", default_factory=_Labels)


class _Manager(msgspec.Struct, rename="camel"):
    manager: str = ""
    fields_v1: _Fields = msgspec.field(name="fieldsV1", default_factory=_Fields)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str
    labels: dict[str, str] = {}
    managed_fields: list[_Manager] = []


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


_pod = msgspec.json.Decoder(_Pod)
_decoder = msgspec.json.Decoder(PodFacts)


def trimmed(item: bytes, _: Kind) -> Cached:
    """Return an entry from the JSON of a pod. Metadata alone is not enough: the spec says where a pod runs."""
    pod = _pod.decode(item)
    meta, spec = pod.metadata, pod.spec
    labels = {label: meta.labels[label] for label in LABELS if label in meta.labels}
    # The API server records the manager of each field; a client that writes another value takes the label over.
    written = {
        name for entry in meta.managed_fields if entry.manager == INJECTOR for name in entry.fields_v1.metadata.names
    }
    facts = PodFacts(spec.node_name, tuple(label for label in LABELS if f"f:{label}" in written))
    cached_meta = Meta(meta.name, meta.uid, meta.resource_version, meta.namespace, labels=labels)
    return Cached(cached_meta, msgspec.json.encode(facts))


def pod_facts(item: Cached) -> PodFacts:
    """Return the facts of an entry besides its labels."""
    return _decoder.decode(item.raw)
