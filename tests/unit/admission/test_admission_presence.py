"""An operator whose cluster lacks the policies that limit it says so."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from copy import deepcopy
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from openstack_operator.admission import presence
from openstack_operator.admission.presence import absent, policies, watch_policies
from openstack_operator.plan import Object, Transient
from openstack_operator.runtime import metrics
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Forbidden
from openstack_operator.runtime.kubernetes.kinds import Kind

pytestmark = pytest.mark.security

POLICY, BINDING = (
    {"kind": kind, "metadata": {"name": "a"}, "spec": {"policyName": "a", "rules": [{"operations": ["CREATE"]}]}}
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
)


class FakeClient:
    """An API server with some objects; each may be an error."""

    def __init__(self, **objects: Any) -> None:
        self.objects = objects

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        assert namespace is None and name == "a"
        answer = self.objects.get(kind.kind)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def _absent(**objects: Any) -> list[str]:
    return await absent(cast("Client", FakeClient(**objects)), [POLICY, BINDING])


def _stored(obj: Object) -> Object:
    """As an API server stores it: with defaults."""
    copy = deepcopy(obj)
    copy["spec"]["rules"][0]["scope"] = "*"
    if obj["kind"] == "ValidatingAdmissionPolicy":
        selectors: Object = {"namespaceSelector": {}, "objectSelector": {}}
        copy["spec"] |= {"failurePolicy": "Fail", "matchConstraints": {"matchPolicy": "Equivalent", **selectors}}
    return copy


async def test_defaults_of_the_api_server_are_no_difference() -> None:
    stored = {"ValidatingAdmissionPolicy": _stored(POLICY), "ValidatingAdmissionPolicyBinding": _stored(BINDING)}
    assert not await _absent(**stored)


async def test_missing_and_weaker_policies_are_named() -> None:
    weaker = _stored(POLICY)
    weaker["spec"]["rules"][0]["operations"] = []
    assert await _absent(ValidatingAdmissionPolicy=weaker) == [
        "ValidatingAdmissionPolicy/a",
        "ValidatingAdmissionPolicyBinding/a",
    ]


SELECTOR = {"matchLabels": {"no-object": "has-this"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"matchConstraints": {"excludeResourceRules": [{"resources": ["*"]}]}},
        {"matchConstraints": {"namespaceSelector": SELECTOR}},
        {"matchConstraints": {"objectSelector": SELECTOR}},
        {"matchConstraints": {"matchPolicy": "Exact"}},
        {"matchConditions": [{"name": "never", "expression": "false"}]},
        {"rules": [{"operations": ["CREATE"], "resourceNames": ["no-object"]}]},
        {"rules": [{"operations": ["CREATE"], "scope": "Cluster"}]},
        {"failurePolicy": "Ignore"},
        {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
    ],
    ids=[
        "excludes",
        "namespaces",
        "objects",
        "matchPolicy",
        "matchConditions",
        "resourceNames",
        "scope",
        "failurePolicy",
        "paramKind",
    ],
)
async def test_a_policy_that_an_added_field_switches_off_is_named(fields: Object) -> None:
    off = _stored(POLICY)
    off["spec"] |= fields
    assert await _absent(ValidatingAdmissionPolicy=off, ValidatingAdmissionPolicyBinding=_stored(BINDING)) == [
        "ValidatingAdmissionPolicy/a"
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"matchResources": {"matchPolicy": "Equivalent", "namespaceSelector": SELECTOR}},
        {"matchResources": {"excludeResourceRules": [{"resources": ["*"]}]}},
        {"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}},
    ],
    ids=["selector", "excludes", "paramRef"],
)
async def test_a_binding_that_an_added_field_switches_off_is_named(fields: Object) -> None:
    off = _stored(BINDING)
    off["spec"] |= fields
    assert await _absent(ValidatingAdmissionPolicy=_stored(POLICY), ValidatingAdmissionPolicyBinding=off) == [
        "ValidatingAdmissionPolicyBinding/a"
    ]


def test_each_policy_has_a_binding_of_its_name() -> None:
    by_kind = {kind.kind: set[str]() for kind in presence.POLICY_KINDS}
    for obj in policies():
        by_kind[obj["kind"]].add(obj["metadata"]["name"])
    names, bindings = by_kind.values()
    assert names == bindings and len(names) > 5


async def _looks(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[Any]:
    """Return what the operator logs over as many looks as there are answers."""
    client, left = FakeClient(), list(answers)

    async def sleep(_: float) -> None:
        if not left:
            raise asyncio.CancelledError
        client.objects["ValidatingAdmissionPolicy"] = left.pop(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with capture_logs() as lines, suppress(asyncio.CancelledError):
        await watch_policies(cast("Client", client), lambda: [POLICY])
    return [(line["log_level"], line.get("policies")) for line in lines]


async def test_the_log_says_once_what_is_missing_and_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    there = _stored(POLICY)
    lines = await _looks(monkeypatch, None, None, Transient("busy"), there, there, None)
    missing = ("error", "ValidatingAdmissionPolicy/a")
    assert lines == [missing, ("info", None), missing]
    assert _gauge() == 1


async def test_a_cluster_that_has_them_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _looks(monkeypatch, _stored(POLICY), _stored(POLICY)) == []


async def test_an_operator_that_may_not_look_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics.ABSENT_POLICIES.set(0)
    ((level, text),) = await _looks(monkeypatch, Forbidden("no right"))
    assert (level, text) == ("error", "cannot be read: no right")
    assert _gauge() == 1


async def test_a_bug_in_a_look_is_logged_and_the_next_look_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics.ABSENT_POLICIES.set(0)
    lines = await _looks(monkeypatch, {"metadata": {}}, _stored(POLICY))
    assert lines == [("error", None), ("error", "cannot be read: KeyError"), ("info", None)]
    assert _gauge() == 0
    await _looks(monkeypatch, {"metadata": {}})
    assert _gauge() == 1


def _gauge() -> float:
    return next(iter(metrics.ABSENT_POLICIES.collect())).samples[0].value
