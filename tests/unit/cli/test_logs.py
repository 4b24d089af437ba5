"""`logs` prints what the pods of a service log, without passwords and control characters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx2 as httpx
import pytest

from openstack_operator import kube
from openstack_operator.cli.inspection import logs
from openstack_operator.cli.inspection.logs import Options
from openstack_operator.cli.inspection.snapshot import Snapshot
from openstack_operator.plan import Object, SpecError, Transient
from openstack_operator.runtime.kubernetes.client import Client
from tests.unit.live_objects import NOW, pod, resource

RUNNING: Mapping[str, Mapping[str, str]] = {"running": {}}
ENDED: Mapping[str, Mapping[str, str]] = {"terminated": {}}


def member(
    name: str,
    role: str,
    component: str,
    *containers: str,
    restarts: int = 0,
    state: Mapping[str, Mapping[str, str]] = RUNNING,
) -> Object:
    each = pod(name, name, role, RUNNING)
    each["metadata"]["labels"] |= {kube.COMPONENT: component, kube.NAME: f"{role}-{component}"}
    each["spec"]["containers"] = [{"name": container} for container in containers or ("main",)]
    each["status"]["containerStatuses"] = [{"name": "main", "restartCount": restarts, "state": dict(state)}]
    return each


class FakeClient:
    """A client that has logs by pod and container, the same each time or one stream after the other, and notes the
    parameters.
    """

    def __init__(self, texts: Mapping[tuple[str, str], Sequence[str] | Exception | list[Any]]) -> None:
        self.texts = texts
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    async def close(self) -> None: ...

    async def log_lines(self, namespace: str, pod: str, container: str, **options: str) -> AsyncIterator[str]:
        assert namespace == "openstack"
        self.asked.append((pod, container, options))
        answer = self.texts.get((pod, container), ())
        if isinstance(answer, list) and answer and not isinstance(answer[0], str):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for line in answer:
            yield line


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Prints logs of a cluster whose pods are those given, one answer after the other."""

    def asked(client: FakeClient, *pods: Sequence[Object], **options: Any) -> int:
        remaining = list(pods)

        async def read(*_: Any, **__: Any) -> Snapshot:
            if not remaining:
                raise KeyboardInterrupt
            resources = [resource("Nova/nova"), resource("Keystone/keystone")]
            return Snapshot(namespace="openstack", resources=resources, pods=remaining.pop(0), now=NOW)

        def connected(context: str | None) -> FakeClient:
            del context
            return client

        monkeypatch.setattr(logs, "read", read)
        monkeypatch.setattr(logs, "_PAUSE", 0)
        monkeypatch.setattr(Client, "connect", connected)
        return logs.logs(Options(**options))

    return asked


PODS = (
    member("nova-api-a", "nova", "api", "main", "front"),
    member("nova-cell1-compute-b", "nova", "cell1-compute"),
    member("keystone-api-c", "keystone", "api"),
)


def test_lines_of_all_pods_are_in_the_order_of_time(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client = FakeClient(
        {
            ("nova-api-a", "main"): ["2026-01-01T00:00:00.1Z one", "2026-01-01T00:00:02Z \x1b[2Jthree"],
            ("nova-api-a", "front"): ["2026-01-01T00:00:00.12Z two password=hush"],
            ("nova-cell1-compute-b", "main"): SpecError("Pod/x", "is waiting to start"),
        }
    )
    assert ask(client, PODS, service="nova") == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "nova-api-a one",
        "nova-api-a/front two password=***",
        "nova-api-a three",
    ]
    assert "no log of nova-cell1-compute-b, container main: Pod/x: is waiting to start" in printed.err
    assert client.asked[0][2] == {"tailLines": "100", "timestamps": "true"}


@pytest.mark.parametrize(
    ("program", "containers"),
    [
        ("api", [("nova-api-a", "main"), ("nova-api-a", "front")]),
        ("nova-api", [("nova-api-a", "main"), ("nova-api-a", "front")]),
        ("compute", [("nova-cell1-compute-b", "main")]),
        ("front", [("nova-api-a", "front")]),
    ],
)
def test_a_program_is_a_component_or_a_container(ask: Any, program: str, containers: list[tuple[str, str]]) -> None:
    client = FakeClient({})
    assert ask(client, PODS, service="nova/nova", program=program) == 0
    assert [(pod, container) for pod, container, _ in client.asked] == containers


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({"since": 90.0}, {"sinceSeconds": "90"}),
        ({"since": 90.0, "tail": 5}, {"sinceSeconds": "90", "tailLines": "5"}),
        ({"tail": -1}, {}),
    ],
)
def test_the_user_chooses_the_part(ask: Any, options: Any, parameters: Any) -> None:
    client = FakeClient({})
    assert ask(client, PODS, service="keystone", **options) == 0
    assert client.asked == [("keystone-api-c", "main", {**parameters, "timestamps": "true"})]


