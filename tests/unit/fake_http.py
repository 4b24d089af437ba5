"""Remote sides small enough to live in a test: HTTP over loopback, with everything in memory."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from openstack_operator.api import references
from openstack_operator.plan import Actuator, Context, Release, ResolvedRef


class Request(NamedTuple):
    """What a client asked; `path` is split at slashes and unquoted."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


class Answer(NamedTuple):
    """What it gets."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = {}


class HttpService(Protocol):
    """Answers requests."""

    def answer(self, request: Request) -> Answer: ...


@contextmanager
def http_server(remote: HttpService) -> Generator[str]:
    """The URL under which the remote answers, until the end."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = tuple(unquote(part) for part in url.path.strip("/").split("/"))
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            status, content, headers = remote.answer(Request(self.command, path, query, dict(self.headers), body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if content is not None:
                self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Silent: the tests look at what is true afterwards."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def context(
    entry: Actuator, spec: Mapping[str, Any], published: Mapping[str, str], secrets: Mapping[str, Mapping[str, str]]
) -> Context[Any]:
    """A context of an actuator's resource with one referent."""
    parsed = entry.resource.spec.model_validate(spec)
    return Context(
        kind=entry.resource.kind,
        owner="x",
        namespace="openstack",
        spec=parsed,
        release=Release("2025.1", "debian", {}),
        refs={ref: ResolvedRef(published) for _, ref in references(parsed)},
        secrets=secrets,
    )
