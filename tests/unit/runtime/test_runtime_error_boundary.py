"""No failure of a pass ends the operator, also after its resource is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from openstack_operator.plan import SpecError, Transient
from openstack_operator.runtime.cache.entries import Request
from openstack_operator.runtime.kubernetes.errors import LeadershipLostError, NotAdmitted
from openstack_operator.runtime.reconcile.apply_cache import ApplyCache
from openstack_operator.runtime.reconcile.passes import Engine, ErrorBoundary, Result
from openstack_operator.runtime.reconcile.report import REFUSED_AGAIN

REQUEST = Request("Keystone.openstack.k8s.io", "openstack", "keystone")


class Gone:
    """A world without the resource, in which the end of a workload's deletion fails."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault
        self.plans = self

    def get(self, _: Request) -> None:
        return None

    def forget(self, _: Request) -> None:
        """Nothing is kept."""

    def children(self, _: Request) -> Any:
        raise self._fault


async def clean_up(fault: Exception) -> Result:
    world: Any = Gone(fault)
    unused: Any = SimpleNamespace()
    return await ErrorBoundary(Engine(world, unused, world, world, ApplyCache())).run(unused, REQUEST)


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (Transient("busy"), 1.0),
        (NotAdmitted("object", "a webhook denied the request"), REFUSED_AGAIN),
        (SpecError("object", "is invalid"), REFUSED_AGAIN),
        (RuntimeError("a bug"), REFUSED_AGAIN),
    ],
    ids=["busy", "denied", "invalid", "bug"],
)
async def test_clean_up_that_fails_is_tried_again(fault: Exception, seconds: float) -> None:
    assert await clean_up(fault) == Result(after=seconds)


async def test_clean_up_without_the_lease_ends_the_operator() -> None:
    with pytest.raises(LeadershipLostError):
        await clean_up(LeadershipLostError("it is held by another"))
