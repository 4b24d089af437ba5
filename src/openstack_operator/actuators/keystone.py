"""The identity API, as its administrator and as a client that checks a password."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NotRequired, TypedDict, TypeVar

import httpx2

from ..api import KeystoneRef
from ..plan import Context, Transient
from . import access
from .answers import member, read, strange
from .http import Api, Sessions, Unauthorized
from .loop import Refused

Row = dict[str, Any]
"""Of a request; what is answered has a shape."""
NAME = "Keystone"


class Identified(TypedDict):
    """Anything that Keystone or Cinder lists."""

    id: str


class NamedRow(Identified):
    """Row with an id and a name."""

    name: str


RowT = TypeVar("RowT", bound=Mapping[str, Any])


class _Domain(TypedDict):
    name: NotRequired[str]


class _Project(Identified):
    name: NotRequired[str]


class _User(Identified):
    name: NotRequired[str]
    domain: NotRequired[_Domain]


class RuleRow(TypedDict):
    """An access rule."""

    service: str
    method: str
    path: str


class _ApplicationCredential(TypedDict):
    access_rules: NotRequired[list[RuleRow] | None]


class _Token(TypedDict):
    user: _User
    project: NotRequired[_Project]


class _RestrictedToken(TypedDict):
    application_credential: _ApplicationCredential


class _RestrictedAnswer(TypedDict):
    token: _RestrictedToken


class _Answer(TypedDict):
    token: _Token


_ANSWER = 10
"""Seconds to wait for an answer; to hash a password takes one of them on a busy machine."""


@dataclass(frozen=True)
class Login:
    """Result of a login: the user exists, is enabled and has this password, and so on for the project."""

    user: str
    """Id of the user."""
    project: str = ""
    """Id of the project; empty when the login was for none."""
    name: str = ""
    """Name of the user as Keystone has it, which may not be the one that was sent."""
    domain_name: str = ""
    """Name of the user's domain, as Keystone has it."""
    project_name: str = ""
    """Name of the project, as Keystone has it."""


def _credentials(user: str, password: str, domain: str, project: str | None) -> Row:
    within = {"name": domain}
    identity = {
        "methods": ["password"],
        "password": {"user": {"name": user, "domain": within, "password": password}},
    }
    scope = {"scope": {"project": {"name": project, "domain": within}} if project else "unscoped"}
    return {"auth": {"identity": identity, **scope}}


