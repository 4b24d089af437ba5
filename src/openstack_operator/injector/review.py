"""Admission reviews of `pods/binding` (admission.k8s.io/v1) as values."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

Key = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass(frozen=True)
class Binding:
    """A pod that is about to be bound to a node."""

    key: Key
    uid: str
    """The pod's; empty where the scheduler did not say."""
    node: str


class _ObjectReference(msgspec.Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _ObjectReference = msgspec.field(default_factory=_ObjectReference)
    target: _ObjectReference = msgspec.field(default_factory=_ObjectReference)


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    name: str = ""
    namespace: str = ""
    dry_run: bool = False
    object: _Object | None = None


class _Review(msgspec.Struct):
    request: _Request


_review = msgspec.json.Decoder(_Review)


def answered(content: bytes) -> tuple[Binding | None, bytes]:
    """Return the binding, and the answer, which always allows it; no binding for a dry run, which may change nothing.
    Raises msgspec's MsgspecError for what is no review.
    """
    request = _review.decode(content).request
    answer = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request.uid, "allowed": True},
    }
    return _binding(request), msgspec.json.encode(answer)


def _binding(request: _Request) -> Binding | None:
    bound = request.object
    if bound is None or request.dry_run or bound.target.kind not in ("", "Node"):
        return None
    return Binding((request.namespace, request.name), bound.metadata.uid, bound.target.name)
