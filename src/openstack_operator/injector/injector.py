"""Gives pods the labels of their nodes: at once where one is bound, and to all that differ."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping

import structlog

from ..plan import SpecError, Transient
from ..runtime import metrics
from ..runtime.cache.entries import Cached, Change
from ..runtime.cache.informer import Informer
from ..runtime.cache.store import Store
from ..runtime.kubernetes.client import Client
from ..runtime.kubernetes.errors import Missing
from ..runtime.kubernetes.kinds import NODE, POD
from ..runtime.process import any_of
from ..runtime.serve.queue import WorkQueue
from . import labels
from .cached_pods import pod_facts, trimmed
from .object_names import INJECTOR
from .review import Binding, Key

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_WORKERS, _PAUSE = 4, 0.2
"""At most 20 writes a second: a node's change, or a start among thousands of pods, is not to crowd out others."""
_FIRST, _LAST = 0.1, 2.0
"""Seconds within which a pod that differs is looked at again, chosen at random each time: of several replicas the first
one writes, and the others see it."""


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
        """True if all nodes and pods are known."""
        return all(informer.synced.is_set() for informer in self._informers)

    async def run(self) -> None:
        """Run until canceled."""
        await any_of(self._work(), *(informer.run() for informer in self._informers))

    async def bind(self, binding: Binding) -> None:
        """Give the pod the labels of the node it is about to be bound to, if that is known. Raises Transient or
        SpecError if it could not be written.
        """
        pod, node = self._pods.get(*binding.key), self._nodes.get("", binding.node)
        if pod and binding.uid not in ("", pod.meta.uid):
            pod = None
        # A pod is bound once: a request for another node is not from its scheduler.
        if node and not (pod and pod_facts(pod).node not in ("", binding.node)):
            await self._write(binding.key, binding.uid, _differing(pod, node))

    async def _work(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()
        self._active = True
        for pod in self._pods:
            if self._change(pod):
                self._queue.add(_key(pod))
        _log.info("synced", nodes=len(self._nodes), pods=len(self._pods), differing=len(self._queue))
        await any_of(*(self._worker() for _ in range(_WORKERS)))

    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            pod = self._pods.get(*key)
            changes = self._change(pod) if pod else {}
            try:
                if pod and changes:
                    await self._write(key, pod.meta.uid, changes)
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
            self._queue.task_done(key)

    async def _write(self, key: Key, uid: str, changes: Mapping[str, str | None]) -> None:
        if changes:
            body = {"metadata": {**({"uid": uid} if uid else {}), "labels": changes}}
            await self._client.patch(POD, *key, body, manager=INJECTOR)
            _log.info("labeled", namespace=key[0], pod=key[1], **changes)

    def _change(self, pod: Cached) -> dict[str, str | None]:
        """Return the labels to write to a pod that runs somewhere; none for an unknown node."""
        node = self._nodes.get("", pod_facts(pod).node)
        return _differing(pod, node) if node else {}

    def _pod_changed(self, change: Change) -> None:
        for pod in (change.old, change.new):
            if pod:
                on, key = self._on[pod_facts(pod).node], _key(pod)
                (on.add if pod is change.new else on.discard)(key)
        if change.new:
            self._look(change.new)

    def _node_changed(self, change: Change) -> None:
        # The kubelet writes more often than that changes.
        if _node_labels(change.old) == _node_labels(change.new):
            return
        for key in self._on.get(change.meta.name, ()):
            if pod := self._pods.get(*key):
                self._look(pod)

    def _look(self, pod: Cached) -> None:
        if self._active and self._change(pod):
            self._queue.add_after(_key(pod), random.uniform(_FIRST, _LAST))  # noqa: S311  (spreads, guards nothing)


def _key(pod: Cached) -> Key:
    return pod.meta.namespace, pod.meta.name


def _node_labels(node: Cached | None) -> dict[str, str]:
    return labels.of_node(node.meta.name, node.meta.labels) if node else {}


def _differing(pod: Cached | None, node: Cached) -> dict[str, str | None]:
    return labels.change(pod.meta.labels if pod else {}, pod_facts(pod).ours if pod else (), _node_labels(node))
