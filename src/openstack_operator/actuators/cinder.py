"""The Block Storage API, as the administrator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2

from ..plan import Context
from . import access
from .answers import member
from .http import Api, Sessions
from .keystone import Keystone, Row, RowT, session

_ANSWER = 15
"""Seconds to wait for an answer; Cinder asks its scheduler over the broker."""

NAME = "Cinder"
_VERSION = {"OpenStack-API-Version": "volume 3.60"}
"""Counts (3.45) and clusters of services (3.7) are in it; every release that is supported has it."""


class Cinder:
    """The API with the token of an administrator's session."""

    def __init__(self, api: Api, keystone: Keystone) -> None:
        self._api = api
        self._keystone = keystone

    def call(
        self,
        method: str,
        path: str,
        json: Any = None,
        params: dict[str, str] | None = None,
        *,
        ids: Sequence[str] = (),
    ) -> httpx2.Response | None:
        """Return the answer; None for 404. `ids` and the errors raised are those of `Api.call`."""

        def request(token: str) -> httpx2.Response | None:
            headers = {"X-Auth-Token": token, **_VERSION}
            how: Row = {"ids": (self._keystone.project, *ids), "json": json, "params": params, "headers": headers}
            return self._api.call(method, f"/{{}}{path}", **how)

        return self._keystone.authorized(request)

    def rows(self, path: str, name: str, shape: type[RowT], /, **params: str) -> list[RowT]:
        """Return what a collection lists under `name`. Raises Transient for an answer of another shape."""
        answer = self.call("GET", path, params=params)
        return member(NAME, answer, name, list[shape]) if answer else []


def _at(url: str, trust: str) -> Api:
    return Api(NAME, f"{url}/v3", seconds=_ANSWER, trust=trust)


_api = Sessions(_at)


def connected(ctx: Context[Any]) -> Cinder:
    """Return the Cinder that a spec names. All resources that name it share its connections and its session."""
    ref = ctx.spec.cinder_ref
    api = _api(access.published(ctx, ref, "internalURL"), access.trust(ctx, ref))
    return Cinder(api, session(ctx, ctx.spec.keystone_ref))
