"""The connections of one process to the API server, in the place of an HTTP client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import httpx2 as httpx
import msgspec

from openstack_operator.runtime.kubernetes.client import Client

from .api_server import Answer, ApiServer, Request, bookmark, encode_watch, selector, shown
from .loop import Process, VirtualLoop

_BOOKMARKS = 100.0
"""Seconds between two; twice as long as those of real servers, which are some of the work of a schedule."""
_TIMEOUT = 10.0
_OVERLOADS = (
    Answer(429, b'{"kind":"Status","code":429,"message":"too many requests"}', {"Retry-After": "1"}),
    Answer(429, b'{"kind":"Status","code":429,"message":"too many requests"}', {"Retry-After": "30"}),
    Answer(500, b'{"kind":"Status","code":500,"message":"etcdserver: leader changed"}'),
    Answer(503, b'{"kind":"Status","code":503,"message":"apiserver is shutting down"}', {"Retry-After": "1"}),
    Answer(504, b'{"kind":"Status","code":504,"message":"request did not complete within the allotted timeout"}'),
)
WEBHOOKS = {
    "does not answer": Answer(
        500, b'{"kind":"Status","code":500,"message":"failed calling webhook \\"a.example.org\\": connection refused"}'
    ),
    "denies": Answer(
        403, b'{"kind":"Status","code":403,"message":"admission webhook \\"a.example.org\\" denied the request: no"}'
    ),
}
"""What the API server answers to a write while a webhook of another program has a fault."""
_SLOW = 0.05
_ENDS_WITH_ERROR = 0.5
"""Probability that a watch whose version has expired says so before it ends."""


@dataclass
class Response:
    """What the client reads of a response."""

    status_code: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    async def aread(self) -> bytes:
        return self.content

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        yield self.content


class Network:
    """What lies between all processes and the API server: delays, losses and cuts, as long as `is_faulty`."""

    def __init__(self, loop: VirtualLoop, server: ApiServer, random: Random) -> None:
        self.loop, self.server, self.random = loop, server, random
        self.trace: list[tuple[float, str]] = []
        self.latency = 0.05
        self.lag = 0.2
        """Longest delay of an event of a watch."""
        self.loss = self.cuts = self.stale = self.conflicts = self.overload = 0.0
        """Probabilities: of an answer that gets lost, of a watch that is cut after an event, of a list of an older
        version, of a refusal since another program wrote just before, and of a server that has no time."""
        self.refusal: Answer | None = None
        """Answer of an admission webhook to all writes of operators."""
        self.chunk = 500
        self._old_lists: dict[str, Answer] = {}
        self.around = copy_context()
        """The context of what belongs to no operator."""

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append((self.loop.time(), text))

    def later(self, seconds: float, do: Callable[..., object], *args: Any) -> None:
        """Do something after some time, whatever becomes of the process that asks for it."""
        self.loop.call_later(seconds, do, *args, context=self.around)

    def delay(self, longest: float) -> float:
        """Return a delay; most are short, and some take all the time that they may."""
        if self.random.random() < _SLOW:
            return longest
        return longest * self.random.random() ** 3

    def list(self, request: Request) -> Answer:
        """Answer a list; at times with an answer of before, which may be about another state."""
        key = f"{request.path} {sorted(request.params.items())}"
        answer = self.server.handle(request)
        old = self._old_lists.get(key)
        if "continue" not in request.params and answer.code == 200:
            self._old_lists[key] = answer
            if (
                old
                and old is not answer
                and self.random.random() < self.stale
                and b'"continue":""' in old.content[:200]
            ):
                self.note(f"{request.by} stale list of {request.path}")
                return old
        return answer


class Connection:
    """The HTTP client of one process."""

    timeout = httpx.Timeout(_TIMEOUT)

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process
        self.writes = 0
        self.dies_after = -1
        """Number of writes after which the process crashes; negative for never."""
        self.sent = 0
        self.stops_after = -1
        """Number of writes, sent and not answered, after which the process is told to stop; negative for never."""
        self.on_stop: Callable[[], None] = lambda: None
        self.on_death: Callable[[], None] = lambda: None

    @property
    def is_dead(self) -> bool:
        """True once the process has crashed: it learns of nothing and sends nothing."""
        return self._process.is_dead

    def end_process(self) -> None:
        """Let the process learn of nothing more, and send nothing."""
        self._process.is_dead = True

    def client(self) -> Client:
        """Return the client of the operator over this connection."""
        return Client(cast("httpx.AsyncClient", self))

    async def aclose(self) -> None:
        """Nothing to close."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, Any] | None = None,
        timeout: httpx.Timeout | None = None,  # noqa: ASYNC109  (as httpx has it)
    ) -> Response:
        """Send a request: it is carried out after a while, and answered after another while."""
        if extensions:
            await extensions["trace"]("http11.send_request_headers.started", {})
        request = Request(
            method,
            path,
            dict(params or {}),
            msgspec.json.decode(content) if content else None,
            (headers or {}).get("Content-Type", ""),
            self._process.name,
        )
        answer = await self._exchange(request)
        return Response(answer.code, answer.content, answer.headers)

    async def _exchange(self, request: Request) -> Answer:
        if self.is_dead:
            raise httpx.ConnectError("this process is dead")
        network, future = self._network, self._network.loop.create_future()
        if request.method != "GET" and "leases" not in request.path:
            self.sent += 1
            if self.sent == self.stops_after:
                network.note(f"{request.by} is told to stop as it sends {request.method} {request.path}")
                network.later(0, self.on_stop)
        network.later(network.delay(network.latency), self._carry_out, request, future)
        return await future

    def _carry_out(self, request: Request, future: asyncio.Future[Answer]) -> None:
        network = self._network
        is_write = request.method != "GET"
        if "leases" not in request.path and (refusal := self._refusal(is_write=is_write)):
            network.note(f"{request.by} {request.method} {request.path} refused: {refusal.code}")
            network.later(network.delay(network.latency), _deliver, future, refusal)
            return
        is_list = not is_write and request.path != "/apis" and not request.place[2]
        if is_write and "leases" not in request.path:
            if network.random.random() < network.conflicts:
                network.note(f"{request.by} {request.method} {request.path} refused: conflict")
                answer = Answer(409, b'{"kind":"Status","code":409,"message":"the object has been modified"}')
                network.later(network.delay(network.latency), _deliver, future, answer)
                return
            self.writes += 1
        answer = network.list(request) if is_list else network.server.handle(request)
        if is_write:
            network.note(f"{request.by} {request.method} {request.path} {answer.code}")
        if self.writes == self.dies_after and not self.is_dead:
            network.note(f"{request.by} crashes after write {self.writes}")
            self.end_process()
            self.on_death()
        if self.is_dead:
            _fail(future, httpx.ReadError("this process is dead"))
            return
        if network.random.random() < network.loss:
            network.note(f"{request.by} {request.method} {request.path}: the answer is lost")
            if is_write and network.random.random() < 0.5:
                network.later(network.delay(network.latency), _fail, future, httpx.ReadError("closed"))
            else:
                network.later(_TIMEOUT, _fail, future, httpx.ReadTimeout("late"))
            return
        network.later(network.delay(network.latency), _deliver, future, answer)

    def _refusal(self, *, is_write: bool) -> Answer | None:
        network = self._network
        if network.refusal and is_write:
            return network.refusal
        if network.overload and network.random.random() < network.overload:
            return network.random.choice(_OVERLOADS)
        return None

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: httpx.Timeout | None = None,  # noqa: ASYNC109  (as httpx has it)
        extensions: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Any]:
        """Open a list or a watch."""
        params = dict(params or {})
        if "watch" not in params:
            params |= {"chunk": str(self._network.chunk)}
            answer = await self._exchange(Request(method, path, params, by=self._process.name))
            yield Response(answer.code, answer.content, answer.headers)
            return
        if self.is_dead:
            raise httpx.ConnectError("this process is dead")
        await asyncio.sleep(self._network.delay(self._network.latency))
        watch = Watch(self._network, self, path, params)
        try:
            yield watch
        finally:
            watch.close()


