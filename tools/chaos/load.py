"""A steady load: each kind a thread of its own, at its own pace, every attempt in the journal."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from .journal import Attempt, Journal, now


class Client(Protocol):
    """A request that is sent to the cloud again and again."""

    @property
    def kind(self) -> str: ...

    @property
    def interval(self) -> float:
        """Seconds from one attempt to the next."""
        ...

    def attempt(self, number: int) -> str:
        """Return the key of what was written and acknowledged; empty for a read. Raises any exception if it failed."""
        ...


class Writer(Client, Protocol):
    """A client that writes, and can say what became of it."""

    def present(self) -> set[str]:
        """Return the keys of everything the cloud has of this kind. Raises anything when it cannot tell."""
        ...


class Load:
    """Clients at work, from `with` to its end."""

    def __init__(self, journal: Journal, clients: Sequence[Client]) -> None:
        self.journal, self.clients = journal, clients
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(client,), daemon=True) for client in clients]

    @property
    def intervals(self) -> dict[str, float]:
        return {client.kind: client.interval for client in self.clients}

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def silent(self, since: float) -> list[str]:
        """Return the kinds that had no acknowledged request that began after a moment."""
        heard = {a.kind for a in self.journal.between(since) if not a.error and a.began >= since}
        return sorted({client.kind for client in self.clients} - heard)

    def _work(self, client: Client) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            began = now()
            key, error = "", ""
            try:
                key = client.attempt(number)
            except Exception as failure:  # whatever goes wrong is what is measured here
                error = f"{type(failure).__name__}: {failure}"[:300]
            self.journal.add(Attempt(client.kind, began, now(), key, error))
            self._ended.wait(max(0.0, client.interval - (now() - began)))
