"""A question to an external scheduler, which answers within its time or not at all; knows nothing of Nova."""

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import requests
import urllib3

ENOUGH = 4 << 20
"""Bytes no answer has more of: names of hosts alone."""


class Unavailable(Exception):
    """It does not answer, or not what it should: it is left alone for a while."""


class Refused(Exception):
    """It does not take this one question (4xx); it may take the next one."""


def ask(url: str, question: bytes, *, timeout: float, cafile: str | None = None) -> list[str]:
    """Names of hosts, the best one first, for `question`, which is JSON. `timeout` is in seconds; `cafile` has the
    authorities, in PEM, by which the server is checked, None those of the system. Raises Unavailable and Refused.
    """
    until = time.monotonic() + timeout
    try:
        with requests.Session() as session:
            # A proxy of the environment is for the world outside, and its authorities are others.
            session.trust_env = False
            answer = session.post(
                url,
                data=question,
                headers={
                    "Content-Type": "application/json",
                    "Accept-Encoding": "identity",
                    "Connection": "close",
                },
                timeout=timeout,
                verify=cafile or True,
                # A redirected question would be asked by GET.
                allow_redirects=False,
                stream=True,
            )
            body = _read(answer, until)
    # What answers may speak no HTTP, the URL may be none, a file of authorities may be missing.
    except (
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        http.client.HTTPException,
        OSError,
        ValueError,
    ) as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from error
    if 400 <= answer.status_code < 500:
        raise Refused(f"{answer.status_code} {_excerpt(body)}")
    if answer.status_code != 200:
        raise Unavailable(f"{answer.status_code} {_excerpt(body)}")
    return _hosts(body)


def _read(answer: requests.Response, until: float) -> bytes:
    """The whole body, as it comes in; the library's own limit is for each part of it alone."""
    body = b""
    # urllib3 before version 2 waits for as much as is asked for. Python's library below it does not.
    source: Any = answer.raw if hasattr(answer.raw, "read1") else answer.raw._fp
    while part := source.read1(1 << 16):
        body += part
        if len(body) > ENOUGH:
            raise Unavailable(f"an answer of more than {ENOUGH >> 20} MiB")
        if time.monotonic() > until:
            raise Unavailable("its answer takes too long")
    return body


def _hosts(body: bytes) -> list[str]:
    try:
        hosts: Any = json.loads(body)["hosts"]
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"not an object with hosts: {_excerpt(body)}") from None
    if not isinstance(hosts, list) or not all(isinstance(name, str) for name in hosts):
        raise Unavailable(f"hosts is not a list of names: {_excerpt(body)}")
    return hosts


def _excerpt(body: bytes) -> str:
    return body[:200].decode(errors="replace").strip()


class Breaker:
    """Leaves a server alone for `pause` seconds after it failed; then one question is let through, and the others go on
    without until that is answered.
    """

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._failed = False
        self._until = 0.0
        self._lock = threading.Lock()

    def lets_through(self) -> bool:
        """Return True if a question may be sent now."""
        with self._lock:
            if not self._failed:
                return True
            now = self._clock()
            if now < self._until:
                return False
            self._until = now + self._pause
            return True

    def failed(self) -> bool:
        """Record a question without an answer. Return True if the one before it was answered."""
        with self._lock:
            is_change, self._failed = not self._failed, True
            self._until = self._clock() + self._pause
            return is_change

    def answered(self) -> bool:
        """Record an answer. Return True if the question before it had none."""
        with self._lock:
            is_change, self._failed = self._failed, False
            return is_change