def _deliver(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def _fail(future: asyncio.Future[Answer], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class Watch:
    """One watch, from a version on."""

    headers: Mapping[str, str] = {}

    def __init__(self, network: Network, connection: Connection, path: str, params: Mapping[str, str]) -> None:
        self._network, self._connection = network, connection
        self._name, self._namespace, *_ = Request("GET", path).place
        self._keep = selector(params)
        self._version = int(params["resourceVersion"])
        self._ends = network.loop.time() + float(params["timeoutSeconds"])
        self._restores = network.server.restores
        self._waiter: asyncio.Future[bool] = network.loop.create_future()
        self.status_code = 200
        network.server.watchers.setdefault(self._name, {})[self._wake] = None
        if self._version < network.server.collection(self._name).oldest:
            self.status_code = 410

    async def aread(self) -> bytes:
        return b'{"kind":"Status","code":410,"message":"too old resource version"}'

    def close(self) -> None:
        """End it."""
        self._network.server.watchers[self._name].pop(self._wake, None)

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        """Yield what happens, some time after it happened."""
        network, server = self._network, self._network.server
        collection = server.collection(self._name)
        while True:
            if self._connection.is_dead:
                raise httpx.ReadError("this process is dead")
            if self._version < collection.oldest and network.random.random() < _ENDS_WITH_ERROR:
                yield encode_watch("ERROR", b'{"kind":"Status","code":410,"message":"too old resource version"}')
                return
            self._check_cut()
            lines: list[bytes] = []
            for event in collection.history:
                if event.version > self._version:
                    self._version = event.version
                    if line := shown(event, self._keep, self._namespace):
                        lines.append(encode_watch(line[0], line[1].raw))
            if lines:
                await asyncio.sleep(network.delay(network.lag))
                self._check_cut()
                if network.random.random() < network.cuts:
                    network.note(f"watch of {self._name} is cut")
                    raise httpx.ReadError("cut")
                yield b"".join(lines)
                continue
            remaining = self._ends - network.loop.time()
            if remaining <= 0:
                return
            # Of a restored server that has not come so far there is nothing to say.
            if not await self._wait(min(_BOOKMARKS, remaining)) and server.version >= self._version:
                self._version = server.version
                yield bookmark(self._version)

    def _check_cut(self) -> None:
        if self._restores != self._network.server.restores:
            raise httpx.ReadError("the server was restarted")
        if self._version < self._network.server.collection(self._name).oldest:
            raise httpx.ReadError("cut")

    async def _wait(self, seconds: float) -> bool:
        """Return True once there is something, False after so many seconds."""
        loop = self._network.loop
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake, False)
        try:
            return await self._waiter
        finally:
            timer.cancel()

    def _wake(self, news: bool = True) -> None:
        if not self._waiter.done():
            self._waiter.set_result(news)
