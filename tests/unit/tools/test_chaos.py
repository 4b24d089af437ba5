"""What the chaos harness counts, and how it says so."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from keystoneauth1.exceptions import ConnectTimeout, NotFound

from openstack_operator.cli.offline.documents import read
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.cli.offline.survey import survey
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import readable
from tools.chaos import report
from tools.chaos.api import Api
from tools.chaos.journal import Attempt, Journal, longest_gap
from tools.chaos.lists import Lists
from tools.chaos.load import Load
from tools.chaos.recovery import recovered
from tools.chaos.run import SAMPLE, bounded, write
from tools.chaos.scenario import SCENARIOS, Result, Stage
from tools.chaos.scenarios.changes import steps
from tools.chaos.scenarios.objects import EDITS, Edit
from tools.chaos.scenarios.pod_ends import one_of_each
from tools.chaos.services import OPTIONAL, LoadBalancers, Secrets, Stacks, Zones
from tools.chaos.site import Site
from tools.chaos.verify import lacking
from tools.chaos.writers import Networks, Ports, Turnover
from tools.cloud import deploy
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours


def _attempt(ended: float, *, error: str = "", kind: str = "rows", key: str = "") -> Attempt:
    return Attempt(kind, ended - 0.1, ended, key, error)


def test_a_gap_counts_between_acknowledgments_and_to_both_ends() -> None:
    attempts = [_attempt(1), _attempt(2, error="refused"), _attempt(8), _attempt(9)]
    assert longest_gap(attempts, 0, 10, 1) == 6
    assert longest_gap([_attempt(1)], 0, 10, 1) == 8
    assert longest_gap([], 0, 10, 1) == 9


def test_a_write_is_acknowledged_only_without_an_error() -> None:
    journal = Journal()
    for attempt in (_attempt(1, key="a"), _attempt(2, key="b", error="timed out"), _attempt(3, kind="users", key="c")):
        journal.add(attempt)
    assert journal.acknowledged("rows") == {"a"}
    assert journal.failed(0) == {"rows": 1}
    assert journal.failed(2.5) == {}
    assert journal.errors(0) == {"rows": ["timed out"]}


class Server:
    """As much of an API as writers use; the next deletions fail as told."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.answers: list[type[Exception]] = []
        self.numbers = itertools.count()

    def call(self, _service: str, method: str, path: str, **_: Any) -> Any:
        if method == "GET":
            return SimpleNamespace(text=self.held[path.split("/")[-2]])
        assert method == "DELETE"
        id_ = path.rpartition("/")[2]
        if self.held.pop(id_, None) is None:
            raise NotFound()
        if self.answers:
            raise self.answers.pop()
        return None

    def json(self, _service: str, method: str, path: str, *, json: Any = None, timeout: float = 10.0) -> Any:
        if method == "GET":
            assert path == "/stacks"
            return {"stacks": self.listed("", "", "")}
        id_ = str(next(self.numbers))
        fields = next((value for value in json.values() if isinstance(value, dict) and "name" in value), json)
        self.held[id_] = fields.get("name") or fields["stack_name"]
        return {"id": id_, "secret_ref": f"https://x/{id_}", **{resource: {"id": id_} for resource in BODIES}}

    def listed(self, _service: str, _path: str, _what: str) -> list[dict[str, str]]:
        """Return the objects of every kind in one form."""
        states = {"stack_status": "CREATE_COMPLETE", "provisioning_status": "ACTIVE"}
        return [
            {"name": name, "stack_name": name, "secret_ref": f"https://x/{id_}", **states}
            for id_, name in self.held.items()
        ]


BODIES = ("network", "port", "stack", "loadbalancer")


