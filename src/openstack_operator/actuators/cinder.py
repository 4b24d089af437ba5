"""The Block Storage API, as the administrator."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import httpx2

from ..plan import Context
from . import access
from .http import Api
from .keystone import Keystone, Row, session

_ANSWER = 15
"""Seconds to wait for an answer; the scheduler is asked over the broker for what it knows."""

_VERSION = {"OpenStack-API-Version": "volume 3.60"}
"""Counts (3.45) and clusters of services (3.7) are in it; every release that is supported has it."""


class Cinder:
    """A session of the administrator; threads share it."""

    def __init__(self, url: str, keystone: Keystone, trust: str = "") -> None:
        """`trust` are the authorities of the server in PEM; without any, those the system trusts."""
        self._api = Api("Cinder", f"{url}/v3", seconds=_ANSWER, trust=trust)
        self._keystone = keystone

    def call(
        self, method: str, path: str, json: Any = None, params: dict[str, str] | None = None
    ) -> httpx2.Response | None:
        """The answer; None for 404. Raises as `Api.call` does."""

        def request(token: str) -> httpx2.Response | None:
            headers = {"X-Auth-Token": token, **_VERSION}
            return self._api.call(method, f"/{self._keystone.project}{path}", json=json, params=params, headers=headers)

        return self._keystone.authorized(request)

    def rows(self, path: str, name: str, **params: str) -> list[Row]:
        """What a collection lists under `name`."""
        answer = self.call("GET", path, params=params)
        return answer.json()[name] if answer else []


@lru_cache(maxsize=64)
def _cinder(url: str, keystone: Keystone, trust: str) -> Cinder:
    return Cinder(url, keystone, trust)


def connected(ctx: Context[Any]) -> Cinder:
    """The administrator's session with the Cinder a spec names, shared by all that name it."""
    ref = ctx.spec.cinder_ref
    return _cinder(
        access.published(ctx, ref, "internalURL"), session(ctx, ctx.spec.keystone_ref), access.trust(ctx, ref)
    )
