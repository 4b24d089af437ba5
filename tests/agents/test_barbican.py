"""The job that encrypts the keys of projects again, as the plan runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.fernet import Fernet, MultiFernet

from openstack_operator import agents
from openstack_operator.agents.barbican import check_vault, forget_projects

MODULES = Path(__file__).parent / "modules_of_barbican"
OLD, NEW, FOREIGN = (Fernet.generate_key().decode() for _ in range(3))
PLUGIN = "SimpleCryptoPlugin"


def run(path: Path, rows: list[dict[str, str | None]], **env: str) -> subprocess.CompletedProcess[str]:
    path.write_text(json.dumps(rows))
    text = agents.text("barbican/rewrap.py")
    whole = {**os.environ, "PYTHONPATH": str(MODULES), "ROWS": str(path), "KEKS": f"{NEW} {OLD}", **env}
    return subprocess.run([sys.executable, "-c", text], env=whole, capture_output=True, text=True, check=False)


def row(id_: str, key: str, plugin: str = PLUGIN) -> dict[str, str | None]:
    return {"id": id_, "plugin_name": plugin, "plugin_meta": Fernet(key).encrypt(id_.encode()).decode()}


def test_keys_are_encrypted_with_the_first_one_and_keep_their_value(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    rows = [row("a", OLD), row("b", NEW), {"id": "unbound", "plugin_name": PLUGIN, "plugin_meta": None}]
    done = run(path, [*rows, row("other", FOREIGN, "Vault")])
    assert done.returncode == 0, done.stderr
    assert "3 keys of projects, 0 not encrypted" in done.stdout
    after = {each["id"]: each["plugin_meta"] for each in json.loads(path.read_text())}
    assert Fernet(NEW).decrypt(after["a"]) == b"a"
    assert MultiFernet([Fernet(NEW)]).decrypt(after["b"]) == b"b"
    assert after["unbound"] is None
    assert Fernet(FOREIGN).decrypt(after["other"]) == b"other"


def test_a_row_that_did_not_change_fails_the_job(tmp_path: Path) -> None:
    done = run(tmp_path / "rows", [row("a", OLD), row("b", OLD)], FAILS="b")
    assert done.returncode == 1
    assert "1 not encrypted with the first key" in done.stdout


def test_a_row_that_no_key_decrypts_fails_the_job(tmp_path: Path) -> None:
    done = run(tmp_path / "rows", [row("a", FOREIGN)])
    assert done.returncode == 1
    assert "InvalidToken" in done.stderr


class KeyManager:
    """castellan's, with a secret that was written, or with what it raises."""

    def __init__(self, error: Exception | None = None, *, loses: bool = False) -> None:
        self.stored: dict[str, bytes] = {}
        self._error = error
        self._loses = loses

    def store(self, _context: None, value: bytes) -> str:
        if self._error:
            raise self._error
        self.stored["id"] = b"another" if self._loses else value
        return "id"

    def get(self, _context: None, id_: str) -> Any:
        return SimpleNamespace(get_encoded=lambda: self.stored[id_])

    def delete(self, _context: None, id_: str) -> None:
        del self.stored[id_]


def problem(manager: KeyManager) -> str:
    return check_vault.problem(manager, bytes, RuntimeError)


def test_a_vault_is_tried_with_a_secret_that_goes_again() -> None:
    manager = KeyManager()
    assert problem(manager) == ""
    assert manager.stored == {}


def test_answers_of_a_vault_are_not_in_the_log() -> None:
    class Forbidden(RuntimeError):
        """castellan's, by its name."""

    assert problem(KeyManager(Forbidden("internal-7f3a"))).startswith("Vault denies access: check roleIdRef")
    text = problem(KeyManager(RuntimeError("internal-7f3a")))
    assert text.startswith("the server does not answer like Vault (RuntimeError)")
    assert "internal" not in text
    assert "(KeyError)" in problem(KeyManager(KeyError("internal-7f3a")))
    assert "another secret" in problem(KeyManager(loses=True))


class Answer:
    """Of Keystone."""

    def __init__(self, status: int, body: Any = None) -> None:
        self.status_code, self.body = status, body

    def json(self) -> Any:
        if self.body is None:
            raise ValueError("not JSON")
        return self.body


def keystone(**answers: Answer) -> Any:
    """A Keystone with the projects `own` and `there`, without `lost`, and with these answers."""
    projects = {name: Answer(200, {"project": {"id": name}}) for name in ("own", "there")}
    error = {"error": {"code": 404, "title": "Not Found"}}
    return ({**projects, "lost": Answer(404, error)} | answers).__getitem__


def test_a_project_is_gone_if_keystone_says_so_and_knows_the_others() -> None:
    get = keystone()
    assert forget_projects.gone_projects(get, "own", ["there", "lost"]) == {"lost"}


@pytest.mark.security
@pytest.mark.parametrize(
    "answer",
    [
        Answer(404),
        Answer(404, {}),
        Answer(404, {"error": "lost"}),
        Answer(404, {"error": {"code": 500}}),
        Answer(500, {"error": {"code": 404}}),
        Answer(401, {"error": {"code": 401}}),
        Answer(200, {"project": {"id": "another"}}),
        Answer(200, {"project": None}),
        Answer(200, ["own"]),
        Answer(300, {"project": {"id": "lost"}}),
    ],
    ids=lambda each: f"{each.status_code}-{each.body}",
)
@pytest.mark.parametrize("project", ["own", "lost"])
def test_another_answer_says_nothing_of_any_project(answer: Answer, project: str) -> None:
    with pytest.raises(forget_projects.UnclearError):
        forget_projects.gone_projects(keystone(**{project: answer}), "own", ["there", "lost"])


def test_a_keystone_that_is_emptied_meanwhile_says_nothing() -> None:
    answers = iter([Answer(200, {"project": {"id": "own"}}), *[Answer(404, {"error": {"code": 404}})] * 3])
    with pytest.raises(forget_projects.UnclearError):
        forget_projects.gone_projects(lambda _: next(answers), "own", ["there", "lost"])


def test_secrets_stay_for_the_days_of_the_spec() -> None:
    now = datetime(2026, 3, 31)
    since = {"a": now - timedelta(days=30), "b": now - timedelta(days=29, hours=23)}
    assert forget_projects.due(since, now, 30) == ["a"]


def test_a_project_that_cannot_be_removed_does_not_keep_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    def remove(project: str) -> None:
        if project == "b":
            raise RuntimeError("internal-7f3a")

    assert forget_projects.remove_all(remove, ["a", "b", "c"]) == ["a", "c"]
    output = capsys.readouterr().out
    assert "project b: its secrets were not removed: RuntimeError" in output
    assert "internal-7f3a" not in output
