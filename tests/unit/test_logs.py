"""`logs` prints what the pods of a service log, without passwords and control characters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx2 as httpx
import pytest
from live_objects import NOW, pod, resource

from openstack_operator import kube
from openstack_operator.inspection import logs
from openstack_operator.inspection.logs import Options
from openstack_operator.inspection.snapshot import Snapshot
from openstack_operator.plan import Object, SpecError, Transient
from openstack_operator.runtime.client import Client

RUNNING = {"running": {}}


def member(name: str, role: str, component: str, *containers: str, restarts: int = 0) -> Object:
    each = pod(name, name, role, RUNNING)
    each["metadata"]["labels"] |= {kube.COMPONENT: component, kube.NAME: f"{role}-{component}"}
    each["spec"]["containers"] = [{"name": container} for container in containers or ("main",)]
    each["status"]["containerStatuses"] = [{"name": "main", "restartCount": restarts}]
    return each


class FakeClient:
    """A client that has logs by pod and container, and notes the parameters."""

    def __init__(self, texts: Mapping[tuple[str, str], Sequence[str] | Exception]) -> None:
        self.texts = texts
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    async def close(self) -> None: ...

    async def log_lines(self, namespace: str, pod: str, container: str, **options: str) -> AsyncIterator[str]:
        assert namespace == "openstack"
        self.asked.append((pod, container, options))
        answer = self.texts.get((pod, container), ())
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
        "nova-api-a  [2Jthree",
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


def test_what_is_not_there_is_named(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(FakeClient({}), PODS, service="nova", program="scheduler") == 2
    assert "choose from api, cell1-compute" in capsys.readouterr().err
    assert ask(FakeClient({}), (), service="nova") == 2
    assert "nova has no pods in namespace 'openstack'" in capsys.readouterr().err
    assert ask(FakeClient({}), (), service="glance") == 2
    assert "there is no glance" in capsys.readouterr().err


def test_following_takes_in_new_pods_and_restarts(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    first, restarted = member("nova-api-a", "nova", "api"), member("nova-api-a", "nova", "api", restarts=1)
    broken, new = member("nova-api-b", "nova", "api"), member("nova-api-c", "nova", "api")
    client = FakeClient({("nova-api-a", "main"): ["a"], ("nova-api-b", "main"): Transient("x")})
    answers = [[first, broken], [restarted, broken], [restarted, broken, new]]
    # The last answer is followed by Ctrl+C.
    assert ask(client, *answers, service="nova", follow=True, tail=1) == 2
    parts = [(pod, {name: value for name, value in part.items() if name != "follow"}) for pod, _, part in client.asked]
    assert parts[:4] == [
        ("nova-api-a", {"tailLines": "1"}),
        ("nova-api-b", {"tailLines": "1"}),
        ("nova-api-a", {}),
        ("nova-api-b", {"sinceSeconds": "10"}),
    ]
    assert capsys.readouterr().out.splitlines()[:2] == ["nova-api-a a"] * 2


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
