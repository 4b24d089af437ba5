"""The end-to-end test of what Keystone acknowledged sees a Keystone that does not obey, and lets one pass that does."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from requests import Request, Response

from tests.e2e.on_tempest import acknowledged
from tests.e2e.on_tempest.acknowledged import Findings, Identity, watched
from tests.unit.polling import until
from tools.localcluster.kubernetes import ROOT

ADMIN = {
    "username": "admin",
    "password": "x",
    "user_domain_name": "Default",
    "project_name": "admin",
    "project_domain_name": "Default",
}


@dataclass
class User:
    """A user with one project at most."""

    name: str
    is_enabled: bool = True
    is_member: bool = False


@dataclass(frozen=True)
class Keystone(Identity):
    """The Identity API over users in memory; one that is forgetful goes on with what was revoked."""

    url: str = "http://keystone"
    verify: bool = True
    admin: dict[str, str] = field(default_factory=lambda: ADMIN)
    is_forgetful: bool = False
    users: dict[str, User] = field(default_factory=dict[str, User])
    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: list[str] = field(default_factory=list[str])

    def call(self, method: str, path: str, token: str = "", body: Any = None, **headers: str) -> Response:
        with self.lock:
            self.requests.append(f"{method} {path}")
            status, content, subject = self._answer(method, path, token, body, headers)
        response = Response()
        response.status_code, response._content = status, json.dumps(content).encode()  # pyright: ignore[reportPrivateUsage]
        response.headers["X-Subject-Token"] = subject
        response.request = Request(method, f"{self.url}{path}").prepare()
        return response

    def _answer(
        self, method: str, path: str, token: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any], str]:
        words = path.partition("?")[0].strip("/").split("/")
        match method, words:
            case "POST", ["auth", "tokens"]:
                return self._login(body["auth"])
            case "GET", ["auth", "tokens"]:
                return (200 if self._may(headers["X-Subject-Token"]) else 404), {}, ""
            case "POST", ["users", _, "application_credentials"]:
                return (201 if self._may(token) else 401), {}, ""
            case "POST", ["users" | "projects" as kind]:
                name = f"{kind}-{len(self.users)}"
                if kind == "users":
                    self.users[name] = User(body["user"]["name"])
                return 201, {kind[:-1]: {"id": name}}, ""
            case "GET", ["roles"]:
                return 200, {"roles": [{"id": "member"}]}, ""
            case "PUT" | "DELETE", ["projects", _, "users", user, "roles", _]:
                self.users[user].is_member = method == "PUT" or self.is_forgetful
                return 204, {}, ""
            case "PATCH", ["users", user]:
                self.users[user].name = body["user"].get("name", self.users[user].name)
                self.users[user].is_enabled = body["user"].get("enabled", self.users[user].is_enabled)
                return 200, {}, ""
            case "GET", ["users"] if token != "admin":
                return 403, {}, ""
            case "GET", ["users"]:
                name = path.rpartition("=")[2]
                return 200, {"users": [each.name for each in self.users.values() if each.name == name]}, ""
            case _:
                return 204, {}, ""

    def _login(self, auth: dict[str, Any]) -> tuple[int, dict[str, Any], str]:
        who = auth["identity"]["password"]["user"]
        if who.get("name") == "admin":
            return 201, {}, "admin"
        user = self.users[who["id"]]
        may = user.is_enabled and (user.is_member or "scope" not in auth)
        return (201 if may else 401), {}, who["id"]

    def _may(self, token: str) -> bool:
        return self.users[token].is_member


@pytest.fixture(autouse=True)
def _precise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens in memory know nothing of seconds."""
    monkeypatch.setattr(acknowledged, "_REVOKED", 0)


def rounds(keystone: Keystone) -> Findings:
    """What is found while each of two workers goes through its round a few times."""

    def several() -> None:
        until("some rounds", lambda: len([each for each in keystone.requests if "roles/member" in each]) > 8)

    return watched(keystone, 0, meanwhile=several)


def test_a_keystone_that_obeys_passes() -> None:
    found = rounds(Keystone())
    assert (found.violations, found.refused) == ({}, {})
    assert found.looks > 50


def test_violations_of_a_keystone_that_forgets_revocations_are_found() -> None:
    found = rounds(Keystone(is_forgetful=True))
    assert {violation.rpartition(":")[0] for violation in found.violations} == {
        "login after a revocation",
        "token after a revocation",
        "token used after a revocation",
    }


@pytest.mark.parametrize("word", ["watched(Identity.of(", "with frozen("])
def test_the_suite_asks_a_real_one_while_its_cache_is_frozen(word: str) -> None:
    assert word in (ROOT / "tests" / "e2e" / "on_tempest" / "test_tempest.py").read_text()
