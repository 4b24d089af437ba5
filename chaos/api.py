"""The public APIs as a client that never tries twice sees them."""

from __future__ import annotations

import threading
import time
from typing import Any

import yaml
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session
from requests import Response

from cloud.proof import CLOUD

from .site import Site

TIMEOUT = 10.0
"""Seconds a client waits for an answer."""
_RENEWED = 5.0
_REFUSALS = 3


class Access:
    """Where Keystone is and who we are there; read again when asked to, every few seconds at most."""

    def __init__(self, site: Site) -> None:
        self._site, self._lock = site, threading.Lock()
        self._known: dict[str, str] = {}
        self._read = 0.0

    def credentials(self) -> dict[str, str]:
        """The `auth` of clouds.yaml. Raises CloudError where the API server does not answer and nothing is known."""
        with self._lock:
            if not self._known:
                clouds = yaml.safe_load(self._site.secret("keystone-clouds")["clouds.yaml"])
                self._known, self._read = clouds["clouds"][CLOUD]["auth"], time.monotonic()
            return self._known

    def forget(self) -> None:
        """What is known may be outdated: an API exposed anew has another port."""
        with self._lock:
            if time.monotonic() - self._read > _RENEWED:
                self._known = {}


class Api:
    """One client of the APIs, for one thread."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: Session | None = None
        self._refused = 0

    def call(self, service: str, method: str, path: str, **options: Any) -> Response:
        """The answer to one request. Raises what keystoneauth raises, after one try."""
        try:
            session = self._session = self._session or self._login()
            endpoint = {"service_type": service, "interface": "public"}
            # No retries of any kind, but a new login where a token has run out, as any client does.
            answer = session.request(
                path, method, endpoint_filter=endpoint, connect_retries=0, status_code_retries=0, redirect=0, **options
            )
        except Exception:
            self._refused += 1
            if self._refused >= _REFUSALS:
                self._session, self._refused = None, 0
                self._access.forget()
            raise
        self._refused = 0
        return answer

    def json(self, service: str, method: str, path: str, **options: Any) -> Any:
        """The body of the answer to one request."""
        return self.call(service, method, path, **options).json()

    def listed(self, service: str, path: str, what: str) -> list[dict[str, Any]]:
        """All objects of a list, page by page."""
        found: list[dict[str, Any]] = []
        while path:
            page = self.json(service, "GET", path)
            found += page[what]
            links = page.get(f"{what}_links", [])
            following = [link["href"] for link in links if link["rel"] == "next"] or [page.get("next") or ""]
            path = following[0]
        return found

    def _login(self) -> Session:
        known = self._access.credentials()
        auth = Password(
            auth_url=known["auth_url"],
            username=known["username"],
            password=known["password"],
            project_name=known["project_name"],
            user_domain_name=known["user_domain_name"],
            project_domain_name=known["project_domain_name"],
        )
        return Session(auth=auth, timeout=TIMEOUT, connect_retries=0)
