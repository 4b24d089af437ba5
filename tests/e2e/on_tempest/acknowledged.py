"""What Keystone acknowledged, looked at at once by clients of other processes: violations are counted by kind.

`python -m tests.e2e.on_tempest.acknowledged [SECONDS]` asks the cloud that runs.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import requests
import yaml

from tools.cloud import proof
from tools.localcluster.kubernetes import Kubernetes, existing_cluster

AT_ONCE = 4
"""Requests that look at one change at a time; more than a process has to itself."""
_SECONDS = 60
_REVOKED = 1.0
"""Seconds after a revocation until a new token is valid. A Fernet token says in which second it was issued; Keystone
takes one of the second of a revocation for revoked (Tempest's own tests wait as long)."""


class Refused(Exception):
    """An answer without which a round cannot go on: the load's, not a violation."""


@dataclass(frozen=True)
class Identity:
    """The Identity API, and who administers it."""

    url: str
    verify: str | bool
    admin: Mapping[str, str]

    @classmethod
    def of(cls, cluster: Kubernetes, namespace: str) -> Identity:
        """The public one of a cloud."""
        cloud = yaml.safe_load(proof.clouds(cluster, namespace).read_text())["clouds"][proof.CLOUD]
        return cls(cloud["auth"]["auth_url"].rstrip("/"), cloud.get("cacert", True), cloud["auth"])

    def call(self, method: str, path: str, token: str = "", body: Any = None, **headers: str) -> requests.Response:
        """One request on a connection of its own, so that any process may answer it."""
        headers |= {"X-Auth-Token": token} if token else {}
        return requests.request(
            method, f"{self.url}{path}", headers=headers, json=body, verify=self.verify, timeout=_SECONDS
        )

    def login(self, user: Mapping[str, Any], project: str | Mapping[str, Any] = "") -> requests.Response:
        """A token by password, for a project if there is one."""
        scope = {"scope": {"project": {"id": project} if isinstance(project, str) else project}} if project else {}
        identity = {"methods": ["password"], "password": {"user": user}}
        return self.call("POST", "/auth/tokens", body={"auth": {"identity": identity, **scope}})

    def administrator(self) -> str:
        """A token of the administrator."""
        known = self.admin
        user = {"name": known["username"], "password": known["password"], "domain": {"name": known["user_domain_name"]}}
        project = {"name": known["project_name"], "domain": {"name": known["project_domain_name"]}}
        return _done(self.login(user, project)).headers["X-Subject-Token"]


def _done(answer: requests.Response) -> requests.Response:
    if answer.status_code >= 300:
        raise Refused(f"{answer.request.method} {answer.request.path_url}: {answer.status_code} {answer.text[:200]}")
    return answer


@dataclass
class Findings:
    """What was looked at, and what was not as it had been acknowledged."""

    looks: int = 0
    violations: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    """Requests the load needs that failed: by itself no violation."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, what: str, answers: Iterable[requests.Response], *right: int) -> None:
        """Counts each answer; one of another status is a violation called `what`. 5xx is none: nothing was answered."""
        with self._lock:
            for answer in answers:
                self.looks += 1
                if answer.status_code >= 500:
                    self.refused[f"{what}: {answer.status_code}"] += 1
                elif answer.status_code not in right:
                    self.violations[f"{what}: {answer.status_code} {_message(answer)}"] += 1

    def fail(self, what: str) -> None:
        """Counts a request the load needed."""
        with self._lock:
            self.refused[what[:120]] += 1


def _message(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])[:100]
    except (ValueError, KeyError, TypeError):
        return ""


class Worker:
    """A user and a project of its own, whose rights come and go."""

    def __init__(self, identity: Identity, findings: Findings, pool: ThreadPoolExecutor) -> None:
        self._identity, self._findings, self._pool = identity, findings, pool
        self._admin = identity.administrator()
        name, password = f"acknowledged-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
        user = {"name": name, "password": password, "domain_id": "default"}
        self._user = self._made("/users", "user", user)
        self._project = self._made("/projects", "project", {"name": name, "domain_id": "default"})
        roles = identity.call("GET", "/roles?name=member", self._admin)
        self._role = _done(roles).json()["roles"][0]["id"]
        self._who = {"id": self._user, "password": password}
        self._grant = f"/projects/{self._project}/users/{self._user}/roles/{self._role}"

    def _made(self, path: str, kind: str, body: Mapping[str, Any]) -> str:
        return _done(self._identity.call("POST", path, self._admin, {kind: body})).json()[kind]["id"]

    def _several(self, ask: Callable[[], requests.Response], times: int = AT_ONCE) -> list[requests.Response]:
        return [each.result() for each in [self._pool.submit(ask) for _ in range(times)]]

    def round(self) -> None:
        """Grant a role, use it, revoke it, disable the user and enable it again. Raises Refused."""
        try:
            self._round()
        finally:
            time.sleep(_REVOKED)

    def _round(self) -> None:
        ask, expect, admin = self._identity.call, self._findings.expect, self._admin
        _done(ask("PUT", self._grant, admin))
        logins = self._several(lambda: self._identity.login(self._who, self._project))
        expect("login after a grant", logins, 201)
        tokens = [each.headers["X-Subject-Token"] for each in logins if each.status_code == 201]
        if not tokens:
            raise Refused("no login after a grant")
        mine = tokens[0]
        made = self._several(lambda: self._credential(mine))
        expect("application credential after a grant", made, 201)
        # Somebody else's rights would open this.
        expect("list of users by a member", self._several(lambda: ask("GET", "/users", mine)), 403)
        name = f"renamed-{uuid.uuid4().hex[:12]}"
        _done(ask("PATCH", f"/users/{self._user}", admin, {"user": {"name": name}}))
        shown = self._several(lambda: ask("GET", f"/users?name={name}", admin))
        expect("user by a new name", [each for each in shown if each.status_code != 200 or not _users(each)], 0)
        self._findings.looks += len(shown)
        _done(ask("DELETE", self._grant, admin))
        expect("login after a revocation", self._several(lambda: self._identity.login(self._who, self._project)), 401)
        expect("token after a revocation", self._validated(mine), 404)
        expect("token used after a revocation", self._several(lambda: self._credential(mine)), 401, 403)
        _done(ask("PATCH", f"/users/{self._user}", admin, {"user": {"enabled": False}}))
        expect("login of a disabled user", self._several(lambda: self._identity.login(self._who), 2), 401)
        _done(ask("PATCH", f"/users/{self._user}", admin, {"user": {"enabled": True}}))
        expect("login of an enabled user", self._several(lambda: self._identity.login(self._who), 2), 201)

    def _credential(self, token: str) -> requests.Response:
        body = {"application_credential": {"name": uuid.uuid4().hex}}
        return self._identity.call("POST", f"/users/{self._user}/application_credentials", token, body)

    def _validated(self, token: str) -> list[requests.Response]:
        path, subject = "/auth/tokens", {"X-Subject-Token": token}
        return self._several(lambda: self._identity.call("GET", path, self._admin, **subject))

    def login_again(self) -> None:
        """Another token of the administrator, as the one there is may have ended."""
        self._admin = self._identity.administrator()

    def end(self) -> None:
        """Takes the user and the project away."""
        self._identity.call("DELETE", f"/users/{self._user}", self._admin)
        self._identity.call("DELETE", f"/projects/{self._project}", self._admin)


def _users(answer: requests.Response) -> list[Any]:
    return answer.json().get("users", []) if answer.status_code == 200 else []


def watched(
    identity: Identity, seconds: float, *, workers: int = 2, meanwhile: Callable[[], None] | None = None
) -> Findings:
    """What several workers found in that time, or for as long as `meanwhile` takes if that is longer."""
    findings, end = Findings(), threading.Event()

    def work() -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            worker = Worker(identity, findings, pool)
            while not end.is_set():
                try:
                    worker.round()
                except (Refused, requests.RequestException) as error:
                    findings.fail(str(error))
                    with _patience():
                        worker.login_again()
            worker.end()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + seconds
        if meanwhile:
            meanwhile()
        time.sleep(max(0.0, deadline - time.monotonic()))
    finally:
        end.set()
    for thread in threads:
        thread.join(4 * _SECONDS)
    return findings


class _patience:  # noqa: N801  (used as a function is)
    def __enter__(self) -> None:
        time.sleep(0.5)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, Refused | requests.RequestException)


def main() -> int:
    """1 where anything was not obeyed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    findings = watched(Identity.of(existing_cluster(), "openstack"), seconds)
    print(
        json.dumps({"looks": findings.looks, "violations": findings.violations, "refused": findings.refused}, indent=2)
    )
    return 1 if findings.violations else 0


if __name__ == "__main__":
    sys.exit(main())