@pytest.mark.parametrize(
    "writer",
    [
        Networks,
        partial(Ports, network="net"),
        *(partial(each) for each in (Secrets, Zones, Stacks)),
        partial(LoadBalancers, subnet="subnet"),
    ],
    ids=["networks", "ports", "secrets", "zones", "stacks", "load balancers"],
)
def test_a_writers_object_is_present_until_lost(writer: Callable[[Api], Turnover]) -> None:
    server = Server()
    client = writer(cast("Api", server))
    keys = {client.attempt(number) for number in range(23)}
    assert len(server.held) == 20
    assert client.present() == keys
    lost = server.held.pop(max(server.held, key=int))
    assert len(keys - client.present()) == 1
    assert next(iter(keys - client.present())) in lost


def test_a_secret_with_another_payload_is_lost() -> None:
    server = Server()
    secrets = Secrets(cast("Api", server))
    keys = {secrets.attempt(1), secrets.attempt(2)}
    assert secrets.present() == keys
    server.call = lambda *_, **__: SimpleNamespace(text="another")  # type: ignore[method-assign]
    assert secrets.present() == set()


def test_a_removed_port_is_not_lost_and_a_vanished_one_is() -> None:
    neutron = Server()
    ports = Ports(cast("Api", neutron), "net")
    keys = [ports.attempt(number) for number in range(25)]
    assert len(neutron.held) == 20
    assert ports.present() == set(keys)
    # The answer to a removal does not come: the next try finds it done.
    neutron.answers = [ConnectTimeout]
    with pytest.raises(ConnectTimeout):
        ports.attempt(25)
    keys.append(ports.attempt(26))
    assert ports.present() == set(keys)
    lost = neutron.held.pop(min(neutron.held, key=int))
    keys.append(ports.attempt(27))
    assert set(keys) - ports.present() == {lost}


def test_a_port_on_its_way_out_is_not_lost() -> None:
    """A list is made between the removal and its answer, as by another process of the API."""
    neutron = Server()
    ports = Ports(cast("Api", neutron), "net")
    keys = [ports.attempt(number) for number in range(20)]
    found: list[set[str]] = []

    class Slow(ConnectTimeout):
        def __init__(self) -> None:
            found.append(ports.present())

    neutron.answers = [Slow]
    with pytest.raises(ConnectTimeout):
        ports.attempt(20)
    assert found == [set(keys)]
    assert ports.present() == set(keys)


class Flaky:
    """A client whose third attempt fails."""

    kind = "flaky"
    interval = 0.01

    def attempt(self, number: int) -> str:
        if number == 3:
            raise ConnectionError("refused")
        return f"key-{number}"


class Calm(Site):
    """A cloud in which nothing is wrong but for its first look."""

    looks: list[int] = []

    def troubles(self) -> dict[str, str]:
        self.looks.append(1)
        return {"Pod/x": "Pending"} if len(self.looks) == 1 else {}


def test_load_survives_a_failure_and_recovery_ends_with_the_last_trouble() -> None:
    with Load(Journal(), [Flaky()]) as load:
        found = recovered(Calm(Kubernetes("embedded", None)), load, time.monotonic(), 300, quiet=1.5)
    assert found.is_complete
    assert found.seconds == max(found.steps.values()), "what was quiet afterwards does not count"
    assert set(found.steps) == {"Pod/x", "load/flaky"}
    assert "key-2" in load.journal.acknowledged("flaky")
    assert "key-3" not in load.journal.acknowledged("flaky")


class Broken(Site):
    """A cloud that does not come back."""

    def troubles(self) -> dict[str, str]:
        return {"kube-apiserver": "refused"}


def test_a_cloud_that_does_not_recover_is_abandoned_with_its_problems() -> None:
    with Load(Journal(), [Flaky()]) as load:
        found = recovered(Broken(Kubernetes("embedded", None)), load, time.monotonic(), 0.5)
    assert not found.is_complete
    assert found.troubles == {"kube-apiserver": "refused"}


def test_an_unreachable_api_server_is_a_trouble_not_an_error(tmp_path: Path) -> None:
    class Away(Site):
        def watched(self) -> list[dict[str, object]]:
            raise KubeError("kubectl … failed:\nconnection refused")

    assert Away(Kubernetes("existing", None)).troubles() == {"kube-apiserver": "connection refused"}


