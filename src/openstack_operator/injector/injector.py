"""Gives pods the labels of their nodes: at once where one is bound, and to all that differ."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping

import structlog

from ..plan import SpecError, Transient
from ..runtime import metrics
from ..runtime.client import Client, Missing
from ..runtime.informer import Informer
from ..runtime.kinds import NODE, POD
from ..runtime.process import any_of
from ..runtime.queue import WorkQueue
from ..runtime.store import Cached, Change, Store
from . import labels
from .names import INJECTOR
from .pods import seen, trimmed
from .review import Binding, Key

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_WORKERS, _PAUSE = 4, 0.2
"""At most 20 writes a second: a node's change, or a start among thousands of pods, is not to crowd out others."""
_FIRST, _LAST = 0.1, 2.0
"""Seconds within which a pod that differs is looked at again, drawn anew each time: of several replicas the one that
comes first writes, and the others see it."""


class Injector:
    """Keeps pods labeled. Several may run at once: a label written twice is the same label."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._nodes = Store(NODE, self._node_changed)
        self._pods = Store(POD, self._pod_changed)
        self._informers = (
            Informer(client, self._nodes, metadata_only=True),
            Informer(client, self._pods, read=trimmed),
        )
        self._on: defaultdict[str, set[Key]] = defaultdict(set)
        """Pods by node."""
        self._queue = WorkQueue[Key](INJECTOR)
        self._active = False

    @property
    def synced(self) -> bool:
        """Whether all nodes and pods are known."""
        return all(informer.synced.is_set() for informer in self._informers)

    async def run(self) -> None:
        """Runs until canceled."""
        await any_of(self._work(), *(informer.run() for informer in self._informers))

    async def bind(self, binding: Binding) -> None:
        """The pod has the labels of the node it is about to be bound to, if that is known. Raises Transient, SpecError
        where it could not be written.
        """
        held, node = self._pods.get(*binding.key), self._nodes.get("", binding.node)
        if held and binding.uid not in ("", held.meta.uid):
            held = None
        # A pod is bound once: whoever asks for another node is not its scheduler.
        if node and not (held and seen(held).node not in ("", binding.node)):
            await self._write(binding.key, binding.uid, _differing(held, node))

    async def _work(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()
        self._active = True
        for held in self._pods:
            if self._change(held):
                self._queue.add(_key(held))
        _log.info("synced", nodes=len(self._nodes), pods=len(self._pods), differing=len(self._queue))
        await any_of(*(self._worker() for _ in range(_WORKERS)))

    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            held = self._pods.get(*key)
            changes = self._change(held) if held else {}
            try:
                if held and changes:
                    await self._write(key, held.meta.uid, changes)
                    metrics.RECONCILES.labels(INJECTOR, "success").inc()
                    await asyncio.sleep(_PAUSE)
                self._queue.forget(key)
            except Missing:
                # It is gone; of another one of its name a watch tells.
                self._queue.forget(key)
            except (Transient, SpecError) as error:
                metrics.ERRORS.labels(INJECTOR).inc()
                delay = self._queue.retry(key, slowly=isinstance(error, SpecError))
                _log.warning("cannot label", namespace=key[0], pod=key[1], error=str(error), again=round(delay))
            self._queue.done(key)

    async def _write(self, key: Key, uid: str, changes: Mapping[str, str | None]) -> None:
        if changes:
            body = {"metadata": {**({"uid": uid} if uid else {}), "labels": changes}}
            await self._client.patch(POD, *key, body, manager=INJECTOR)
            _log.info("labeled", namespace=key[0], pod=key[1], **changes)

    def _change(self, held: Cached) -> dict[str, str | None]:
        """What is to be written to a pod that runs somewhere; a node nobody knows says nothing."""
        node = self._nodes.get("", seen(held).node)
        return _differing(held, node) if node else {}

    def _pod_changed(self, change: Change) -> None:
        for held in (change.old, change.new):
            if held:
                on, key = self._on[seen(held).node], _key(held)
                (on.add if held is change.new else on.discard)(key)
        if change.new:
            self._look(change.new)

    def _node_changed(self, change: Change) -> None:
        # The kubelet writes more often than that changes.
        if _wanted(change.old) == _wanted(change.new):
            return
        for key in self._on.get(change.meta.name, ()):
            if held := self._pods.get(*key):
                self._look(held)

    def _look(self, held: Cached) -> None:
        if self._active and self._change(held):
            self._queue.add_after(_key(held), random.uniform(_FIRST, _LAST))  # noqa: S311  (spreads, guards nothing)


def _key(held: Cached) -> Key:
    return held.meta.namespace, held.meta.name


def _wanted(node: Cached | None) -> dict[str, str]:
    return labels.of_node(node.meta.name, node.meta.labels) if node else {}


def _differing(held: Cached | None, node: Cached) -> dict[str, str | None]:
    return labels.change(held.meta.labels if held else {}, seen(held).ours if held else (), _wanted(node))
