"""Clients that may read metrics: the API server decides, and its answers count for some seconds."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import msgspec
import structlog

from ...plan import Object, SpecError, Transient
from ..kubernetes.client import Client
from ..kubernetes.errors import Forbidden
from ..kubernetes.kinds import ACCESS_REVIEW, TOKEN_REVIEW, Kind

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

PATH, VERB = "/metrics", "get"
"""The permission that a scraper needs: this verb on this nonResourceURL."""
_LIFE = 10.0
"""Seconds an answer of the API server counts."""
_ENTRIES = 256
"""Remembered answers about clients that may read, and as many about those that may not."""
_REVIEWS, _RESERVED = 4, 2
"""Reviews at once for tokens of which nothing is known, and how many more for those that were good before."""
_BURST, _PER_SECOND = 20.0, 5.0
"""Tokens of which nothing is known: so many are reviewed at once, and so many a second after that."""
_PATIENCE = 5.0
"""Seconds that both reviews may take; Prometheus waits ten by default."""
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]{1,8192}=*")
"""A bearer token (RFC 6750, 2.1). Those of service accounts have some thousand characters."""


@dataclass(frozen=True)
class Refusal:
    """The reason why a client gets no metrics, as HTTP says it."""

    status: str
    reason: str


UNAUTHORIZED = Refusal("401 Unauthorized", "send a bearer token that this cluster's API server accepts")
FORBIDDEN = Refusal("403 Forbidden", "this account may not read /metrics; bind openstack-operator-metrics-reader to it")
BUSY = Refusal("503 Service Unavailable", "too many requests at once")
UNANSWERED = Refusal("503 Service Unavailable", "the API server did not check the token; see the operator's log")
NO_RIGHT = Refusal(
    "503 Service Unavailable",
    "the operator may not check tokens; grant it create on tokenreviews.authentication.k8s.io and "
    "subjectaccessreviews.authorization.k8s.io",
)


class Scrapers:
    """Checks by the API server: whose a token is (TokenReview), and may they read metrics (SubjectAccessReview)."""

    def __init__(
        self, client: Client, clock: Callable[[], float] = time.monotonic, *, patience: float = _PATIENCE
    ) -> None:
        """`clock` returns seconds that never go back."""
        self._client = client
        self._clock = clock
        self._patience = patience
        # Of a token only a digest is kept, by a key that no other process has.
        self._key = secrets.token_bytes(32)
        self._allowed = OrderedDict[bytes, float]()
        """Time by digest of the last review of those who may; older answers do not count, but prefer their token."""
        self._refused = OrderedDict[bytes, tuple[float, Refusal]]()
        self._running = 0
        self._spare, self._counted = _BURST, clock()
        self._trouble = ""

    async def refusal(self, token: str) -> Refusal | None:
        """Return why this token gets no answer; None where it gets one."""
        if not _TOKEN.fullmatch(token):
            return UNAUTHORIZED
        digest = hashlib.blake2b(token.encode(), key=self._key, digest_size=32).digest()
        oldest = self._clock() - _LIFE
        allowed_at = self._allowed.get(digest)
        if allowed_at is not None and allowed_at > oldest:
            return None
        reviewed, refusal = self._refused.get(digest, (oldest, UNAUTHORIZED))
        if reviewed > oldest:
            return refusal
        if not self._may_review(was_allowed=allowed_at is not None):
            return BUSY
        self._running += 1
        try:
            return await self._review_in_time(digest, token)
        finally:
            self._running -= 1

    def _may_review(self, *, was_allowed: bool) -> bool:
        """Return whether one more review may begin. Invented tokens must not keep out those that were good before."""
        if self._running >= _REVIEWS + (_RESERVED if was_allowed else 0):
            return False
        if was_allowed:
            return True
        now = self._clock()
        self._spare = min(_BURST, self._spare + (now - self._counted) * _PER_SECOND)
        self._counted = now
        if self._spare < 1:
            return False
        self._spare -= 1
        return True

    async def _review_in_time(self, digest: bytes, token: str) -> Refusal | None:
        try:
            async with asyncio.timeout(self._patience):
                refusal = await self._review(token)
        except Forbidden as error:
            self._log_once("the operator has no right to check tokens", str(error))
            return NO_RIGHT
        except (Transient, SpecError, TimeoutError, msgspec.MsgspecError) as error:
            self._log_once("cannot check the tokens of metrics requests", str(error) or "no answer in time")
            return UNANSWERED
        if self._trouble:
            self._trouble = ""
            _log.info("tokens of metrics requests can be checked again")
        self._remember(digest, refusal)
        return refusal

    async def _review(self, token: str) -> Refusal | None:
        status = await self._ask(TOKEN_REVIEW, {"token": token})
        user: Mapping[str, Any] = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return UNAUTHORIZED
        account = {"user": user["username"], "uid": user.get("uid", ""), "groups": user.get("groups") or []}
        attributes = {"path": PATH, "verb": VERB}
        spec = {**account, "extra": user.get("extra") or {}, "nonResourceAttributes": attributes}
        status = await self._ask(ACCESS_REVIEW, spec)
        return None if status.get("allowed") is True and not status.get("denied") else FORBIDDEN

    async def _ask(self, kind: Kind, spec: Object) -> Mapping[str, Any]:
        """Return the status of a review. Raises what Client.create raises."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"namespace": None}, "spec": spec}
        try:
            answer = await self._client.create(kind, body)
        except Transient as error:
            if not isinstance(error.__cause__, httpx.TransportError):
                raise
            # A connection that was kept may have ended meanwhile, and a question may be asked twice.
            answer = await self._client.create(kind, body)
        return answer.get("status") or {}

    def _remember(self, digest: bytes, refusal: Refusal | None) -> None:
        now = self._clock()
        self._allowed.pop(digest, None)
        self._refused.pop(digest, None)
        if refusal is None:
            self._allowed[digest] = now
        else:
            self._refused[digest] = now, refusal
        for remembered in (self._allowed, self._refused):
            if len(remembered) > _ENTRIES:
                remembered.popitem(last=False)

    def _log_once(self, trouble: str, error: str) -> None:
        """Log a trouble once, until it is over or another one: scrapes come again and again."""
        if self._trouble != trouble:
            self._trouble = trouble
            _log.warning(trouble, error=error)
