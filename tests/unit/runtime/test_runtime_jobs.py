"""What a job that has ended says in the condition of its resource."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest

from openstack_operator import kube
from openstack_operator.plan import READY, Object, State, Verdict
from openstack_operator.runtime.cache.entries import entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.kinds import JOB
from openstack_operator.runtime.reconcile.jobs import has_message, message

NO_MESSAGE = ""


class Pods:
    """An API server with the pods of a job, each an exit status and a message."""

    def __init__(self, *ends: tuple[int, str]) -> None:
        self.client, self._ends = self, ends

    async def page(self, *_: object) -> bytes:
        return json.dumps({"items": [_pod(*end) for end in self._ends]}).encode()


def _pod(status: int, text: str) -> Object:
    ended = {"exitCode": status, "finishedAt": "2026-01-01T00:00:00Z", **({"message": text} if text else {})}
    return {"status": {"containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}}


def job(ended: str, *, reports: bool = True) -> Object:
    metadata: dict[str, Any] = {
        "name": "nova-preflight-1",
        "namespace": "openstack",
        "uid": "u",
        "resourceVersion": "1",
    }
    live = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "status": {"conditions": [{"type": ended, "status": "True"}]},
    }
    return kube.reporting(live) if reports else live


async def said(live: Object, *ends: tuple[int, str]) -> str:
    child = entry(live, JOB)
    return await message(cast("World", Pods(*ends)), child, live) if has_message(child, live) else NO_MESSAGE


@pytest.mark.asyncio
async def test_the_warnings_of_a_success_are_shown() -> None:
    text = await said(job("Complete"), (2, "failed at first"), (0, "mysql://nova:hunter2@mariadb/nova is old"))
    assert text == "mysql://nova:***@mariadb/nova is old"
    live = job("Complete")
    assert kube.judge({**live, "status": {**live["status"], "log": text}}) == Verdict(State.READY, text)


@pytest.mark.asyncio
async def test_a_failure_says_what_failed() -> None:
    assert await said(job("Failed"), (2, "no cells"), (0, "warnings of another try")) == "no cells"


@pytest.mark.asyncio
async def test_other_jobs_say_nothing_if_they_succeed() -> None:
    assert await said(job("Complete", reports=False), (0, "text")) == NO_MESSAGE
    assert kube.judge(job("Complete", reports=False)) == READY
    assert msgspec.json.encode(job("Complete"))