class Answers(Lists):
    """An API server that serves pods and seven kinds, each with one object."""

    def __init__(self) -> None:
        self._kinds = {kind: f"/{kind}" for kind in (*"ABCDEFG", "Pod")}
        self._seen = {}
        self._looks = 0
        self.ill: set[str] = set()
        self.asked: list[str] = []

    def _get(self, path: str) -> dict[str, Any]:
        kind = path[1:]
        self.asked.append(kind)
        return {"items": [{"well": kind not in self.ill}]}

    def look(self) -> bool:
        self.asked.clear()
        return all(item["well"] for item in self.watched("openstack", lambda item: item["well"]))


def test_health_needs_every_answer_and_sick_kinds_are_asked_each_time() -> None:
    lists = Answers()
    for _ in range(6):
        assert lists.look()
        assert sorted(lists.asked) == sorted([*"ABCDEFG", "Pod"])
    lists.ill = {"Pod", "C"}
    while lists.look() or "C" not in lists.asked:
        assert {"Pod"} <= set(lists.asked)
    turns = [lists.look() or list(lists.asked) for _ in range(5)]
    for asked in turns:
        assert isinstance(asked, list)
        assert {"Pod", "C"} <= set(asked)
        assert len(asked) <= 4
    assert {kind for asked in turns for kind in cast("list[str]", asked)} == {*"ABCDEFG", "Pod"}
    lists.ill = set()
    assert lists.look()
    assert sorted(lists.asked) == sorted([*"ABCDEFG", "Pod"])


def _pod(name: str, owner: str, digest: str = "") -> dict[str, object]:
    labels = {"pod-template-hash": digest} if digest else {}
    return {"metadata": {"name": name, "labels": labels, "ownerReferences": [{"kind": "ReplicaSet", "name": owner}]}}


def test_faults_choose_one_pod_of_each_kind() -> None:
    pods = [
        _pod("nova-api-5d8-aaaaa", "nova-api-5d8", "5d8"),
        _pod("nova-api-5d8-bbbbb", "nova-api-5d8", "5d8"),
        _pod("ovn-sb-0", "ovn-sb"),
        _pod("ovn-sb-1", "ovn-sb"),
    ]
    assert one_of_each(pods) == {"nova-api": "nova-api-5d8-bbbbb", "ovn-sb": "ovn-sb-1"}


