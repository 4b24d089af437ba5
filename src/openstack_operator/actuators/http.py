"""HTTP with the outcomes a pass knows: an answer, absence, a conflict, a refusal, or a world out of reach."""

from __future__ import annotations

import hashlib
import secrets
import ssl
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, TypeVar

import httpcore2
import httpx2
import structlog

from ..kube import one_line
from ..plan import Transient
from ..plan.url_path import segment
from .budget import limited
from .http_channel import Backend
from .loop import Conflict, Refused
from .refusals import http_refusal

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

CONNECT = 4
"""Seconds to wait for a connection: a Service without endpoints refuses at once, a lost node does not."""

IDLE = 600.0
"""Seconds after which an unused session is dropped: of a password that was replaced, of a server that no longer exists.
Users of a session ask for it again within three minutes, or within five after a failure.
"""

_REFUSALS = frozenset({400, 405, 413, 422})

_WHOLE = 4
"""Factor from the wait for one piece of an answer to the wait for the whole answer."""
_MOST = 8 * 2**20
"""Bytes of an answer. A page of Keystone's lists has some thousands, the queues of a thousand nodes two millions."""
_HEAD = 256 * 2**10
"""Bytes that are read until the headers of an answer are complete, with provisional answers before it."""
_PIECES = 16384
"""Pieces of an answer that is sent in chunks: each costs work, however small it is."""
_LOGGED = 2000
"""Bytes of a refusal that the log has, at level debug."""


SessionT = TypeVar("SessionT")


class Sessions(Generic[SessionT]):
    """Sessions by login: all that log in alike share one. Of more than `most` the one that was used least recently is
    dropped, and one that is unused for `IDLE` seconds. Keys are digests under a secret of this process, so that no
    password is kept here. Threads may share it, and go on with a session that was dropped meanwhile.
    """

    def __init__(
        self, make: Callable[..., SessionT], most: int = 256, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._most = most
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._lock = Lock()
        self._by_digest: OrderedDict[bytes, tuple[float, SessionT]] = OrderedDict()
        """With the time of its last use, in that order."""

    def __call__(self, *login: str | float) -> SessionT:
        """Return the session of a login, which is made at its first use."""
        digest = hashlib.blake2b(repr(login).encode(errors="surrogateescape"), key=self._key).digest()
        with self._lock:
            now = self._clock()
            _, session = self._by_digest.pop(digest, None) or (now, self._make(*login))
            self._by_digest[digest] = now, session
            while len(self._by_digest) > self._most or now - next(iter(self._by_digest.values()))[0] > IDLE:
                self._by_digest.popitem(last=False)
            return session


def _filled(path: str, ids: Sequence[str]) -> str:
    for name in ids:
        path = path.replace("{}", segment(name), 1)
    return path


class Unauthorized(Transient):
    """The credentials are not accepted, or not yet."""


@lru_cache(maxsize=64)
def _trust(authorities: str) -> ssl.SSLContext:
    """Return the context of connections, which is made once: loading the system's certificates takes 40 ms of CPU."""
    return ssl.create_default_context(cadata=authorities or None)


class _Transport(httpx2.HTTPTransport):
    """Connections that keep to the budget of a request."""

    def __init__(self, trust: str) -> None:
        super().__init__(verify=_trust(trust), trust_env=False)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_trust(trust),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5,
            network_backend=Backend(),
        )


class Api:
    """One HTTP API under a base URL; threads may share it. Its connections close when nothing refers to it."""

    def __init__(
        self, name: str, url: str, *, seconds: float, auth: tuple[str, str] | None = None, trust: str = ""
    ) -> None:
        """`trust` are the authorities of the server in PEM; without any, those the system trusts. `seconds` is the wait
        for a piece of an answer; the whole of it may take four times as long.
        """
        self.name = name
        self.url = url.rstrip("/")
        self._whole = seconds * _WHOLE
        self._client = httpx2.Client(
            auth=auth,
            timeout=httpx2.Timeout(seconds, connect=CONNECT),
            transport=_Transport(trust),
            # What a proxy for the world outside says about addresses inside the cluster is of no use.
            trust_env=False,
            # A server that packs its answers may send a thousandth of what they become.
            headers={"Accept-Encoding": "identity"},
        )
        weakref.finalize(self, self._client.close)

    def call(
        self,
        method: str,
        path: str,
        *,
        ids: Sequence[str] = (),
        json: Any = None,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        secret: bool = False,
    ) -> httpx2.Response | None:
        """Return the answer; None for 404. `ids` are names that a server said: they fill each `{}` of the path, and no
        error quotes them. With `secret` the answer stays out of the log, too, as servers quote what they were sent.
        Raises Unauthorized, Conflict, Refused or Transient.
        """
        url = self.url + _filled(path, ids)
        call = f"{method} {path.replace('{}', '…') if ids else path}"
        try:
            request = self._client.build_request(method, url, json=json, params=params, headers=headers)
            with limited(seconds=self._whole):
                with limited(received=_HEAD):
                    response = self._client.send(request, stream=True)
                response = self._received(response, call)
        except (httpx2.NetworkError, httpx2.TimeoutException) as error:
            raise Transient(f"{self.name} is unreachable: {error} ({type(error).__name__})") from None
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            # The text of these quotes headers, which hold credentials.
            raise Transient(f"{self.name} cannot be reached at {self.url}: {type(error).__name__}") from None
        return self._judged(response, call, secret=secret)

    def _received(self, response: httpx2.Response, call: str) -> httpx2.Response:
        """Return the answer with its content. Raises Transient for one that is larger than any of these APIs gives."""
        content = bytearray()
        try:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise Transient(f"{self.name} at {self.url} compresses its answers although the request forbids it")
            for count, chunk in enumerate(response.iter_raw()):
                content += chunk
                if count >= _PIECES:
                    raise Transient(f"{self.name} at {self.url} answers in more than {_PIECES} pieces")
                if len(content) > _MOST:
                    raise Transient(f"{self.name} at {self.url} answers with more than {_MOST // 2**20} MiB")
        finally:
            response.close()
        status, headers = response.status_code, response.headers
        extensions = {"call": call}
        return httpx2.Response(
            status, headers=headers, content=bytes(content), request=response.request, extensions=extensions
        )

    def _judged(self, response: httpx2.Response, call: str, *, secret: bool) -> httpx2.Response | None:
        status = response.status_code
        if response.is_success:
            return response
        if status == 404:
            return None
        if not secret:
            answer = one_line(response.content[:_LOGGED].decode(errors="replace"))
            _log.debug("remote refuses", server=self.name, call=call, status=status, answer=answer)
        why = http_refusal(self.name, status, response.content)
        text = f"{self.name}: {call}: HTTP {status}" + (f": {why}" if why else "")
        if status == 401:
            raise Unauthorized(text)
        if status == 409:
            raise Conflict(text)
        if status in _REFUSALS:
            raise Refused(text)
        raise Transient(text)
