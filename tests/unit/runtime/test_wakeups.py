"""Whom the change of a message concerns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from openstack_operator.runtime.cache.entries import Change, Request, entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.node_claims import NodeClaims
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.serve.wakeups import Wakeups
from openstack_operator.services.glance.model import GLANCE
from openstack_operator.services.keystone.model import KEYSTONE

NAMESPACE = "x"
SERVER, CLIENT = Kind.of(KEYSTONE), Kind.of(GLANCE)
USER = Request(CLIENT.handle, NAMESPACE, "glance")
TARGETS = [("Keystone", NAMESPACE, "keystone"), ("Keystone.DatabaseReady", NAMESPACE, "keystone")]


def wakeups(*targets: tuple[str, str, str]) -> Wakeups:
    """Those of a world in which a Glance uses these objects."""

    def users_of(target: tuple[str, str, str]) -> list[Request]:
        return [USER] if target in targets else []

    catalog = SimpleNamespace(on_nodes=(), resources={SERVER, CLIENT})
    kinds = {SERVER.handle: SERVER, CLIENT.handle: CLIENT}
    references = SimpleNamespace(users_of=users_of)
    world = cast("World", SimpleNamespace(catalog=catalog, references=references, resource=kinds.__getitem__))
    return Wakeups(world, NodeClaims(world), ())


def keystone(version: int, message: str, type_: str = "Ready", status: str = "False") -> Any:
    condition = {"type": type_, "status": status, "reason": "Progressing", "message": message}
    metadata = {"name": "keystone", "namespace": NAMESPACE, "resourceVersion": str(version)}
    return entry({"metadata": metadata, "spec": {}, "status": {"conditions": [condition]}}, SERVER)


@pytest.mark.parametrize(("target", "type_"), [*zip(TARGETS, ["Ready", "DatabaseReady"], strict=True)])
def test_a_status_that_quotes_a_message_is_updated_when_that_changes(target: tuple[str, str, str], type_: str) -> None:
    change = Change(SERVER, keystone(1, "one", type_), keystone(2, "two", type_))
    assert wakeups(target).quoting(change) == [USER]
    assert wakeups().quoting(change) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (keystone(1, "one"), keystone(2, "one")),
        (keystone(1, "one", status="True"), keystone(2, "two", status="True")),
        (keystone(1, "one"), keystone(2, "Identity: Glance/glance: waiting for Keystone/keystone")),
        (None, keystone(1, "one")),
        (keystone(1, "one"), None),
    ],
    ids=["the same", "nobody waits", "a circle", "it comes", "it goes"],
)
def test_other_changes_concern_no_quote(old: Any, new: Any) -> None:
    assert wakeups(*TARGETS).quoting(Change(SERVER, old, new)) == []
