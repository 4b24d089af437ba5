"""The history of an API server's storage, as its answers show it, and the moment when it is not continued."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import Lock

import msgspec
import structlog

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_REMEMBERED = 4_096
"""Objects whose last version is remembered: those that this process asks for most are among the latest."""


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_object = msgspec.json.Decoder(_Object)


def number(version: str) -> int:
    """Return a resource version as a number, 0 for one that is none. It counts up within one storage (KEP-5504)."""
    return int(version) if version.isascii() and version.isdigit() else 0


class History:
    """Versions of single objects in the answers of an API server.

    A later answer about the same object has no lower version, unless the storage was put back to a snapshot. Versions
    of different objects are not compared, since an API server may keep each kind in a storage of its own, and the
    answer to a read or to a write that changes nothing has the version of the last change, however long ago that was.
    Threads may share it.
    """

    def __init__(self) -> None:
        self.epoch = 0
        """Number of times that the storage was found to have been put back: lower versions are right from then on."""
        self.on_rewind: Callable[[], None] = lambda: None
        """Called, from any thread, each time the storage was put back."""
        self._moments = itertools.count(1)
        self._latest: dict[str, tuple[int, int]] = {}
        """Version and moment of the last answer about an object, by uid."""
        self._lock = Lock()

    def moment(self) -> int:
        """Return the moment at which a request is sent. Answers may come in another order than that of their reads."""
        return next(self._moments)

    def note(self, content: bytes, sent: int) -> None:
        """Take in an answer about one object to a request of that moment; an answer about nothing changes nothing."""
        try:
            meta = _object.decode(content).metadata
        except (msgspec.MsgspecError, RecursionError):
            # An object that is nested too deep to be read is refused by the pass over it.
            return
        if not meta.uid or not (version := number(meta.resource_version)):
            return
        with self._lock:
            latest, received = self._latest.pop(meta.uid, (0, 0))
            is_older = version < latest
            self._latest[meta.uid] = version if received < sent else max(version, latest), self.moment()
            if len(self._latest) > _REMEMBERED:
                del self._latest[next(iter(self._latest))]
        if is_older and received < sent:
            self.rewind(f"an object of version {latest} has version {version} now")

    def rewind(self, evidence: str) -> None:
        """Begin a new epoch, because of evidence that the storage was put back."""
        with self._lock:
            self.epoch += 1
            self._latest.clear()
        _log.warning(
            "the API server was restored to an earlier state; the operator lists all objects again", evidence=evidence
        )
        self.on_rewind()
