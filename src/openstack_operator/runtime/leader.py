"""Leader election on a Lease: one replica acts, and it stops before another may start."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from threading import Thread

import structlog

from ..plan import Object, SpecError, Transient
from . import metrics
from .client import Client, Conflict, LeadershipLostError, Missing
from .kinds import LEASE

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_BEAT = 1.0
"""Seconds between two signs of life of the loop that does the work."""


def boottime() -> float:
    """Seconds that go on while the machine sleeps, which Python's monotonic clock does not count on Linux."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Leader:
    """A candidate. Times in seconds: others wait `lease` after the last renewal, we give up `renew` after it. The lease
    is renewed every `every`, and asked for every `retry` as long as it is not ours or a renewal failed.

    With `connect` it is renewed in a thread with a connection of its own: large resources of one user, which keep the
    event loop busy for seconds, must not cost the leader its lease. A loop that is stuck for `stuck` does cost it.

    From now on the client writes only while the lease is ours.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        *,
        name: str = "openstack-operator",
        lease: float = 10,
        renew: float = 7,
        every: float = 3,
        retry: float = 1.5,
        stuck: float = 30,
        clock: Callable[[], float] = boottime,
        connect: Callable[[], Client] | None = None,
    ) -> None:
        self._client = client
        self._connect = connect
        self._stuck = stuck
        self._beaten = math.inf
        """When the loop that does the work last gave a sign of life."""
        self.namespace, self._name, self._identity = namespace, name, identity
        self._lease, self._renew, self._every, self._retry = lease, renew, every, retry
        self._clock = clock
        self._until = -math.inf
        """When the lease ends as far as this process is concerned."""
        self._seen: tuple[str, float] = "", 0.0
        """Version of the lease as last read, and when it was first seen by our own clock: clocks of machines differ."""
        self._own: tuple[str, str, int] | None = None
        """Version, time of acquisition and transitions of the lease as we wrote it last: it is renewed unread."""
        client.fence = self._may_write
        self._metric = metrics.LEADER.labels(name)

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Waits for the lease, then does the work for as long as the lease is ours, and gives it up at the end.

        Raises LeadershipLostError when it could not be renewed, after the work was stopped.
        """
        while not await self._acquire():  # noqa: ASYNC110  (nothing tells of a lease that lapses)
            await asyncio.sleep(self._retry)
        _log.info("leading", identity=self._identity)
        self._metric.set(1)
        task = asyncio.ensure_future(work())
        renewal = asyncio.create_task(self._keep_apart(self._connect()) if self._connect else self._keep())
        try:
            await asyncio.wait((task, renewal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._metric.set(0)
            lost = renewal.done() and not task.done()
            for each in (task, renewal):
                each.cancel()
            # The work has stopped before the lease goes to another.
            await asyncio.gather(task, renewal, return_exceptions=True)
            self._until = -math.inf
            if not lost:
                await self._release()
        if lost:
            raise self._lost()
        await task

    async def _keep_apart(self, client: Client) -> None:
        """Renews in a thread until that has failed for too long, and tells it meanwhile that this loop is alive."""
        here, ended = asyncio.get_running_loop(), asyncio.Event()
        there = asyncio.new_event_loop()
        keeping = there.create_task(self._keep())
        ours, self._client = self._client, client

        def run() -> None:
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    there.run_until_complete(keeping)
                there.run_until_complete(client.close())
            finally:
                there.close()
                here.call_soon_threadsafe(ended.set)

        self._beaten = self._clock()
        Thread(target=run, name="lease", daemon=True).start()
        try:
            while not ended.is_set():
                self._beaten = self._clock()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _BEAT)
        finally:
            # It may have ended by itself.
            with contextlib.suppress(RuntimeError):
                there.call_soon_threadsafe(keeping.cancel)
            await ended.wait()
            self._client = ours

    async def _keep(self) -> None:
        """Renews until that has failed for too long, or the loop that does the work is stuck."""
        pause = self._every
        while (left := self._until - self._clock()) > 0:
            # The last try begins while there is time for it.
            await asyncio.sleep(pause if pause < left else max(0.1, left / 2))
            if self._clock() - self._beaten > self._stuck:
                _log.warning("the lease is not renewed", error=f"the event loop is stuck for {self._stuck:g} s")
                pause = self._retry
                continue
            pause = self._every if await self._acquire() else self._retry

    async def _acquire(self) -> bool:
        """Whether the lease is ours now; from when it was asked for on, since the others count from when it was given.

        An answer that does not come must not use up the time for another try.
        """
        started = self._clock()
        try:
            async with asyncio.timeout(self._renew / 2):
                taken = await self._extend() or await self._take()
        except (Transient, SpecError, TimeoutError) as error:
            _log.warning("cannot take the lease", error=str(error) or type(error).__name__)
            return False
        # A process that was frozen on its way here has lost what it was given.
        if taken and self._clock() < started + self._renew:
            self._until = started + self._renew
            return True
        return False

    def _may_write(self) -> None:
        """Raises LeadershipLostError where another replica may act already."""
        if self._clock() >= self._until:
            raise self._lost()

    def _lost(self) -> LeadershipLostError:
        return LeadershipLostError(f"lease {self.namespace}/{self._name} was not renewed in {self._renew:g} s")

    async def _extend(self) -> bool:
        """Whether our own lease was renewed. What nobody else has written since needs not be read, and what somebody
        has is refused with a conflict.
        """
        own, self._own = self._own, None
        if own is None:
            return False
        try:
            await self._write(*own)
        except (Conflict, Missing):
            return False
        return True

    async def _take(self) -> bool:
        live = await self._client.get(LEASE, self.namespace, self._name)
        if live is None:
            await self._write("", _now(), 0)
            return True
        spec, version = live.get("spec") or {}, live["metadata"]["resourceVersion"]
        holder = spec.get("holderIdentity") or ""
        if self._seen[0] != version:
            self._seen = version, self._clock()
        expired = self._clock() - self._seen[1] > (spec.get("leaseDurationSeconds") or self._lease)
        if holder not in ("", self._identity) and not expired:
            return False
        acquired = spec.get("acquireTime") if holder == self._identity else _now()
        moves = (spec.get("leaseTransitions") or 0) + (holder != self._identity)
        await self._write(version, acquired or _now(), moves)
        return True

    async def _write(self, version: str, acquired: str, transitions: int) -> None:
        """Makes the lease ours, against that version of it; without one there must be none."""
        meta = {"resourceVersion": version} if version else {}
        write = self._client.replace if version else self._client.create
        live = await write(LEASE, self._lease_object(meta, acquired, transitions))
        if written := live.get("metadata", {}).get("resourceVersion"):
            self._own = written, acquired, transitions

    async def _release(self) -> None:
        """Lets another replica start at once; without this it waits for the lease to lapse."""
        with contextlib.suppress(Transient, SpecError, TimeoutError):
            async with asyncio.timeout(self._retry):
                live = await self._client.get(LEASE, self.namespace, self._name)
                if live and (live.get("spec") or {}).get("holderIdentity") == self._identity:
                    live["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(LEASE, live)

    def _lease_object(self, metadata: Object, acquired: str, transitions: int) -> Object:
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self.namespace, **metadata},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._lease)),
                "acquireTime": acquired,
                "renewTime": _now(),
                "leaseTransitions": transitions,
            },
        }


def _now() -> str:
    """Now, as metav1.MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
