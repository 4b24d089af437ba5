"""A nova-compute that is to end waits for what is under way on its node, as Nova tells it, and for nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from openstack_operator.plan import Release
from tests.agents.nova_plan import planned_nova

from .programs import Machine, pods

Run = Callable[[], str]


class Nova(ThreadingHTTPServer):
    """Answers one after the other, the last one again and again; None is an error of the server."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.migrations: list[list[str] | None] = [[]]
        self.tasks: list[list[str | None]] = [[]]
        self.asked: list[str] = []


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        nova = cast("Nova", self.server)
        nova.asked.append(self.path)
        moves = "/os-migrations" in self.path
        answers: list[Any] = nova.migrations if moves else nova.tasks
        now = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(200 if now is not None else 503)
        self.end_headers()
        name, field = ("migrations", "status") if moves else ("servers", "OS-EXT-STS:task_state")
        self.wfile.write(json.dumps({name: [{field: each} for each in now or ()]}).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


@pytest.fixture
def nova() -> Iterator[Nova]:
    with Nova() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def run(nova: Nova, machine: Machine, tmp_path: Path, release: Release) -> Run:
    """Runs the planned hook to its end; what it printed."""
    conf = tmp_path / "nova.conf"
    at = f"http://127.0.0.1:{nova.server_port}"
    conf.write_text(f"[neutron]\nauth_type = none\nendpoint = {at}\nregion_name = A\n")
    [main] = [
        each for each in pods(planned_nova(release), "nova-cell1-compute")["containers"] if each["name"] == "main"
    ]
    *command, path = main["lifecycle"]["preStop"]["exec"]["command"]
    assert path == "/etc/nova/nova.conf"
    taken_from_the_pod = {entry["name"]: "node1" for entry in main["env"] if "valueFrom" in entry}

    def run() -> str:
        process = machine.run(main, command=[*command, str(conf)], **taken_from_the_pod)
        assert process.returncode == 0, process.stderr
        return process.stdout

    return run


def test_drain_ends_at_once_if_nothing_is_under_way(nova: Nova, run: Run) -> None:
    nova.migrations = [["completed", "error", "finished", "confirmed"]]
    nova.tasks = [[None, None]]
    assert run() == ""
    assert len(nova.asked) == 2
    for path in nova.asked:
        assert parse_qs(urlsplit(path).query)["host"] == ["node1"]


def test_drain_waits_for_migrations_and_servers_with_a_task(nova: Nova, run: Run, machine: Machine) -> None:
    nova.migrations = [["running"], ["post-migrating"], []]
    nova.tasks = [[None], [None], ["spawning"], [None]]
    assert run() == ""
    assert len(nova.asked) == 8
    assert machine.calls() == ["sleep 2"] * 3


def test_a_deletion_is_not_waited_for(nova: Nova, run: Run) -> None:
    """The next nova-compute resumes it, and only that one does where its message was lost."""
    nova.tasks = [["deleting", None]]
    assert run() == ""
    assert len(nova.asked) == 2


def test_drain_asks_again_after_an_answer_that_failed(nova: Nova, run: Run) -> None:
    nova.migrations = [None, None, ["preparing"], None, None, []]
    assert "ServiceUnavailable" in run()
    assert len(nova.migrations) == 1


def test_a_nova_that_does_not_answer_is_not_waited_for(nova: Nova, run: Run) -> None:
    nova.migrations = [None]
    assert len(run().splitlines()) == 3
