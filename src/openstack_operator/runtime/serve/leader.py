"""Leader election on a Lease: one replica acts, and it stops before another may start."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from threading import Thread

import structlog

from ...plan import Object, SpecError, Transient
from .. import metrics
from ..clock import boottime, now
from ..kubernetes.client import Client
from ..kubernetes.errors import Conflict, LeadershipLostError, Missing
from ..kubernetes.history import number
from ..kubernetes.kinds import LEASE
from ..process import Beat

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_BEAT = 1.0
"""Seconds between two signs of life of the loop that does the work."""


class Leader:
    """A candidate. Times in seconds: others wait `lease` after the last renewal, we give up `renew` after it. A leader
    renews the lease every `every`; a candidate, or a leader whose renewal failed, tries every `retry`.

    With `connect` a thread with its own connection renews the lease: large resources of one user, which keep the event
    loop busy for seconds, must not cost the leader its lease. A loop that is stuck for `stuck` does cost it.

    From now on the client writes only while the lease is ours.
    """

    def __init__(  # noqa: PLR0913  (the times depend on each other, and tests shorten them one by one)
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
        self._last_beat = math.inf
        """Time of the last sign of life of the loop that does the work."""
        self.namespace, self._name, self._identity = namespace, name, identity
        self._lease, self._renew, self._every, self._retry = lease, renew, every, retry
        self._clock = clock
        self._until = -math.inf
        """Time at which this process stops using the lease."""
        self._observed: tuple[str | None, float] = None, 0.0
        """Version of the lease as last read, empty where there is none and None before the first look, and the time of
        our own clock at its first reading: clocks differ."""
        self._looked = -math.inf
        """Time of our own clock at the last look at the lease."""
        self._free_from = -math.inf
        """Time before which this process takes no lease, though none holds it: the storage may have been put back to a
        state in which it was free, and a process that took it since acts for as long as it may without a renewal."""
        self._is_new: Callable[[], bool] = lambda: False
        self._last_written: tuple[str, str, int] | None = None
        """Version, time of acquisition and transitions of the lease as we wrote it last: we renew it unread."""
        client.fence = self._may_write
        self._metric = metrics.LEADER.labels(name)

    async def lead(self, work: Callable[[], Awaitable[None]], *, is_new: Callable[[], bool] = lambda: False) -> None:
        """Wait for the lease, then do the work for as long as the lease is ours, and release it at the end. `is_new`
        returns True if no replica can have led in this cluster: then nothing is to be waited for.

        Raises LeadershipLostError when it could not be renewed, after the work was stopped.
        """
        self._is_new = is_new
        while not await self._acquire():  # noqa: ASYNC110  (nothing reports a lease that lapses)
            await asyncio.sleep(self._retry)
        _log.info("leading", identity=self._identity)
        self._metric.set(1)
        task = asyncio.ensure_future(work())
        renewal = asyncio.create_task(self._renew_in_thread(self._connect()) if self._connect else self._keep_lease())
        try:
            await asyncio.wait((task, renewal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._metric.set(0)
            lost = renewal.done() and not task.done()
            for each in (task, renewal):
                each.cancel()
            # The work has stopped before the lease goes to another.
            await asyncio.gather(task, renewal, return_exceptions=True)
            remaining, self._until = self._until - self._clock(), -math.inf
            if not lost and await self._writes_end(remaining):
                await self._give_up_lease()
        if lost:
            raise self._lost()
        await task

    async def _renew_in_thread(self, client: Client) -> None:
        """Renew in a thread until that has failed for too long, and show it meanwhile that this loop is alive."""
        main_loop, ended = asyncio.get_running_loop(), asyncio.Event()
        lease_loop = asyncio.new_event_loop()
        renewal = lease_loop.create_task(self._keep_lease())
        own_client, self._client = self._client, client
        # What one of the two sees of the server's history concerns both.
        client.history = own_client.history

        def run() -> None:
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    lease_loop.run_until_complete(renewal)
                lease_loop.run_until_complete(client.close())
            finally:
                lease_loop.close()
                main_loop.call_soon_threadsafe(ended.set)

        self._last_beat = self._clock()
        beat = Beat(_BEAT, self._note_beat)
        Thread(target=run, name="lease", daemon=True).start()
        try:
            await ended.wait()
        finally:
            beat.end()
            # It may have ended by itself.
            with contextlib.suppress(RuntimeError):
                lease_loop.call_soon_threadsafe(renewal.cancel)
            await ended.wait()
            self._client = own_client

    def _note_beat(self, _: float) -> None:
        self._last_beat = self._clock()

    async def _keep_lease(self) -> None:
        """Renew until that has failed for too long, or the loop that does the work is stuck."""
        pause = self._every
        while (remaining := self._until - self._clock()) > 0:
            # The last try begins while there is time for it.
            await asyncio.sleep(pause if pause < remaining else max(0.1, remaining / 2))
            if self._clock() - self._last_beat > self._stuck:
                _log.warning("the lease is not renewed", error=f"the event loop is stuck for {self._stuck:g} s")
                pause = self._retry
                continue
            pause = self._every if await self._acquire() else self._retry

    async def _acquire(self) -> bool:
        """Return True if the lease is ours now: from the request on, since the others count from the later write.

        An answer that does not come must not use up the time for another try.
        """
        started = self._clock()
        try:
            async with asyncio.timeout(self._renew / 2):
                is_acquired = await self._extend() or await self._take()
        except (Transient, SpecError, TimeoutError) as error:
            _log.warning("cannot take the lease", error=str(error) or type(error).__name__)
            return False
        # A process that was frozen on its way here has lost the lease again.
        if is_acquired and self._clock() < started + self._renew:
            self._until = started + self._renew
            return True
        return False

    def _may_write(self) -> None:
        """Raise LeadershipLostError if another replica may act already."""
        if self._clock() >= self._until:
            raise self._lost()

    def _lost(self) -> LeadershipLostError:
        return LeadershipLostError(
            f"lease {self.namespace}/{self._name} was not renewed in {self._renew:g} s, or is held by another replica"
        )

    async def _extend(self) -> bool:
        """Return True if our own lease was renewed. It is not read first: if another client wrote it since, the API
        server refuses the write with a conflict. A process that was frozen past its time reads first: if the storage
        was put back meanwhile, the lease of another one may have the version of ours.
        """
        last_written, self._last_written = self._last_written, None
        if last_written is None or self._clock() >= self._until:
            return False
        try:
            await self._write(*last_written)
        except (Conflict, Missing):
            return False
        return True

    async def _take(self) -> bool:
        live = await self._client.get(LEASE, self.namespace, self._name)
        version = live["metadata"]["resourceVersion"] if live else ""
        spec = (live or {}).get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        leads = self._clock() < self._until
        self._observe(version, is_held=bool(holder))
        is_free = leads or self._clock() > self._free_from or self._is_new()
        if live is None:
            if is_free:
                await self._write("", _now(), 0)
            return is_free
        if leads and holder not in ("", self._identity):
            # It acts already, or does so before our last renewal is too old.
            _log.warning("another replica holds the lease", holder=holder)
            self._until = -math.inf
            return False
        # Who does not lead did not write that it does: a process before this one did, or the storage was put back.
        is_ours = holder == self._identity and leads
        expired = self._clock() - self._observed[1] > (spec.get("leaseDurationSeconds") or self._lease)
        if not (is_ours or (is_free if not holder else expired)):
            return False
        acquired = spec.get("acquireTime") if holder == self._identity else _now()
        moves = (spec.get("leaseTransitions") or 0) + (holder != self._identity)
        await self._write(version, acquired or _now(), moves)
        return True

    def _observe(self, version: str, *, is_held: bool) -> None:
        """Take in the version of the lease, empty where there is none. It is lower than before, or the lease is gone,
        if the storage was put back to a snapshot. That may have happened, too, before the first look, and while this
        process was frozen: then another one may have taken the lease, and the storage have the same version as before.
        """
        before, now = self._observed[0], self._clock()
        # Longer than between two tries: it was frozen, or the API server did not answer.
        was_away = now - self._looked > self._lease - self._renew
        self._looked = now
        if before == version and not was_away:
            return
        self._observed = version, now
        if was_away and not is_held:
            self._free_from = now + self._lease
        elif before and number(version) < number(before):
            self._free_from = now + self._lease
            if not version:
                # A client who deletes it by hand makes this process list everything again, and no more.
                self._client.history.rewind("the lease is gone")

    async def _write(self, version: str, acquired: str, transitions: int) -> None:
        """Make the lease ours if it still has that version; without a version, create it."""
        meta = {"resourceVersion": version} if version else {}
        write = self._client.replace if version else self._client.create
        live = await write(LEASE, self._lease_object(meta, acquired, transitions))
        if written := live.get("metadata", {}).get("resourceVersion"):
            self._last_written = written, acquired, transitions
            self._looked = self._clock()
            self._observed = written, self._looked

    async def _writes_end(self, seconds: float) -> bool:
        """Return True once the servers have carried out all that was sent; the next leader would not expect it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._client.sent_writes.end()
                return True
        return False

    async def _give_up_lease(self) -> None:
        """Let another replica start at once; without this it waits for the lease to lapse."""
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
    """Return the current time as metav1.MicroTime."""
    return now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
