"""The kinds that the API serves: one question, repeated, in place of one for each kind that may be absent."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable, Iterator
from typing import NoReturn

import msgspec
import structlog

from ...plan import SpecError, Transient
from .client import Client
from .errors import Forbidden, Missing
from .kinds import Kind

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

PERIOD = 20.0
"""Seconds between two questions; an answer that did not change is a 304 without a body."""


class _Resource(msgspec.Struct):
    resource: str = ""


class _Version(msgspec.Struct):
    version: str = ""
    resources: list[_Resource] = []
    freshness: str = ""


class _Name(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Name = msgspec.field(default_factory=_Name)
    name: str = ""
    versions: list[_Version] = []


class _Answer(msgspec.Struct):
    """An APIGroupDiscoveryList, or, of a server older than that, an APIGroupList, which names no resources."""

    items: list[_Group] | None = None
    groups: list[_Group] | None = None


_answer = msgspec.json.Decoder(_Answer)


class Discovery:
    """A record of which kinds the API serves. Of two versions of a kind it counts the newer one alone."""

    def __init__(self, client: Client, kinds: Iterable[Kind], *, period: float = PERIOD) -> None:
        self._client = client
        self._kinds = tuple(kinds)
        self._period = period
        self._served: frozenset[Kind] | None = None
        """None before the first answer."""
        self._changed = asyncio.Event()
        self._etag = ""
        self._asked_again = asyncio.Event()

    def ask_again(self) -> None:
        """Ask at once, and take a whole answer."""
        self._etag = ""
        self._asked_again.set()

    async def run(self) -> NoReturn:
        """Ask until canceled; no fault of the API server ends it."""
        while True:
            pause = self._period
            try:
                content, self._etag = await self._client.discover(self._etag)
                if content is not None:
                    self._set(self._read(content))
            except (Forbidden, Missing) as error:
                self._etag = ""
                # An account that may list a kind need not be allowed to discover it. Then listing the kind tells.
                _log.debug("cannot discover kinds", error=str(error))
                self._set(kind for kind in self._kinds if not kind.superseded_by)
            except (Transient, SpecError, msgspec.MsgspecError) as error:
                self._etag = ""
                _log.debug("cannot discover kinds", error=str(error))
                pause = self._period if self._served is not None else min(1.0, self._period)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.5, 1)):  # noqa: S311  (spreads load, guards nothing)
                    await self._asked_again.wait()
            self._asked_again.clear()

    async def serves(self, kind: Kind) -> bool:
        """Return whether the API has the kind, once that is known."""
        while self._served is None:
            await self._changed.wait()
        return kind in self._served

    async def wait_until(self, kind: Kind, *, served: bool) -> None:
        """Wait until the API has the kind, or has it no longer."""
        while await self.serves(kind) is not served:
            await self._changed.wait()

    def _set(self, kinds: Iterable[Kind]) -> None:
        served = frozenset(kinds)
        if served != self._served:
            self._served = served
            self._changed.set()
            self._changed = asyncio.Event()

    def _read(self, content: bytes) -> Iterator[Kind]:
        answer = _answer.decode(content)
        whole = {(group.metadata.name, each.version): each for group in answer.items or () for each in group.versions}
        group_versions = {(group.name, each.version) for group in answer.groups or () for each in group.versions}

        def has(kind: Kind) -> bool:
            version = whole.get((kind.group, kind.version))
            if version is None:
                return (kind.group, kind.version) in group_versions
            if version.freshness == "Stale":
                # Another server answers for this group, and did not: what it said last counts.
                return kind in (self._served or ())
            return any(each.resource == kind.plural for each in version.resources)

        present = {kind for kind in self._kinds if has(kind)}
        versions = {(kind.handle, kind.api_version) for kind in present}
        return (kind for kind in present if (kind.handle, kind.superseded_by) not in versions)
