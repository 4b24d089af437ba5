"""Informers: each keeps a store equal to one kind in the cluster, through outages and expired versions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Literal, NoReturn

import msgspec
import structlog

from ...plan import SpecError, Transient
from .. import metrics
from ..clock import boottime
from ..kubernetes.client import PAGE, SILENCE, Client
from ..kubernetes.discovery import Discovery
from ..kubernetes.errors import Forbidden, Missing, ResourceExpired, TooLarge, WatchSilent
from ..kubernetes.history import number
from ..kubernetes.kinds import Kind, optional_role
from ..process import any_of
from .budget import Listing
from .entries import Cached, cached
from .store import Store

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_QUIET_SECONDS = SILENCE * 0.9
"""Length of a watch where the server may send no bookmarks: it ends, and continues from its version, before silence
looks like a dead connection."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_LIST_AGAIN = 60.0
"""Seconds between two requested lists: a large one is much work."""
_BREATH = 256
"""Events after which other tasks may use the loop."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Version(msgspec.Struct):
    metadata: _ListMeta


class _Identity(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _Identified(msgspec.Struct):
    metadata: _Identity


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


_page = msgspec.json.Decoder(_Page)
_event = msgspec.json.Decoder(_Event)
_bookmark = msgspec.json.Decoder(_Version)
_identified = msgspec.json.Decoder(_Identified)
_status = msgspec.json.Decoder(_Status)


class Informer:
    """List and watch of one kind, in one namespace or in all, narrowed by a label selector."""

    watch_seconds: float = 1500
    """Length of a watch: a new one costs as much as half an hour of bookmarks; servers end it after half an hour."""
    trusted_seconds: float = 1200
    """Age from which a watch that ends is followed by a new list. If a storage was put back by a few writes, and has
    come beyond the version of the watch by now, nothing else shows that objects changed.
    """

    def __init__(  # noqa: PLR0913  (what is listed, how it is read, and who hears of it)
        self,
        client: Client,
        store: Store,
        *,
        namespace: str | None = None,
        selector: str = "",
        fields: str = "",
        metadata_only: bool = False,
        read: Callable[[bytes, Kind], Cached] = cached,
        discovery: Discovery | None = None,
        on_kinds_changed: Callable[[], None] = lambda: None,
        after: Sequence[Informer] = (),
        has_bookmarks: bool = True,
    ) -> None:
        """Use `discovery` for a kind that may be absent, whose list is then empty. `on_kinds_changed` is called when it
        comes or goes. `fields` is a field selector; the informers in `after` list first. `has_bookmarks` is False for a
        kind of which servers keep no cache. If watches of another kind have none, either, the next watch is short.
        """
        self.synced = asyncio.Event()
        """Set once the first list is in."""
        self.is_served = False
        """True if the API has the kind, and lets the operator read it."""
        self.is_forbidden = False
        """True if the API has the kind, which may be absent, and the operator has no right to it."""
        self.store = store
        self._on_kinds_changed = on_kinds_changed
        self._client = client
        self.namespace = namespace
        self._query = {"labelSelector": selector} if selector else {}
        self._query |= {"fieldSelector": fields} if fields else {}
        self._metadata_only = metadata_only
        self._read = read
        self._discovery = discovery
        self._after = after
        self._list_requested = asyncio.Event()
        self._listed = 0.0
        self._is_listing = False
        self._version = ""
        """Version from which the watch continues; empty asks for a new list."""
        self._latest, self._epoch = 0, 0
        """Latest version of any answer about the kind, and the epoch of the server's history that it belongs to."""
        self._has_bookmarks = has_bookmarks
        """True if the last watch brought bookmarks, or the next one may."""
        self._pause = _FIRST_PAUSE

    def list_again(self) -> None:
        """List the watched objects again, because the store dropped some; once a minute at most."""
        if boottime() - self._listed > _LIST_AGAIN:
            self._list_requested.set()

    def start_over(self) -> None:
        """List everything again at once, and be unsynced until then, because the API server has another state."""
        self.synced.clear()
        self._list_requested.set()

    async def run(self) -> None:
        """Run until canceled; no fault of the API server ends it."""
        for informer in self._after:
            await informer.synced.wait()
        if self._discovery is None:
            await self._follow()
        while discovery := self._discovery:
            kind = self.store.kind
            if not await discovery.serves(kind):
                self._list_requested.clear()
                self._empty()
                await any_of(discovery.wait_until(kind, served=True), self._until_requested())
                if not await discovery.serves(kind):
                    continue
            self._version, self._pause = "", _FIRST_PAUSE
            await any_of(self._follow(), discovery.wait_until(kind, served=False))

    async def list_once(self) -> None:
        """Fill the store, and follow no change. Raises Forbidden, Missing and Transient, but for a kind that may be
        absent only Transient.
        """
        if self._discovery and not await self._discovery.serves(self.store.kind):
            self._empty()
            return
        try:
            await self._list()
        except (Forbidden, Missing) as error:
            if self._discovery is None:
                raise
            if isinstance(error, Missing):
                self._empty()
            else:
                self._forbid(error)
        else:
            self._set_served(served=True)

    async def _follow(self) -> NoReturn:
        kind = self.store.kind.kind
        while True:
            self._is_listing = False
            try:
                is_old = boottime() - self._listed > self.trusted_seconds
                if is_old or not self._version or self._epoch != self._client.history.epoch:
                    self._list_requested.clear()
                    self._is_listing = True
                    await self._list()
                    self._is_listing = False
                    if self._epoch != self._client.history.epoch:
                        continue
                    self._listed = boottime()
                    self._set_served(served=True)
                elif not await self._is_current():
                    self._version = ""
                    continue
                await any_of(self._watch(), self._until_requested())
                self._version = "" if self._list_requested.is_set() else self._version
                continue
            except ResourceExpired:
                self._version = ""
            except WatchSilent as error:
                # The server sends bookmarks, or ends the watch before: it does not know the version, or is gone.
                _log.info("watch was silent", kind=kind, error=str(error))
                self._version = ""
                continue
            except (Forbidden, Missing) as error:
                # The permission or the kind itself is missing: other informers must go on, and it may still come.
                if self._discovery and isinstance(error, Missing):
                    self._empty()
                elif self._discovery:
                    self._forbid(error)
                else:
                    _log.warning("cannot watch", kind=kind, error=str(error))
                self._version, self._pause = "", max(self._pause, 5.0)
            except Transient as error:
                self._note_break(error)
            except (SpecError, msgspec.MsgspecError) as error:
                # Not an answer of this API: another program answers at its address, for now.
                _log.warning("cannot read the answer", kind=kind, error=str(error))
                self._version = ""
            await asyncio.sleep(self._pause * random.uniform(0.5, 1))  # noqa: S311  (spreads load, guards nothing)
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _note_break(self, error: Transient) -> None:
        """Log a watch that broke, as it does now and then, or a list that failed. A renewed list is put off, and the
        watch goes on; without any list, every plan waits.
        """
        log = _log.debug if self._version else _log.warning
        log("watch broke", kind=self.store.kind.kind, error=str(error))
        if self._version and self._is_listing:
            self._listed = max(self._listed, boottime() - self.trusted_seconds + _LIST_AGAIN)

    async def _until_requested(self) -> None:
        await self._list_requested.wait()

    async def _is_current(self) -> bool:
        """Return True if the server has reached the version from which the watch would continue. If its storage was put
        back, the watch would be silent until it has, and never say what changed meanwhile.
        """
        epoch = self._client.history.epoch
        # Without selectors, by which the server would have to look at more than one object.
        content = await self._client.page(self.store.kind, self.namespace, {"limit": "1"}, metadata_only=True)
        return self._continues(_page.decode(content).metadata.resource_version, epoch)

    def _follows(self, version: str, epoch: int) -> bool:
        """Take in the version of what a watch brings. Return False if it is lower than one before, and ask for a new
        list, which shows why: an API server may repeat events, but no read from its storage goes back.
        """
        now = number(version)
        if epoch == self._client.history.epoch == self._epoch and 0 < now < self._latest:
            _log.info("a watch returned an older version", kind=self.store.kind.kind, version=now, latest=self._latest)
            self._version = ""
            return False
        return self._continues(version, epoch)

    def _continues(self, version: str, epoch: int) -> bool:
        """Take in the version of an answer to a request of an epoch. Return False if it is lower than one before:
        the server's storage was put back, and all has to be listed again.
        """
        now, history = number(version), self._client.history
        if epoch != history.epoch:
            return False
        is_older = epoch == self._epoch and 0 < now < self._latest
        if is_older:
            self._version = ""
            history.rewind(f"{self.store.kind.plural} of version {self._latest} have version {now} now")
        self._latest, self._epoch = now or self._latest, history.epoch
        return not is_older

    def _empty(self) -> None:
        """Empty the store: all objects of a kind go with its definition."""
        if self.store.budget:
            Listing(self.store.budget, self.store, self.namespace).complete()
        self.store.replace(self.namespace, ())
        self._set_served(served=False)

    def _forbid(self, error: Exception) -> None:
        """Stop waiting for the kind, and keep its objects as of the time when the operator still had the right."""
        log = _log.debug if self.is_forbidden else _log.warning
        log("cannot watch", kind=self.store.kind.kind, role=optional_role(self.store.kind), error=str(error))
        self._set_served(served=False, forbidden=True)

    def _set_served(self, *, served: bool, forbidden: bool = False) -> None:
        """Record that the store holds what the API has of the kind, as far as the operator may read it."""
        before, now = (self.is_served, self.is_forbidden), (served, forbidden)
        self.is_served, self.is_forbidden = now
        if self.synced.is_set() and before != now:
            self._on_kinds_changed()
        self.synced.set()

    async def _list(self) -> None:
        metrics.RELISTS.labels(self.store.kind.kind).inc()
        listing = Listing(self.store.budget, self.store, self.namespace) if self.store.budget else None
        items: list[Cached] = []
        before = self.store.versions()
        epoch, token, limit = self._client.history.epoch, "", PAGE
        while True:
            query = {**self._query, "limit": str(limit), **({"continue": token} if token else {})}
            try:
                content = await self._client.page(
                    self.store.kind, self.namespace, query, metadata_only=self._metadata_only
                )
            except TooLarge:
                limit = max(1, limit // 8)
                continue
            page = _page.decode(content)
            read = (item for raw in page.items or () if (item := self._item(raw)))
            items += [item for item in read if listing is None or listing.keeps(item)]
            token = page.metadata.continue_
            if not token:
                break
            await asyncio.sleep(0)
        self._version = page.metadata.resource_version
        if listing:
            listing.complete()
        evidence = self.store.replace(self.namespace, items, self._version, before=before)
        if evidence and epoch == self._epoch == self._client.history.epoch:
            # Other kinds went back, too, and their watches may be beyond the present version as this one was.
            self._client.history.rewind(evidence)
        self._continues(self._version, epoch)
        # Also where it does not continue what was known, it is how things are now.
        self._version = page.metadata.resource_version

    def _item(self, content: msgspec.Raw) -> Cached | None:
        """Return the entry of one object; log one that cannot be read and return None: the others must go on."""
        try:
            return self._read(bytes(content), self.store.kind)
        except Exception as error:
            # Not its text: it may quote what the object holds.
            _log.error(
                "cannot read an object", kind=self.store.kind.kind, error=type(error).__name__, **_identify(content)
            )
            metrics.PANICS.labels(self.store.kind.kind).inc()
            return None

    async def _watch(self) -> None:
        """Follow changes until the server ends the watch. Raises ResourceExpired when the version has expired."""
        longest = self.watch_seconds if self._has_bookmarks else _QUIET_SECONDS
        seconds = str(int(longest * random.uniform(0.8, 1)))  # noqa: S311
        query = {**self._query, "resourceVersion": self._version, "timeoutSeconds": seconds}
        self._has_bookmarks = False
        lines = self._client.watch(self.store.kind, self.namespace, query, metadata_only=self._metadata_only)
        count, epoch = 0, self._client.history.epoch
        counter = metrics.EVENTS.labels(self.store.kind.kind)
        async for line in lines:
            event = _event.decode(line)
            self._pause = _FIRST_PAUSE
            if event.type == "ERROR":
                status = _status.decode(event.object)
                raise ResourceExpired(status.message) if status.code == 410 else Transient(status.message)
            if event.type == "BOOKMARK":
                self._has_bookmarks = True
                self._version = _bookmark.decode(event.object).metadata.resource_version
                if not self._follows(self._version, epoch):
                    return
                continue
            if (item := self._item(event.object)) is None:
                continue
            if not self._follows(item.meta.resource_version, epoch):
                return
            if event.type == "DELETED":
                self.store.remove(item)
            else:
                self.store.put(item)
            self._version = item.meta.resource_version
            counter.inc()
            count += 1
            if count % _BREATH == 0:
                await asyncio.sleep(0)


def _identify(content: msgspec.Raw) -> dict[str, str]:
    """Return namespace and name of an object; empty where even they cannot be read."""
    try:
        meta = _identified.decode(content).metadata
    except msgspec.MsgspecError:
        return {}
    return {"namespace": meta.namespace, "name": meta.name}
