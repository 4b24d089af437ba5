"""The public APIs as a client that never tries twice sees them."""

from __future__ import annotations

import threading
import time
from typing import Any

import yaml
from keystoneauth1.exceptions import ConnectFailure, ConnectTimeout, EndpointNotFound
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session
from requests import Response

from tools.cloud.proof import CLOUD, replaced
from tools.localcluster.kubernetes import ROOT

from .site import Site

TIMEOUT = 10.0
"""Seconds a client waits for an answer, unless a scenario sets more (`Stage.patience`)."""
_RENEWED = 60.0
_REFUSALS = 3


class Access:
    """The login at Keystone, and the token all clients share: a login costs it more than any other request."""

    def __init__(self, site: Site) -> None:
        self._site, self._lock = site, threading.Lock()
        self._plugin: Password | None = None
        self._created_at = 0.0
        self.timeout = TIMEOUT
        self.verify: str | bool = True
        """CA file by which clients verify APIs, as requests takes it; set with the first login."""

    def plugin(self) -> Password:
        """Return the plugin that logs in for all clients. Raises KubeError if it has to read the Secret and the API
        server does not answer.
        """
        with self._lock:
            if self._plugin is None:
                files = self._site.secret("keystone-clouds")
                clouds = yaml.safe_load(files["clouds.yaml"])
                if authorities := files.get("ca.crt"):
                    trust = ROOT / "build" / "chaos-ca.crt"
                    # Other threads may be reading it: each new plugin writes it again.
                    replaced(trust, authorities)
                    self.verify = str(trust)
                login = clouds["clouds"][CLOUD]["auth"]
                fields = ("username", "password", "project_name", "user_domain_name", "project_domain_name")
                self._plugin = Password(auth_url=login["auth_url"], **{field: login[field] for field in fields})
                self._created_at = time.monotonic()
            return self._plugin

    def forget(self) -> None:
        """Drop the login, at most once a minute, so that the next request reads the Secret and logs in again: the
        catalog may be outdated, as an API that is exposed again has another port.
        """
        with self._lock:
            if time.monotonic() - self._created_at > _RENEWED:
                self._plugin = None


class Api:
    """One client of the APIs, for one thread."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session = Session(connect_retries=0)
        self._refused = 0

    def call(self, service: str, method: str, path: str, *, timeout: float = 0.0, **options: Any) -> Response:
        """Return the answer to one request. Waits at most `timeout` seconds for it; by default, and at least, as long
        as the scenario says. Raises what keystoneauth raises, after one try.
        """
        try:
            endpoint = {"service_type": service, "interface": "public"}
            plugin = self._access.plugin()
            self._session.verify = self._access.verify
            # No retries of any kind, but a new login where a token has run out, as any client does.
            answer = self._session.request(
                path,
                method,
                auth=plugin,
                endpoint_filter=endpoint,
                connect_retries=0,
                status_code_retries=0,
                redirect=0,
                timeout=max(timeout, self._access.timeout),
                **options,
            )
        except ConnectTimeout:
            raise
        except EndpointNotFound:
            # The catalog came with the token, from a time when the service was not in it.
            self._access.forget()
            raise
        except ConnectFailure:
            self._refused += 1
            if self._refused >= _REFUSALS:
                self._refused = 0
                self._access.forget()
            raise
        self._refused = 0
        return answer

    def json(self, service: str, method: str, path: str, **options: Any) -> Any:
        """Return the body of the answer to one request."""
        return self.call(service, method, path, **options).json()

    def listed(self, service: str, path: str, key: str) -> list[dict[str, Any]]:
        """Return all objects of a list, page by page."""
        objects: list[dict[str, Any]] = []
        while path:
            page = self.json(service, "GET", path)
            objects += page[key]
            path = _next(page, key)
        return objects


def _next(page: dict[str, Any], key: str) -> str:
    """Return the next page's path, in the forms of Neutron and Nova, of Glance and of Keystone; empty at the end."""
    following = [link["href"] for link in page.get(f"{key}_links", []) if link["rel"] == "next"]
    return following[0] if following else page.get("next") or page.get("links", {}).get("next") or ""
