"""What becomes of the secrets of a project that is deleted, in Barbican of the image, before a small Keystone."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, ClassVar
from urllib.error import HTTPError

import pytest

from openstack_operator import agents
from openstack_operator.plan import Release
from tests.unit.barbican_vaults import Server
from tests.unit.barbican_with_vault import ENV, BarbicanWithVault, barbican_with_vault
from tests.unit.image_root import inside
from tests.unit.polling import TIMEOUT
from tests.unit.services.test_key_manager_served import USER, Keystone, serving

OWN = "service"
DAY = timedelta(days=1)


class Projects(Keystone):
    """Also says which projects there are."""

    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}
    """Of projects that have no usual one."""
    gone: ClassVar[set[str]] = set()
    queries: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        project = self.path.removeprefix("/v3/projects/")
        if project == self.path:
            return super().do_GET()
        assert self.headers["X-Auth-Token"] == "of-barbican"
        self.queries.append(project)
        if project in self.answers:
            status, content = self.answers[project]
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return None
        if project in self.gone:
            return self.say(404, {"error": {"code": 404, "message": f"no {project}", "title": "Not Found"}})
        return self.say(200, {"project": {"id": project, "name": project, "enabled": True}})


@pytest.fixture(name="barbican")
def _barbican(release: Release) -> Iterator[BarbicanWithVault]:
    Projects.answers.clear()
    Projects.gone.clear()
    Projects.queries.clear()
    with ExitStack() as stack:
        barbican = stack.enter_context(
            barbican_with_vault(release, Server("https://127.0.0.1:9", "", "r", "s", "secret", lambda _: False))
        )
        barbican.keystone = f"http://127.0.0.1:{stack.enter_context(serving(Projects))}/v3"
        barbican.configure(None)
        yield barbican


def purge(barbican: BarbicanWithVault, days: int = 30) -> tuple[int, str]:
    """The exit code of the program of the CronJob and what it prints."""
    words = ("python3", "-c", agents.text("barbican/forget_projects.py"), str(days))
    with inside(barbican.root, USER, *words, env=ENV, output=subprocess.PIPE) as process:
        output, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, output


def age(barbican: BarbicanWithVault, by: timedelta, column: str = "since") -> None:
    """Let time pass since projects were first gone, or since another column's time."""
    statement = f"UPDATE operator_gone_projects SET {column} = datetime({column}, '{-by.days} days') || '.000000'"
    with sqlite3.connect(barbican.root / "tmp/barbican.sqlite") as database:
        database.execute(statement)
    database.close()


def read(barbican: BarbicanWithVault, id_: str, token: str) -> int:
    """The status of a request for the payload."""
    try:
        barbican.ask(f"/v1/secrets/{id_}/payload", Accept="application/octet-stream", **{"X-Auth-Token": token})
    except HTTPError as error:
        return error.code
    return 200


def store(barbican: BarbicanWithVault, token: str) -> str:
    body: dict[str, Any] = {"name": "a", "payload": "the payload", "payload_content_type": "text/plain"}
    answer = json.loads(barbican.ask("/v1/secrets", body, **{"X-Auth-Token": token}))
    return str(answer["secret_ref"]).rpartition("/")[2]


def test_secrets_of_a_deleted_project_go_and_those_of_others_stay(barbican: BarbicanWithVault) -> None:
    with barbican.api():
        guest, other = store(barbican, "member"), store(barbican, "stranger")
        assert purge(barbican)[0] == 0
        Projects.gone.add("guests")
        code, text = purge(barbican)
        assert code == 0, text
        assert "projects: 2, gone: 1, removed: 0" in text
        age(barbican, 29 * DAY)
        assert "removed: 0" in purge(barbican)[1]
        assert read(barbican, guest, "member") == 200
        age(barbican, DAY)
        code, text = purge(barbican)
        assert code == 0, text
        assert "project guests: its secrets were removed" in text
        assert read(barbican, guest, "member") == 404
        assert read(barbican, other, "stranger") == 200
        assert "projects: 1, gone: 0, removed: 0" in purge(barbican)[1]
        assert Projects.queries[0] == Projects.queries[-1] == OWN


UNCLEAR = (
    (500, b'{"error": {"code": 500}}'),
    (503, b"<html>no server</html>"),
    (404, b"<html>a proxy that has no such path</html>"),
    (404, b'{"message": "of another program"}'),
    (404, b"[]"),
    (403, b'{"error": {"code": 403, "title": "Forbidden"}}'),
    (200, b'{"project": {"id": "another"}}'),
    (200, b""),
    (302, b""),
)


@pytest.mark.security
def test_no_answer_but_a_plain_404_of_keystone_counts(barbican: BarbicanWithVault) -> None:
    with barbican.api():
        guest, other = store(barbican, "member"), store(barbican, "stranger")
        # This one is gone, and stays as long as Keystone is not clear about the others.
        Projects.gone.add("others")
        for answer in UNCLEAR:
            Projects.answers["guests"] = answer
            code, text = purge(barbican, days=0)
            assert code == 1
            assert f"Keystone does not list projects: {answer[0]}" in text
        assert read(barbican, guest, "member") == read(barbican, other, "stranger") == 200
        Projects.answers.clear()
        assert purge(barbican, days=0)[0] == 0
        assert read(barbican, guest, "member") == 200
        assert read(barbican, other, "stranger") == 404


@pytest.mark.security
def test_a_keystone_that_lost_everything_takes_no_secret(barbican: BarbicanWithVault) -> None:
    with barbican.api():
        guest = store(barbican, "member")
        Projects.gone.update({"guests", OWN})
        code, text = purge(barbican, days=0)
        assert code == 1
        assert "Keystone's list lacks the project of Barbican's own user" in text
        barbican.keystone = "http://127.0.0.1:9/v3"
        barbican.configure(None)
        assert purge(barbican, days=0)[0] == 1
        assert read(barbican, guest, "member") == 200


@pytest.mark.security
def test_a_project_that_is_back_and_another_keystone_begin_anew(
    barbican: BarbicanWithVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    with barbican.api():
        guest = store(barbican, "member")
        Projects.gone.add("guests")
        purge(barbican)
        age(barbican, 40 * DAY)
        Projects.gone.clear()
        assert "gone: 0" in purge(barbican)[1]
        Projects.gone.add("guests")
        assert "gone: 1, removed: 0" in purge(barbican)[1]
        age(barbican, 40 * DAY)
        token = Keystone.token

        def of_another(self: Keystone, subject: str) -> dict[str, Any]:
            body = token(self, subject)
            body["project"] |= {"id": "another"} if body["project"]["id"] == OWN else {}
            return body

        monkeypatch.setattr(Projects, "token", of_another)
        assert "gone: 1, removed: 0" in purge(barbican)[1]
        monkeypatch.undo()
        assert read(barbican, guest, "member") == 200


@pytest.mark.security
@pytest.mark.parametrize("days", [3, -3], ids=["nobody asked", "the clock was ahead"])
def test_days_without_an_answer_do_not_count(barbican: BarbicanWithVault, days: int) -> None:
    with barbican.api():
        guest = store(barbican, "member")
        Projects.gone.add("guests")
        purge(barbican)
        age(barbican, 40 * DAY)
        age(barbican, days * DAY, "last")
        assert "gone: 1, removed: 0" in purge(barbican)[1]
        age(barbican, 30 * DAY)
        age(barbican, DAY, "last")
        assert "gone: 1, removed: 1" in purge(barbican)[1]
        assert read(barbican, guest, "member") == 404