def test_unknown_programs_and_services_are_named(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(FakeClient({}), PODS, service="nova", program="scheduler") == 2
    assert "choose from api, cell1-compute" in capsys.readouterr().err
    assert ask(FakeClient({}), (), service="nova") == 2
    assert "nova has no pods in namespace 'openstack'" in capsys.readouterr().err
    assert ask(FakeClient({}), (), service="glance") == 2
    assert "there is no glance" in capsys.readouterr().err


def stamped(second: str, text: str) -> str:
    return f"2026-01-01T00:00:{second}Z {text}"


def parts_of(client: FakeClient) -> list[tuple[str, Mapping[str, str]]]:
    """Return the pods of which a log was followed, each with the part of it."""
    assert all((part["follow"], part["timestamps"]) == ("true", "true") for _, _, part in client.asked)
    common = ("follow", "timestamps")
    return [(pod, {name: value for name, value in part.items() if name not in common}) for pod, _, part in client.asked]


def test_following_goes_on_behind_the_last_line(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, again, three = stamped("01.5", "one"), stamped("02.25", "two"), stamped("02.5", "two"), stamped("03", "3")
    client = FakeClient({("nova-api-a", "main"): [[one, two, two], [two, two, again], Transient("x"), [again, three]]})
    running, ended = member("nova-api-a", "nova", "api"), member("nova-api-a", "nova", "api", state=ENDED)
    # The last answer is followed by Ctrl+C.
    assert ask(client, *[[running]] * 4, *[[ended]] * 3, service="nova", follow=True, tail=5) == 2
    since = {"sinceTime": "2026-01-01T00:00:02Z"}
    # After its end it is read once, and nothing is missed; then no more.
    assert [part for _, part in parts_of(client)] == [
        {"tailLines": "5"},
        since,
        since,
        since,
        {"sinceTime": "2026-01-01T00:00:03Z"},
    ]
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [f"nova-api-a {text}" for text in ("one", "two", "two", "two", "3")]
    assert printed.err.count("nova-api-a, container main: x") == 1


def test_following_takes_in_new_pods_and_restarts(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    first, restarted = member("nova-api-a", "nova", "api"), member("nova-api-a", "nova", "api", restarts=1)
    waiting, new = member("nova-api-b", "nova", "api", state={}), member("nova-api-c", "nova", "api")
    client = FakeClient(
        {
            ("nova-api-a", "main"): [[stamped("01", "a")], [stamped("01", "a"), stamped("02", "b")], []],
            ("nova-api-b", "main"): SpecError("Pod/x", "is waiting to start"),
        }
    )
    answers = [[first, waiting], [restarted, waiting], [restarted, waiting, new]]
    assert ask(client, *answers, service="nova", follow=True, tail=1) == 2
    assert parts_of(client) == [
        ("nova-api-a", {"tailLines": "1"}),
        ("nova-api-b", {"tailLines": "1"}),
        ("nova-api-a", {"sinceTime": "2026-01-01T00:00:01Z"}),
        ("nova-api-b", {}),
        ("nova-api-a", {"sinceTime": "2026-01-01T00:00:02Z"}),
        ("nova-api-b", {}),
        ("nova-api-c", {}),
    ]
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["nova-api-a a", "nova-api-a b"]
    assert printed.err.count("is waiting to start") == 1


def test_following_from_now_on_misses_nothing(ask: Any) -> None:
    client = FakeClient({("nova-api-a", "main"): [[], Transient("x")]})
    assert ask(client, *[[member("nova-api-a", "nova", "api")]] * 3, service="nova", follow=True, tail=0) == 2
    [first, *others] = [part for _, part in parts_of(client)]
    assert first == {"tailLines": "0"}
    assert [set(each) for each in others] == [{"sinceSeconds"}] * 2


def test_a_log_that_is_too_long_loses_its_beginning(
    ask: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_MOST", 40)
    # A mask makes a line shorter, and a pod's name makes it longer.
    texts = [stamped(f"0{number}", f"password={'x' * 60}") for number in range(4)]
    assert ask(FakeClient({("nova-api-a", "main"): texts}), [PODS[0]], service="nova", program="nova-api") == 0
    assert capsys.readouterr().out.splitlines() == ["nova-api-a password=***"]


def test_a_part_of_a_line_is_a_line(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [stamped("01", "one long"), "line that has no time", stamped("00", "earlier")]
    assert ask(FakeClient({("keystone-api-c", "main"): texts}), PODS, service="keystone") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"keystone-api-c {text}" for text in ("earlier", "one long", "line that has no time")
    ]


def test_init_containers_have_logs(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stuck = member("nova-api-a", "nova", "api")
    stuck["spec"]["initContainers"] = [{"name": "wait"}]
    client = FakeClient({("nova-api-a", "wait"): [stamped("01", "no answer")]})
    assert ask(client, [stuck], service="nova") == 0
    assert [container for _, container, _ in client.asked] == ["wait", "main"]
    assert ask(client, [stuck], service="nova", program="wait") == 0
    assert capsys.readouterr().out.splitlines() == ["nova-api-a/wait no answer"] * 2


async def test_a_log_arrives_in_lines() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.params["container"] != "main":
            return httpx.Response(400, json={"message": "container is waiting"})
        assert request.url.path == "/api/v1/namespaces/openstack/pods/nova-api-a/log"
        return httpx.Response(200, content=b"one\ntw\xffo\nlast")

    async def lines(container: str) -> list[str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="https://x") as http:
            return [each async for each in Client(http).log_lines("openstack", "nova-api-a", container)]

    assert await lines("main") == ["one", "tw\ufffdo", "last"]
    with pytest.raises(SpecError, match="waiting"):
        await lines("front")
