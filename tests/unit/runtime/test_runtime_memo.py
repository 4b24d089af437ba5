"""What is remembered of objects goes with them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from openstack_operator.runtime.cache.entries import Cached, Meta
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import JOB
from openstack_operator.runtime.serve.manager import Manager


def job(name: str, uid: str, version: int) -> Cached:
    return Cached(Meta(name, uid=uid, resource_version=str(version), namespace="x"), b"{}")


@pytest.mark.parametrize("how", ["deleted", "made anew", "missing from a list"])
def test_a_job_that_fails_again_and_again(how: str) -> None:
    manager = Manager(cast("Client", None), [], [], cast("Any", None))
    store = manager.world.stores[JOB]
    held = job("sync", "", 0)
    for number in range(1, 10):
        held = job("sync", f"uid-{number}", number * 10)
        store.put(held)
        manager.engine.apply_cache.note_noop(held, "stamp")
        manager.engine.apply_cache.logs[held.meta.uid] = "it failed"
        if how == "deleted":
            store.remove(job("sync", held.meta.uid, number * 10 + 1))
        elif how == "missing from a list":
            store.replace(None, (), str(number * 10 + 1))
    kept = {"uid-9"} if how == "made anew" else set[str]()
    assert set(manager.engine.apply_cache.logs) == kept
    assert manager.engine.apply_cache.is_noop(held, "stamp") is bool(kept)
