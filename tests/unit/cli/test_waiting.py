"""`wait` ends when resources are ready or gone, and says what changes meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from openstack_operator.cli.inspection import waiting
from openstack_operator.cli.inspection.snapshot import Snapshot
from openstack_operator.cli.inspection.state import progress_of
from openstack_operator.cli.inspection.waiting import Options
from openstack_operator.cli.main import main
from openstack_operator.plan import Object, Transient
from tests.unit.live_objects import NOW, THEN, deployment, pod, resource

PLANE = "OpenStackControlPlane/cloud"


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Waits while the cluster answers one after the other; the last answer stays."""

    class Client:
        async def close(self) -> None: ...

        async def log(self, *_: Any, **__: Any) -> str:
            return ""

    def connected(context: str | None) -> Client:
        del context
        return Client()

    def asked(*answers: Snapshot | Sequence[Object] | Exception, **options: Any) -> tuple[int, list[str]]:
        remaining = list(answers)

        async def read(*_: Any, **__: Any) -> Snapshot:
            answer = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            if isinstance(answer, Exception):
                raise answer
            return (
                answer if isinstance(answer, Snapshot) else Snapshot(namespace="openstack", resources=answer, now=NOW)
            )

        monkeypatch.setattr(waiting, "read", read)
        monkeypatch.setattr(waiting, "_PAUSE", 0)
        monkeypatch.setattr("openstack_operator.runtime.kubernetes.client.Client.connect", connected)
        status = waiting.wait(Options(**options))
        # Without the time of each line.
        return status, [line[9:] if line[2:3] == ":" else line for line in capsys.readouterr().out.splitlines()]

    return asked


def plane(phase: str = "", **fields: Any) -> list[Object]:
    live = resource(PLANE, **fields)
    live["status"]["phase"] = phase
    return [live]


def test_each_change_of_phase_and_reason_is_a_line(ask: Any) -> None:
    starts = plane("Infrastructure", reason="Progressing", message="0/1 pods ready")
    counts = plane("Infrastructure", reason="Progressing", message="1/3 pods ready")
    later = plane("Identity", reason="Waiting", message="for MariaDB")
    assert ask(starts, counts, Transient("gone"), later, plane("Ready")) == (
        0,
        [
            f"{PLANE}: Infrastructure: Progressing: 0/1 pods ready",
            f"{PLANE}: Identity: Waiting: for MariaDB",
            f"{PLANE}: Ready",
        ],
    )


def progress(count: str, *, serves: bool = False, counted_at: int = 1) -> list[Object]:
    """A cloud of which so many parts are done."""
    [live] = plane("ComputeAndStorage", reason="Progressing", message="Nova/nova: not yet")
    live["status"]["conditions"][0]["status"] = str(serves)
    message = f"{count} parts done; Nova/nova: not yet"
    live["status"]["conditions"].append(
        {"type": "Progressing", "status": "True", "message": message, "observedGeneration": counted_at}
    )
    return [live]


def test_each_part_that_is_done_is_a_line(ask: Any) -> None:
    assert ask(progress("1 of 3"), progress("1 of 3"), progress("2 of 3"), plane("Ready")) == (
        0,
        [
            f"{PLANE}: ComputeAndStorage: Progressing: 1 of 3 parts done: Nova/nova: not yet",
            f"{PLANE}: ComputeAndStorage: Progressing: 2 of 3 parts done: Nova/nova: not yet",
            f"{PLANE}: Ready",
        ],
    )


def test_a_change_while_all_serves_is_named_in_plain_words(ask: Any) -> None:
    _, lines = ask(progress("2 of 3", serves=True), plane("Ready"))
    assert lines[0] == f"{PLANE}: Ready, change not done: Progressing: 2 of 3 parts done: Nova/nova: not yet"


def test_a_count_of_an_earlier_spec_is_not_shown() -> None:
    assert progress_of(progress("2 of 3")[0]) == "2 of 3 parts done"
    assert progress_of(progress("2 of 3", counted_at=0)[0]) == ""
    assert progress_of(plane("Ready")[0]) == ""


def test_the_end_names_options_without_effect(ask: Any) -> None:
    [live] = plane("Ready")
    text = "spec.nova.config.DEFAULT.odd: Nova 2025.1 ignores it"
    live["status"]["conditions"].append({"type": "ConfigValid", "status": "True", "message": text})
    assert ask([live]) == (0, [f"{PLANE}: Ready: ConfigValid: {text}"])


def test_the_timeout_names_the_causes(ask: Any) -> None:
    broken = resource("Keystone/keystone", reason="Progressing", message="API: not yet")
    pull = {"waiting": {"reason": "ImagePullBackOff", "message": "back-off pulling image x: not found"}}
    snapshot = Snapshot(
        namespace="openstack",
        resources=[broken],
        workloads=[deployment("keystone-api", "Keystone/keystone")],
        pods=[pod("keystone-api-1-a", "keystone-api", "keystone", pull)],
        now=NOW,
    )
    status, lines = ask(snapshot, resource="keystone", timeout=0)
    assert status == 1
    assert lines[1] == "not ready within 0 s: Keystone/keystone"
    assert any(line.startswith("1. ImagePullFailed: Pod/keystone-api-1-a") for line in lines)


def test_the_timeout_names_what_is_not_ready_alone(ask: Any) -> None:
    ready, broken = resource("Nova/ready"), resource("Nova/broken", reason="Progressing", message="not yet")
    status, lines = ask([ready, broken], resource="nova", timeout=0)
    assert status == 1
    assert "not ready within 0 s: Nova/broken" in lines
    assert not any("Nova/ready in namespace" in line for line in lines)
    assert ask([ready, broken], [ready, resource("Nova/broken")], resource="nova", timeout=0) == (
        0,
        ["Nova/ready: Ready", "Nova/broken: Progressing: not yet", "Nova/broken: Ready"],
    )
    assert ask([ready, broken], [ready], resource="nova", timeout=0)[0] == 2
    lines = ask([ready, broken], resource="nova", timeout=0, is_deletion=True)[1]
    assert "not gone within 0 s: Nova/ready, Nova/broken" in lines


def test_a_deletion_ends_when_that_very_resource_is_gone(ask: Any) -> None:
    leaving, later = resource(PLANE), resource(PLANE)
    leaving["metadata"]["deletionTimestamp"] = THEN
    later["metadata"]["uid"] = "another"
    lines = [f"{PLANE}: exists and is not being deleted", f"{PLANE}: Deleting", f"{PLANE}: gone"]
    assert ask(plane(), [leaving], [later], is_deletion=True) == (0, lines)
    assert ask([], resource="oscp/cloud", is_deletion=True) == (0, [])
    status, lines = ask(plane(), is_deletion=True, timeout=0)
    assert (status, lines[-1]) == (1, f"not gone within 0 s: {PLANE}")


def test_waiting_for_an_unknown_resource_is_a_fault(ask: Any) -> None:
    assert ask([]) == (2, [])
    assert ask(plane(), resource="keystone/keystone") == (2, [])
    assert ask(Transient("no connection")) == (2, [])
    assert ask(plane(), resource="unknown") == (2, [])
    assert ask(Snapshot(namespace="openstack", unreadable=["clouds: no"])) == (2, [])
    assert ask(plane(reason="Waiting"), []) == (2, [f"{PLANE}: Waiting"])
    assert ask(plane(reason="Waiting"), Transient("gone"), timeout=0)[0] == 2


def test_a_duration_has_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("10", "", "m", "10 m"):
        with pytest.raises(SystemExit):
            main(["wait", "--timeout", text])
        assert "is not a duration" in capsys.readouterr().err
