"""An API server that reviews tokens and rights, and nothing else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx2 as httpx

from openstack_operator.runtime.kubernetes.client import Client

GOOD, OTHER, BAD = "good.token", "other.token", "bad.token"
EXTRA = {"authentication.kubernetes.io/pod-name": ["prometheus-0"]}
READER: dict[str, Any] = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": EXTRA,
}


@dataclass
class ReviewApi:
    """GOOD is the token of one who may read metrics, OTHER of one who may not; it knows no other one."""

    users: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {GOOD: READER, OTHER: {"username": "somebody", "groups": ["system:authenticated"]}}
    )
    readers: set[str] = field(default_factory=lambda: {READER["username"]})
    specs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What it was asked."""
    fault: tuple[int, dict[str, Any]] | None = None
    """Answered to everything."""
    down: bool = False
    broken: int = 0
    """Connections that end at the next requests."""
    waiting: asyncio.Event | None = None
    """Nothing is answered before it is set."""

    def client(self) -> Client:
        return Client(httpx.AsyncClient(transport=httpx.MockTransport(self._answer), base_url="https://api"))

    @property
    def tokens(self) -> list[str]:
        """Tokens that it was asked about."""
        return [spec["token"] for spec in self.specs if "token" in spec]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        # As a real connection does before it sends.
        if trace := request.extensions.get("trace"):
            await trace("http11.send_request_headers.started", {})
        if self.down:
            raise httpx.ConnectError("connection refused")
        if self.broken:
            self.broken -= 1
            raise httpx.ReadError("closed")
        body = json.loads(request.content)
        spec = body["spec"]
        self.specs.append(spec)
        if self.waiting:
            await self.waiting.wait()
        if self.fault:
            return httpx.Response(self.fault[0], json=self.fault[1])
        if request.url.path == "/apis/authentication.k8s.io/v1/tokenreviews":
            user = self.users.get(spec["token"])
            status = {"authenticated": True, "user": user} if user else {"error": "invalid bearer token"}
        else:
            assert request.url.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            status = {"allowed": spec["user"] in self.readers}
        return httpx.Response(201, json={**body, "status": status})