# openstacksdk would do as well, for 24 MiB of memory and a second HTTP library; a dozen calls do not need it.
class Keystone:
    """A session of the administrator, or of another user; threads share it, and a token is fetched only when there is
    none that works.
    """

    def __init__(
        self, url: str, username: str, password: str, project: str, trust: str = "", domain: str = "Default"
    ) -> None:
        """`trust` are the authorities of the server in PEM; without any, those the system trusts."""
        self._api = Api(NAME, url, seconds=_ANSWER, trust=trust)
        self._credentials = _credentials(username, password, domain, project)
        self._lock = Lock()
        self._token = ""
        self.project = ""
        """Id of the administrator's project; empty before the first call."""
        self._user = ""

    def call(
        self,
        method: str,
        path: str,
        json: Any = None,
        params: dict[str, str] | None = None,
        *,
        ids: Sequence[str] = (),
        secret: bool = False,
    ) -> httpx2.Response | None:
        """Call as `Api.call` does, with the administrator's token."""
        how: Row = {"ids": ids, "json": json, "params": params, "secret": secret}
        return self.authorized(lambda token: self._api.call(method, path, headers=_token(token), **how))

    def authorized(self, request: Callable[[str], httpx2.Response | None]) -> httpx2.Response | None:
        """Return the answer to the request with the administrator's token; with a new one where the old is not
        accepted.
        """
        token = self._token or self._log_in("")
        try:
            return request(token)
        except Unauthorized:
            return request(self._log_in(token))

    def _log_in(self, stale: str) -> str:
        # Threads that wait for the same login must not each wait it out in turn when Keystone does not answer.
        if not self._lock.acquire(timeout=_ANSWER):
            raise Transient("Keystone is slow to accept the login of its administrator")
        try:
            if self._token == stale:
                self._token = self._new_token()
            return self._token
        finally:
            self._lock.release()

    def _new_token(self) -> str:
        try:
            answer = self._api.call("POST", "/auth/tokens", json=self._credentials, secret=True)
        except Refused as refused:
            # The spec of a user is not to blame for how its administrator logs in.
            raise Transient(str(refused)) from None
        if answer is None:
            raise Transient("Keystone: its published address serves no identity API")
        proof = _login(answer)
        token = answer.headers.get("X-Subject-Token", "")
        if not (token.isascii() and token.isprintable() and token):
            raise strange(NAME, "POST /auth/tokens: the answer has no X-Subject-Token header")
        self._user, self.project = proof.user, proof.project
        return token

    @property
    def user(self) -> str:
        """Id of the user who is logged in."""
        if not self._user:
            self._log_in("")
        return self._user

    def access_rules(self, user: str, domain: str, credential: str, secret: str) -> list[RuleRow] | None:
        """Log in by an application credential of this user, and return its access rules; None where Keystone does not
        accept it.
        """
        owner = {"name": user, "domain": {"name": domain}}
        application_credential = {"name": credential, "secret": secret, "user": owner}
        identity = {"methods": ["application_credential"], "application_credential": application_credential}
        try:
            answer = self._api.call("POST", "/auth/tokens", json={"auth": {"identity": identity}}, secret=True)
        except (Unauthorized, Refused):
            return None
        if answer is None:
            return None
        return read(NAME, answer, _RestrictedAnswer)["token"]["application_credential"].get("access_rules") or []

    def login(self, user: str, password: str, domain: str, project: str | None = None) -> Login | None:
        """Log in as this user; return None where Keystone does not accept it."""
        credentials = _credentials(user, password, domain, project)
        try:
            answer = self._api.call("POST", "/auth/tokens", json=credentials, secret=True)
        except (Unauthorized, Refused):
            return None
        if answer is None:
            return None
        return _login(answer)

    def rows(self, collection: str, shape: type[RowT], /, **filters: str) -> list[RowT]:
        """Return what a collection lists, in an order that does not change. Raises Transient for another shape."""
        answer = self.call("GET", f"/{collection}", params=filters)
        rows = member(NAME, answer, collection, list[shape]) if answer else []
        return sorted(rows, key=lambda row: str(row.get("id", "")))

    def create(self, kind: str, values: Mapping[str, Any], *, secret: bool = False) -> str:
        """Create a row of `<kind>s`, and return its id. Raises Conflict where it exists."""
        answer = self.call("POST", f"/{kind}s", {kind: values}, secret=secret)
        if answer is None:
            raise Transient(f"Keystone: the parent of the new {kind} was just deleted")
        return member(NAME, answer, kind, Identified)["id"]

    def update(self, kind: str, row: str, values: Mapping[str, Any], *, secret: bool = False) -> None:
        """Write these values to the row."""
        if self.call("PATCH", f"/{kind}s/{{}}", {kind: values}, ids=(row,), secret=secret) is None:
            raise Transient(f"Keystone: the {kind} to change was just deleted")

    def delete(self, kind: str, row: str) -> None:
        """Delete the row."""
        self.call("DELETE", f"/{kind}s/{{}}", ids=(row,))


def _login(answer: httpx2.Response) -> Login:
    token = read(NAME, answer, _Answer)["token"]
    user, project = token["user"], token.get("project")
    names = user.get("name", ""), user.get("domain", {}).get("name", ""), project.get("name", "") if project else ""
    return Login(user["id"], project["id"] if project else "", *names)


def _token(token: str) -> dict[str, str]:
    return {"X-Auth-Token": token}


_session = Sessions(Keystone)


def session(ctx: Context[Any], ref: KeystoneRef) -> Keystone:
    """Return the administrator's session with a Keystone, shared by all resources that name it."""
    url = access.published(ctx, ref, "internalURL")
    username, password = access.admin(ctx, ref, "username"), access.admin(ctx, ref, "password")
    project = access.admin(ctx, ref, "project", default="admin")
    return _session(url, username, password, project, access.trust(ctx, ref))


def session_of(ctx: Context[Any], ref: KeystoneRef, user: str, password: str, domain: str, project: str) -> Keystone:
    """Return the session of another user of a Keystone, in this project."""
    return _session(access.published(ctx, ref, "internalURL"), user, password, project, access.trust(ctx, ref), domain)