def test_results_of_several_runs_are_one_table(tmp_path: Path) -> None:
    path, page = tmp_path / "chaos.json", tmp_path / "page.md"
    write(path, [Result(2, "two", passed=True, seconds=40.4, acknowledged=7, outages={"rows": 12.2, "users": 0.4})])
    write(path, [Result(1, "one", failed={"users": 3}, lost={"rows": 1}, servers="3 of 3 ran on")])
    page.write_text(f"before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n")
    report.update(path, page)
    report.update(path, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    one, two = [line for line in text.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
    assert one == "| 1 | one | **no** | 0 s | 1 of 0 | 3 users | none | 3 of 3 ran on |"
    assert two == "| 2 | two | yes | 40 s | 0 of 7 | none | rows 12 s | - |"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """Every object of the sample, by its kind as kubectl is to be asked for it, and its name."""
    return _rendered(_with({}, tmp_path_factory.mktemp("sample") / "sample.yaml"))


def _rendered(sample: Path) -> dict[tuple[str, str], dict[str, Any]]:
    documents, unreadable = read([str(sample)], recursive=False)
    result = survey(documents, ReleaseFiles(), namespace="openstack", rules=RULES)
    assert not unreadable
    assert not result.errors
    objects = [readable(obj) for _, children in result.objects for obj in children]
    return {(_asked(obj), obj["metadata"]["name"]): obj for obj in objects}


RULES = evaluator()


def _asked(obj: dict[str, Any]) -> str:
    kind = obj["kind"].lower()
    return ours(kind) if obj["apiVersion"].startswith("openstack.k8s.io/") else kind


def _at(obj: Any, path: str) -> Any:
    for part in path.strip("/").split("/"):
        obj = obj[int(part)] if isinstance(obj, list) else obj[part]
    return obj


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.subject} of {edit.name}")
def test_an_edit_by_hand_changes_something_that_is_there(edit: Edit, rendered: dict[tuple[str, str], Any]) -> None:
    live = rendered[edit.kind, edit.name]
    if edit.kind == "secret":
        live = {**live, "data": live.get("data") or live["stringData"]}
    # Written once there is an owner with a uid.
    live = {**live, "metadata": {**live["metadata"], "ownerReferences": [{"kind": "X"}]}}
    for change in edit.patch(live):
        old = _at(live, change["path"])
        assert change["op"] == "remove" or change["value"] != old
    assert edit.changed_part(live)


def _with(spec: Any, path: Path) -> Path:
    """Write the sample with that in its control plane's spec, and the optional services."""
    documents = deploy.documents(bounded(SAMPLE, OPTIONAL, path))
    plane = next(doc for doc in documents if doc["kind"] == "OpenStackControlPlane")
    plane["spec"] = merge(plane["spec"], spec)
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return path


def test_the_rolling_update_changes_optional_services_if_they_are_enabled() -> None:
    assert steps(OPTIONAL).keys() - steps().keys() == set(OPTIONAL)


@pytest.mark.seconds
@pytest.mark.parametrize("component", steps(OPTIONAL))
def test_a_step_of_the_rolling_update_changes_pods_of_its_component_only(
    component: str, rendered: dict[tuple[str, str], Any], tmp_path: Path
) -> None:
    path = _with(steps(OPTIONAL)[component], tmp_path / "changed.yaml")
    changed = {
        name
        for (kind, name), obj in _rendered(path).items()
        if kind in {"deployment", "statefulset", "daemonset"} and obj != rendered[kind, name]
    }
    assert changed
    assert {name.split("-")[0] for name in changed} == {component}


def merge(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: merge(old.get(key), value) for key, value in new.items()}}


def test_members_are_compared_by_rows_that_any_of_them_held_before() -> None:
    first = {"a": {"1"}, "b": {"1", "2"}, "c": {"1", "2", "3"}}
    assert lacking(first, {"a": {"1", "2", "3", "4"}, "b": {"1", "2", "3", "4", "5"}, "c": {"1", "2", "3"}}) == {}
    assert lacking(first, {"a": {"1", "3"}, "b": {"1", "2", "3"}}) == {"a": {"2"}, "c": {"1", "2", "3"}}


def test_the_longest_outage_says_when_it_was() -> None:
    journal = Journal()
    for ended, error in ((1.0, ""), (2.0, ""), (5.0, "refused"), (9.0, ""), (10.0, "")):
        journal.add(Attempt("rows", ended - 0.5, ended, error=error))
    assert journal.longest_outage("rows", 0, 11) == (2.0, 9.0)
    assert journal.longest_outage("users", 0, 11) == (0, 11)


@pytest.mark.parametrize(
    ("seconds", "problems"),
    [(62.0, []), (64.0, ["nothing was acknowledged for longer than 60 s: {'RPC to node1': 61.0}"])],
)
def test_deleted_objects_cost_no_kind_of_request_more_than_a_minute(
    seconds: float, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)

    class Slow:
        """A cloud in which nothing is acknowledged while its objects are listed."""

        def items(self, *_: str) -> list[Any]:
            clock.now += seconds
            return []

    console: Any = SimpleNamespace(kind="RPC to node1", interval=3.0)
    nothing: Any = None
    stage = Stage(cast("Site", Slow()), nothing, Load(Journal(), [console]), [], [], Result(16, ""))
    SCENARIOS[16].act(stage)
    assert stage.result.problems == ["there was no object to delete", *problems]
