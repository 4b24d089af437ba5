"""When users of a resource learn what it publishes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from openstack_operator.plan import progressing
from openstack_operator.runtime.cache.entries import Cached, Meta, Request
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.report import Report, Reporter, status

USER = Request("Neutron", "openstack", "neutron")


class World:
    """Notes, one after the other, what is written and who is woken."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.kind = Kind("openstack.k8s.io/v1alpha1", role, f"{role.lower()}s")
        self.client, self.references = self, SimpleNamespace(users_of=self.users_of)
        self.stores = {self.kind: Store(self.kind, lambda _: None)}
        self.plans = SimpleNamespace(kinds=())
        self.known: dict[str, str] = {}
        self.seen: list[str] = []
        self.conditions: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        """As sent with the last status."""

    def users_of(self, _: object) -> list[Request]:
        return [USER]

    def resource(self, _: str) -> Kind:
        return self.kind

    def target(self, request: Request) -> tuple[str, str, str]:
        return self.role, request.namespace, request.name

    def published(self, _: Cached) -> dict[str, str]:
        return self.known

    def publish(self, _: Cached, published: dict[str, str]) -> bool:
        news, self.known = self.known != published, published
        return news

    async def apply_status(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        del kind
        self.seen.append(f"wrote {body['status']['published']}")
        self.metadata = body["metadata"]
        self.conditions = {each["type"]: each for each in body["status"]["conditions"]}
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}

    async def tell(self, *_: object, **__: object) -> None:
        pass


@pytest.mark.parametrize(
    ("role", "seen"), [("Nova", ["wrote {'port': '1'}", "woke neutron"]), ("Keystone", ["woke neutron"])]
)
async def test_published_fields_are_in_the_status_before_users_wake(role: str, seen: list[str]):
    world: Any = World(role)
    reporter = Reporter(world, world, lambda user: world.seen.append(f"woke {user.name}"))
    held = Cached(Meta(role.lower(), uid="u", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
    found = Report(conditions={"Ready": progressing("0/1 pods ready")}, published={"port": "1"})
    for _ in range(2):
        await reporter.report(Request(role, "openstack", role.lower()), held, found)
    assert world.seen == seen


async def test_a_status_is_for_the_resource_of_its_uid_alone():
    """A new resource of the name, made while the pass went on, does not get the status of the one before."""
    world: Any = World("Nova")
    reporter = Reporter(world, world, lambda _: None)
    live = Cached(Meta("nova", uid="u", namespace="x", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
    report = Report(conditions={"Ready": progressing("0/1 pods ready")}, published={"port": "1"})
    await reporter.report(Request("Nova", "x", "nova"), live, report)
    assert world.metadata == {"name": "nova", "namespace": "x", "uid": "u"}


@pytest.mark.security
@pytest.mark.parametrize(
    ("since", "is_kept"),
    [("2026-01-02T00:00:00Z", True), ("2026-01-02t00:00:00z", False), ("0001-01-01T00:00:00+23:59", False)],
)
async def test_a_time_that_a_user_wrote_into_a_status_does_not_stay(since: str, *, is_kept: bool):
    world: Any = World("Nova")
    reporter = Reporter(world, world, lambda _: None)
    before = {"type": "Ready", "status": "False", "reason": "Progressing", "message": "", "lastTransitionTime": since}
    live = {"status": {"conditions": [before]}}
    held = Cached(Meta("nova", uid="u", creation_timestamp="2026-01-01T00:00:00Z"), json.dumps(live).encode())
    found = Report(conditions={"Ready": progressing("0/1 pods ready")}, published={"port": "1"})
    await reporter.report(Request("Nova", "openstack", "nova"), held, found)
    assert (world.conditions["Ready"]["lastTransitionTime"] == since) is is_kept


@pytest.mark.security
async def test_a_message_of_a_program_gives_a_terminal_no_orders():
    world: Any = World("Nova")
    reporter = Reporter(world, world, lambda _: None)
    held = Cached(Meta("nova", uid="u", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
    text = "job failed; its log ends: \x1b[2J\x1b]0;title\x07\u202ea\nb"
    found = Report(conditions={"Ready": progressing(text)}, published={"port": "1"})
    await reporter.report(Request("Nova", "openstack", "nova"), held, found)
    assert world.conditions["Ready"]["message"] == "job failed; its log ends: ?a\nb"


def test_a_status_has_no_null():
    """The API server refuses the whole status for one that is deep in a list."""
    rows = [{"name": "mariadb", "gtid": None, "size": 0}]
    report = Report(conditions={"Ready": progressing("")}, published={}, details={"databases": rows, "completed": None})
    written = status(report, {}, 1)
    assert written["databases"] == [{"name": "mariadb", "size": 0}]
    assert "completed" not in written
