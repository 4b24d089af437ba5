"""The measurements, each on a fresh cluster with a fresh operator."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from openstack_operator.kube import MANAGED_BY

from .process import Operator, Writes, operator
from .stage import Stage, stage

_PERIOD = 5.0
"""Seconds between a kubelet's questions, as in the operator's Deployment."""
_QUIET = 6.0
"""Seconds without a write after which what follows a roll-out is over; statuses are held back for up to 5."""

_LOOKS = 50
"""Looks at whether it rests; if it does not rest by then, the run fails."""
_LATE_WORK = 30.0
"""Seconds within which what an operator does once, some time after its start, has begun: it compares the admission
policies after 20 s."""
_AT_REST = 0.3
"""CPU of an operator at rest in a second, at most, on the slowest machines; its late work takes all of a core."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """The cost of making control planes Ready."""

    seconds: float
    cpu: float
    """Of the operator, seconds; its start is not part of it."""
    writes: Writes
    """Until everything had settled."""
    peak: float
    """MiB."""


@dataclass(frozen=True, kw_only=True)
class Rest:
    """The cost of an operator at rest."""

    writes: int
    """Of one without a lease."""
    restart: int
    """Writes of a newly started operator until it was idle."""
    cpu: float
    """Of one that renews a lease and answers a kubelet's probes; percent of one core."""
    renewals: float
    """Of its lease, a minute."""
    start_cpu: float
    """Seconds, of a start and of all that follows it once, in a cloud that is Ready."""
    memory: float
    peak: float


async def rollout(count: int) -> Rollout:
    """Create so many control planes at once, each in a namespace of its own."""
    async with stage() as cluster, operator(cluster.kubeconfig, cluster.directory / "operator.log") as instance:
        return await _rolled_out(cluster, instance, count)


async def rollout_and_rest(seconds: float) -> tuple[Rollout, Rest]:
    """Make one control plane, then watch two newly started operators do nothing for that time."""
    async with stage() as cluster:
        async with operator(cluster.kubeconfig, cluster.directory / "operator.log") as instance:
            first_rollout = await _rolled_out(cluster, instance, 1)
        # One as deployed, and one without a lease, so that each write can be seen. Both must plan the same, and
        # NetworkPolicies name the namespace of the operator, which is that of its lease.
        await cluster.namespaces([MANAGED_BY])
        plain = operator(cluster.kubeconfig, cluster.directory / "plain.log")
        leading = operator(cluster.kubeconfig, cluster.directory / "leading.log", f"--lease-namespace={MANAGED_BY}")
        async with plain as alone, leading as leader:
            return first_rollout, await _rest(alone, leader, seconds)


async def _rolled_out(cluster: Stage, instance: Operator, count: int) -> Rollout:
    names = [f"cloud-{number}" for number in range(count)]
    await cluster.namespaces(names)
    writes, cpu, start = await instance.writes(), instance.cpu(), time.perf_counter()
    await cluster.clouds(names)
    seconds, cpu = time.perf_counter() - start, instance.cpu() - cpu
    return Rollout(
        seconds=seconds, cpu=cpu, writes=await _writes_until_idle(instance) - writes, peak=instance.memory()[1]
    )


async def _writes_until_idle(instance: Operator) -> Writes:
    """Return its writes until it rested: it wrote nothing but renewals of its lease for a while. Raises RuntimeError if
    it never rests.
    """
    before, now = -1, await instance.writes()
    for _ in range(_LOOKS):
        if now.requests - now.renewals == before:
            return now
        before = now.requests - now.renewals
        await asyncio.sleep(_QUIET)
        now = await instance.writes()
    raise RuntimeError(f"the operator writes without an end: {now.requests} requests so far; its log says what")


async def _cpu_until_idle(instance: Operator) -> float:
    """Return its seconds of CPU since its start, once it used next to none for a while. Raises RuntimeError if it is
    never idle.
    """
    cpu, seconds_at_rest = instance.cpu(), 0
    for _ in range(10 * round(_LATE_WORK)):
        await asyncio.sleep(1)
        before, cpu = cpu, instance.cpu()
        seconds_at_rest = seconds_at_rest + 1 if cpu - before <= _AT_REST else 0
        if seconds_at_rest >= _LATE_WORK:
            return cpu
    raise RuntimeError("the operator uses CPU without an end; its log may say what for")


async def _rest(alone: Operator, leader: Operator, seconds: float) -> Rest:
    restart = (await _writes_until_idle(alone)).requests
    # Its start costs CPU, too, which is not that of an operator at rest.
    await _writes_until_idle(leader)
    start_cpu = await _cpu_until_idle(leader)
    before, counted = await leader.writes(), await alone.writes()
    cpu, end = leader.cpu(), time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0:
        await leader.ask("/readyz")
        await leader.ask("/healthz")
        await asyncio.sleep(min(_PERIOD, remaining))
    cpu = (leader.cpu() - cpu) / seconds * 100
    mine, leaders = await alone.writes() - counted, await leader.writes() - before
    memory, peak = leader.memory()
    return Rest(
        writes=mine.requests + leaders.requests - leaders.renewals,
        restart=restart,
        cpu=cpu,
        renewals=leaders.renewals / seconds * 60,
        start_cpu=start_cpu,
        memory=memory,
        peak=peak,
    )
