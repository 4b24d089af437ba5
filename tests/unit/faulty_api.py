"""An API server for Secrets that can be broken: down, forgetful of versions, overloaded, or cutting connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.unit.polling import eventually

Answer = tuple[int, dict[str, Any], dict[str, str]]


class Snapshot(NamedTuple):
    """What the server held at one time."""

    version: int
    objects: dict[str, dict[str, Any]]


class FaultyApi:
    """Speaks enough HTTP for list and watch; every write of the test's goes through `put` and `remove`."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 1
        self.log: list[tuple[int, str, dict[str, Any]]] = []
        self.oldest = 0
        """Watches from before this version are answered with 410."""
        self.down = False
        self.forbidden = False
        """Lists and watches are answered with 403."""
        self.answers: list[Answer] = []
        """Given to the next requests, in order, whatever they ask."""
        self.groups: Answer = 200, {"items": []}, {}
        """What discovery answers."""
        self.requests: list[str] = []
        self.body = b""
        """Of the last request."""
        self._changed = asyncio.Event()
        self._repeated = False
        self._writers = set[asyncio.StreamWriter]()

    async def __aenter__(self) -> FaultyApi:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()
        await asyncio.sleep(0)

    async def asked(self, times: int) -> None:
        """Returns once so many more requests have come: all but the last of those have been answered."""
        before = len(self.requests)
        await eventually(f"{times} more requests", lambda: len(self.requests) >= before + times)

    def snapshot(self) -> Snapshot:
        """What etcd would save."""
        return Snapshot(self.version, dict(self.objects))

    def put_back(self, snapshot: Snapshot, *, cut: bool = True) -> None:
        """Goes on from there, under versions that it has used before."""
        self.version, self.objects = snapshot.version, dict(snapshot.objects)
        self.log.clear()
        if cut:
            self.cut()

    def repeat(self) -> None:
        """Sends all since then to each watch, whatever it has seen."""
        self._repeated = True
        self._changed.set()
        self._changed = asyncio.Event()

    def put(self, name: str, type_: str = "") -> None:
        self.version += 1
        known = name in self.objects
        meta = {"name": name, "namespace": "x", "uid": f"uid-{name}", "resourceVersion": str(self.version)}
        self.objects[name] = {"apiVersion": "v1", "kind": "Secret", "metadata": meta} | (
            {"type": type_} if type_ else {}
        )
        self._tell("MODIFIED" if known else "ADDED", self.objects[name])

    def remove(self, name: str) -> None:
        self.version += 1
        last = self.objects.pop(name)
        self._tell("DELETED", {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}})

    def bookmark(self) -> None:
        """Tells watches how far they are."""
        self.version += 1
        self._tell("BOOKMARK", {"kind": "Secret", "metadata": {"resourceVersion": str(self.version)}})

    def cut(self) -> None:
        """Ends every connection, as a crash does."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def expire(self) -> None:
        """Forgets every version so far."""
        self.oldest = self.version + 1
        self.log.clear()

    def _tell(self, type_: str, obj: dict[str, Any]) -> None:
        self.log.append((self.version, type_, obj))
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, target, _ = head.split(b" ", 2)
                length = next((int(v) for k, _, v in _headers(head) if k == "content-length"), 0)
                self.body = await reader.readexactly(length)
                self.requests.append(f"{method.decode()} {target.decode()}")
                known = next((v for k, _, v in _headers(head) if k == "if-none-match"), "")
                await self._answer(target.decode(), writer, known)
        except (OSError, EOFError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, target: str, writer: asyncio.StreamWriter, known: str) -> None:
        query = {k: v[0] for k, v in parse_qs(urlsplit(target).query).items()}
        if self.down:
            _write(writer, (503, {"message": "down"}, {}))
        elif self.answers:
            _write(writer, self.answers.pop(0))
        elif target == "/apis":
            _write(writer, (304, {}, self.groups[2]) if known and known == self.groups[2].get("ETag") else self.groups)
        elif self.forbidden:
            _write(writer, (403, {"message": 'forbidden: User "operator" cannot list resource'}, {}))
        elif "watch" in query:
            await self._watch(int(query["resourceVersion"]), writer)
        else:
            names = sorted(self.objects)
            start = int(query.get("continue", 0))
            page, left = names[start : start + 2], names[start + 2 :]
            meta = {"resourceVersion": str(self.version)} | ({"continue": str(start + 2)} if left else {})
            _write(writer, (200, {"metadata": meta, "items": [self.objects[name] for name in page]}, {}))
        await writer.drain()

    async def _watch(self, since: int, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        if since < self.oldest - 1:
            error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
            _chunk(writer, json.dumps(error).encode() + b"\n")
            _chunk(writer, b"")
            return
        while not writer.is_closing():
            changed = self._changed
            since, self._repeated = (0 if self._repeated else since), False
            for version, type_, obj in self.log:
                if version > since:
                    line = json.dumps({"type": type_, "object": obj}).encode() + b"\n"
                    # In two pieces: a line may end anywhere in what the network delivers.
                    _chunk(writer, line[:20])
                    _chunk(writer, line[20:])
                    since = version
            await writer.drain()
            await changed.wait()


def _headers(head: bytes) -> list[tuple[str, str, str]]:
    return [line.decode().lower().partition(": ") for line in head.split(b"\r\n")[1:]]


def _write(writer: asyncio.StreamWriter, answer: Answer) -> None:
    code, body, headers = answer
    content = b"" if code == 304 else json.dumps(body).encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {code} X\r\nContent-Length: {len(content)}\r\n{lines}\r\n".encode() + content)


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
