"""Leader election on a Lease: one replica acts, and it stops before another may start."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from ..plan import Object, SpecError, Transient
from . import metrics
from .client import Client
from .kinds import LEASE

_log: structlog.stdlib.BoundLogger = structlog.get_logger()


class LeadershipLostError(Exception):
    """The lease could not be renewed in time; another replica may act from now on."""


class Leader:
    """A candidate. Times in seconds: others wait `lease` after the last renewal, we give up `renew` after it."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        *,
        name: str = "openstack-operator",
        lease: float = 15,
        renew: float = 10,
        retry: float = 2,
    ) -> None:
        self._client = client
        self._namespace, self._name, self._identity = namespace, name, identity
        self._lease, self._renew, self._retry = lease, renew, retry
        self._seen: tuple[str, float] = "", 0.0
        """Version of the lease as last read, and when (monotonic) it was first seen: clocks of machines differ."""
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
        renewal = asyncio.create_task(self._keep())
        try:
            await asyncio.wait((task, renewal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._metric.set(0)
            lost = renewal.done() and not task.done()
            for each in (task, renewal):
                each.cancel()
            # The work has stopped before the lease goes to another.
            await asyncio.gather(task, renewal, return_exceptions=True)
            if not lost:
                await self._release()
        if lost:
            raise LeadershipLostError(f"lease {self._namespace}/{self._name} was not renewed in {self._renew} s")
        await task

    async def _keep(self) -> None:
        """Renews until that has failed for too long."""
        renewed = time.monotonic()
        while time.monotonic() - renewed < self._renew:
            await asyncio.sleep(self._retry)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, renewed + self._renew - time.monotonic())):
                    started = time.monotonic()
                    if await self._acquire():
                        renewed = started

    async def _acquire(self) -> bool:
        """Whether the lease is ours now."""
        try:
            return await self._take()
        except (Transient, SpecError) as error:
            _log.warning("cannot take the lease", error=str(error))
            return False

    async def _take(self) -> bool:
        live = await self._client.get(LEASE, self._namespace, self._name)
        if live is None:
            await self._client.create(LEASE, self._lease_object({}, _now(), 0))
            return True
        spec, version = live.get("spec") or {}, live["metadata"]["resourceVersion"]
        holder = spec.get("holderIdentity") or ""
        if self._seen[0] != version:
            self._seen = version, time.monotonic()
        expired = time.monotonic() - self._seen[1] > (spec.get("leaseDurationSeconds") or self._lease)
        if holder not in ("", self._identity) and not expired:
            return False
        acquired = spec.get("acquireTime") if holder == self._identity else _now()
        moves = (spec.get("leaseTransitions") or 0) + (holder != self._identity)
        meta = {"resourceVersion": version}
        await self._client.replace(LEASE, self._lease_object(meta, acquired or _now(), moves))
        return True

    async def _release(self) -> None:
        """Lets another replica start at once; without this it waits for the lease to lapse."""
        with contextlib.suppress(Transient, SpecError, TimeoutError):
            async with asyncio.timeout(self._retry):
                live = await self._client.get(LEASE, self._namespace, self._name)
                if live and (live.get("spec") or {}).get("holderIdentity") == self._identity:
                    live["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(LEASE, live)

    def _lease_object(self, metadata: Object, acquired: str, transitions: int) -> Object:
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, **metadata},
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
