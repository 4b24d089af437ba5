"""The labels injector: what a pod takes from its node, what is kept of a pod, and the certificate it serves with."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from openstack_operator import pki
from openstack_operator.cli.command_line import command_line
from openstack_operator.generate.injector import labels_injector
from openstack_operator.injector.cached_pods import pod_facts, trimmed
from openstack_operator.injector.certificate import certify, renew
from openstack_operator.injector.labels import LABELS, NAME, change, of_node
from openstack_operator.injector.object_names import CALLER, CONFIGURATION, HOST, INJECTOR, PORT, WEBHOOK
from openstack_operator.injector.review import Binding, answered
from openstack_operator.injector.webhook import Webhook
from openstack_operator.kube import secret_data
from openstack_operator.plan import Transient
from openstack_operator.runtime.kubernetes.kinds import POD
from tests.unit.polling import TIMEOUT, eventually
from tools.localcluster.ports import free_port

BB, ZONE = "kubernetes.metal.cloud.sap/bb", "topology.kubernetes.io/zone"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WANTED = pki.Request(common="injector", names=frozenset({"127.0.0.1"}), life=timedelta(days=90))

labelings = st.dictionaries(st.sampled_from([*LABELS, "app"]), st.sampled_from(["", "a", "b"]))


def test_a_pod_takes_five_labels_and_no_others() -> None:
    borne = {label: f"its-{number}" for number, label in enumerate(LABELS)}
    assert of_node("node", {**borne, "kubernetes.io/hostname": "node"}) == borne


def test_a_node_without_a_name_is_called_by_its_own() -> None:
    assert of_node("node-1.example", {ZONE: "a"}) == {NAME: "node-1.example", ZONE: "a"}
    assert of_node("node-1", {NAME: "metal-7"}) == {NAME: "metal-7"}


def test_a_name_that_is_no_labels_value_is_left_out() -> None:
    assert of_node("n" * 64, {}) == {}


def test_correct_labels_are_not_written() -> None:
    assert change({ZONE: "a", "app": "x"}, (), {ZONE: "a"}) == {}
    assert change({ZONE: "a"}, (), {ZONE: "b", BB: ""}) == {ZONE: "b", BB: ""}


def test_only_what_the_injector_set_is_removed() -> None:
    assert change({ZONE: "a"}, (ZONE,), {}) == {ZONE: None}
    assert change({ZONE: "a"}, (), {}) == {}


@given(labelings, st.sets(st.sampled_from(LABELS)), labelings)
def test_a_change_leads_to_what_the_node_bears_and_then_to_nothing(
    pod: dict[str, str], ours: set[str], node: dict[str, str]
) -> None:
    wanted = of_node("node", node)
    changes = change(pod, ours, wanted)
    after = {label: value for label, value in {**pod, **changes}.items() if value is not None}
    assert wanted.items() <= after.items()
    assert {label for label in LABELS if label in after and label not in wanted}.isdisjoint(ours)
    assert after.get("app") == pod.get("app")
    assert change(after, ours | {label for label, value in changes.items() if value is not None}, wanted) == {}


def pod(managers: Mapping[str, list[str]], **spec: Any) -> bytes:
    managed = [
        {"manager": manager, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{label}": {} for label in labels}}}}
        for manager, labels in managers.items()
    ]
    labels = {"app": "x", **dict.fromkeys(itertools.chain(*managers.values()), "a")}
    meta = {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": labels}
    spec = {"containers": [{"name": "main", "image": "x"}] * 10, **spec}
    status = {"manager": "kubelet", "subresource": "status", "fieldsV1": {"f:status": {"f:phase": {}}}}
    return json.dumps({"metadata": {**meta, "managedFields": [*managed, status]}, "spec": spec}).encode()


def test_of_a_pod_is_kept_where_it_runs_and_who_labeled_it() -> None:
    held = trimmed(pod({INJECTOR: [ZONE], "kubectl": [BB]}, nodeName="node"), POD)
    assert (held.meta.namespace, held.meta.name, held.meta.uid, held.meta.resource_version) == ("n", "p", "u", "7")
    assert held.meta.labels == {ZONE: "a", BB: "a"}
    assert (pod_facts(held).node, pod_facts(held).ours) == ("node", (ZONE,))
    assert len(held.raw) < 100
    assert pod_facts(trimmed(pod({}), POD)).node == ""


def review(**changes: Any) -> bytes:
    binding = {"metadata": {"name": "p", "uid": "pod"}, "target": {"kind": "Node", "name": "node"}}
    request = {"uid": "request", "name": "p", "namespace": "n", "dryRun": False, "object": binding, **changes}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def test_a_binding_is_always_allowed() -> None:
    binding, answer = answered(review())
    assert binding == Binding(("n", "p"), "pod", "node")
    assert json.loads(answer)["response"] == {"uid": "request", "allowed": True}


@pytest.mark.parametrize(
    "changes", [{"dryRun": True}, {"object": None}, {"object": {"target": {"kind": "Other", "name": "x"}}}]
)
def test_a_request_that_binds_nothing_is_allowed(changes: dict[str, Any]) -> None:
    binding, answer = answered(review(**changes))
    assert binding is None
    assert json.loads(answer)["response"]["allowed"] is True


@pytest.mark.parametrize("content", [b"", b"no JSON", b"{}", b'{"request": {}}'])
def test_an_invalid_review_is_refused(content: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        answered(content)


def manifest(kind: str) -> list[dict[str, Any]]:
    return [obj for obj in labels_injector() if obj["kind"] == kind]


def test_no_binding_waits_for_the_webhook() -> None:
    [hook] = manifest(CONFIGURATION.kind)[0]["webhooks"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == ("Ignore", 1, "NoneOnDryRun")
    assert hook["rules"][0]["resources"] == ["pods/binding"]


def test_the_webhooks_own_namespaces_are_bound_without_it() -> None:
    [hook] = manifest(CONFIGURATION.kind)[0]["webhooks"]
    [unasked] = hook["namespaceSelector"]["matchExpressions"]
    assert unasked["operator"] == "NotIn"
    assert {"kube-system", *(obj["metadata"]["namespace"] for obj in manifest("Deployment"))} == set(unasked["values"])


def test_the_api_server_finds_what_the_program_serves() -> None:
    [service], [deployment] = (
        manifest("Service"),
        [obj for obj in manifest("Deployment") if obj["spec"]["replicas"] > 1],
    )
    template = deployment["spec"]["template"]
    [container] = template["spec"]["containers"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert {"name": service["spec"]["ports"][0]["targetPort"], "containerPort": PORT} in container["ports"]
    assert f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc" == HOST


@pytest.mark.security
def test_both_programs_are_confined_and_start() -> None:
    checks = 0
    for deployment in manifest("Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        checks += 1
        assert spec["securityContext"]["runAsNonRoot"] is True
        for container in spec["containers"]:
            checks += 1
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {"memory", "ephemeral-storage"} <= container["resources"]["requests"].keys()
            assert container["resources"]["limits"].keys() == {"memory", "ephemeral-storage"}
            assert command_line().parse_args(container["args"]).command == container["name"]
    assert checks


def test_applying_the_manifest_again_keeps_the_certificate() -> None:
    assert not {"data", "stringData"} & set(manifest("Secret")[0])
    assert "caBundle" not in manifest(CONFIGURATION.kind)[0]["webhooks"][0]["clientConfig"]


def drawn() -> Any:
    numbers = itertools.count()
    return lambda: f"drawn {next(numbers)}"


def test_a_certificate_is_renewed_in_time_and_both_authorities_are_trusted_then() -> None:
    draw = drawn()
    first = renew({}, WANTED, draw, NOW)
    assert set(first) == {"tls.crt", "tls.key", "ca.crt"}
    assert renew(first, WANTED, draw, NOW + timedelta(days=59)) == first
    later = NOW + timedelta(days=61)
    second = renew(first, WANTED, draw, later)
    for files in (first, second):
        held = pki.Pair(files["tls.key"], files["tls.crt"])
        assert not pki.fault(held, WANTED, later, authorities=pki.split(second["ca.crt"]))
    assert len(pki.split(second["ca.crt"])) == 2


def test_authorities_do_not_pile_up() -> None:
    files, draw = renew({}, WANTED, drawn(), NOW), drawn()
    for renewals in range(1, 6):
        files = renew(files, WANTED, draw, NOW + timedelta(days=61 * renewals))
        assert len(pki.split(files["ca.crt"])) == 2


@pytest.mark.parametrize(
    "broken", [{"tls.crt": "nonsense"}, {"tls.key": ""}, {"ca.crt": ""}, {"ca.crt": "nonsense"}], ids=str
)
def test_files_somebody_broke_are_made_anew(broken: dict[str, str]) -> None:
    first = renew({}, WANTED, lambda: "first", NOW)
    mended = renew({**first, **broken}, WANTED, lambda: "second", NOW)
    held = pki.Pair(mended["tls.key"], mended["tls.crt"])
    assert not pki.fault(held, WANTED, NOW, authorities=pki.split(mended["ca.crt"]))


def test_another_host_needs_another_certificate() -> None:
    first = renew({}, WANTED, lambda: "first", NOW)
    other = pki.Request(common="injector", names=frozenset({"other"}), life=WANTED.life)
    assert renew(first, other, lambda: "second", NOW) != first


@dataclass
class Hook:
    """A webhook on loopback, and whom it told."""

    folder: Path
    webhook: Webhook
    url: str
    told: list[Binding] = field(default_factory=list[Binding])

    def client(self) -> httpx.AsyncClient:
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        return httpx.AsyncClient(base_url=self.url, verify=trust, trust_env=False, timeout=TIMEOUT)


def written(folder: Path, draw: str) -> None:
    for name, text in renew({}, WANTED, lambda: draw, datetime.now(UTC)).items():
        (folder / name).write_text(text)


@asynccontextmanager
async def served(folder: Path, fault: Exception | None = None, *, slow: float = 0) -> AsyncGenerator[Hook]:
    port = free_port()
    told: list[Binding] = []

    async def bind(binding: Binding) -> None:
        await asyncio.sleep(slow)
        if fault:
            raise fault
        told.append(binding)

    # Who never answers is given up soon; whoever answers has all the time that a busy machine may need.
    webhook = Webhook(bind, folder, look=0.02, budget=0.2 if slow else 60)
    task = asyncio.ensure_future(webhook.serve(("127.0.0.1", port)))
    yield Hook(folder, webhook, f"https://127.0.0.1:{port}", told)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def serving(hook: Hook) -> None:
    await eventually("it to serve", lambda: hook.webhook.serving)


async def shown(hook: Hook) -> int:
    """The status of an answer under the certificate in the folder, once that is shown."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            with suppress(httpx.ConnectError):
                async with hook.client() as client:
                    return (await client.post("/", content=review())).status_code
            await asyncio.sleep(0.02)


async def test_a_webhook_waits_for_its_certificate_and_answers_many_on_one_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as hook:
        with capture_logs() as logs:
            await eventually("two looks", lambda: len(logs) >= 2)
        assert {log["event"] for log in logs} == {"no certificate"}
        assert not hook.webhook.serving
        written(tmp_path, "first")
        await serving(hook)
        async with hook.client() as client:
            for _ in range(3):
                answer = await client.post("/", content=review())
                assert answer.json()["response"] == {"uid": "request", "allowed": True}
                assert "connection" not in answer.headers
            assert (await client.post("/", content=b"nonsense")).status_code == 400
            assert (await client.post("/", content=b"x" * (1 << 20 | 1))).status_code == 413
            assert (await client.post("/", content=review(dryRun=True))).json()["response"]["allowed"] is True
        assert hook.told == [Binding(("n", "p"), "pod", "node")] * 3


async def test_another_certificate_is_shown_without_a_start(tmp_path: Path) -> None:
    written(tmp_path, "first")
    async with served(tmp_path) as hook:
        await serving(hook)
        old = hook.client()
        assert (await old.post("/", content=review())).status_code == 200
        written(tmp_path, "second")
        assert await shown(hook) == 200
        assert (await old.post("/", content=review())).status_code == 200
        await old.aclose()


async def test_a_certificate_without_its_key_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path, "first")
    async with served(tmp_path) as hook:
        await serving(hook)
        trust = hook.client()
        (tmp_path / "tls.crt").write_text(renew({}, WANTED, lambda: "second", datetime.now(UTC))["tls.crt"])
        with capture_logs() as logs:
            await eventually("two looks", lambda: len(logs) >= 2)
        assert {log["event"] for log in logs} == {"no certificate"}
        assert (await trust.post("/", content=review())).status_code == 200
        await trust.aclose()


@pytest.mark.parametrize(("fault", "slow"), [(Transient("away"), 0), (None, 3600)], ids=["away", "slow"])
async def test_a_pod_is_bound_even_where_it_cannot_be_labeled(
    tmp_path: Path, fault: Exception | None, slow: float
) -> None:
    written(tmp_path, "first")
    async with served(tmp_path, fault, slow=slow) as hook, hook.client() as client:
        await serving(hook)
        answer = await client.post("/", content=review())
        assert answer.json()["response"]["allowed"] is True
        assert hook.told == []


@pytest.mark.security
async def test_callers_without_the_secret_path_get_404(tmp_path: Path) -> None:
    """It alone is told the path. Whoever else asks learns nothing, and labels no pod."""
    written(tmp_path, "first")
    (tmp_path / CALLER).write_text("a1b2")
    async with served(tmp_path) as hook, hook.client() as client:
        await serving(hook)
        for path in ("/", "/a1b", "/a1b2/", "/a1b2c", "/A1B2", "//a1b2", "/?a1b2"):
            answer = await client.post(path, content=review())
            assert (answer.status_code, answer.content) == (404, b"")
        assert (await client.get("/a1b2")).status_code == 404
        assert hook.told == []
        answer = await client.post("/a1b2?timeout=1s", content=review())
        assert answer.json()["response"] == {"uid": "request", "allowed": True}
        assert hook.told == [Binding(("n", "p"), "pod", "node")]


@pytest.mark.security
@pytest.mark.parametrize(
    "request_text", [b"", b"POST / HTTP/1.1\r\nContent-Length: 60000\r\n\r\n"], ids=["silent", "slow"]
)
async def test_many_slow_clients_take_few_connections_and_keep_no_review_waiting(
    tmp_path: Path, request_text: bytes
) -> None:
    written(tmp_path, "first")
    async with served(tmp_path) as hook:
        await serving(hook)
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        port = int(hook.url.rpartition(":")[2])
        writers: list[asyncio.StreamWriter] = []
        for number in range(100):
            source = (f"127.0.{number % 10 + 1}.1", 0)
            tls = trust if number % 2 else None
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, local_addr=source)
                writer.write(request_text)
                writers.append(writer)
            served_now = [task for task in asyncio.all_tasks() if "_serve_connection" in repr(task)]
            assert sum(not task.cancelling() for task in served_now) <= 65
        async with hook.client() as client:
            assert (await client.post("/", content=review())).status_code == 200
        for each in writers:
            each.transport.abort()


class Registry:
    """The Secret and the configuration, as the API server keeps them."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        hook: dict[str, Any] = {"name": WEBHOOK, "clientConfig": dict(client)}
        self.configuration: dict[str, Any] = {"webhooks": [hook]}
        self.secret: dict[str, Any] = {"metadata": {"name": INJECTOR}}
        self.writes = 0

    async def get(self, kind: Any, _namespace: str | None, _name: str) -> dict[str, Any]:
        return self.configuration if kind is CONFIGURATION else self.secret

    async def replace(self, _kind: Any, live: dict[str, Any]) -> None:
        self.secret = live
        self.writes += 1

    async def patch(self, *_: Any, **__: Any) -> None:
        [hook], [changed] = self.configuration["webhooks"], _[3]["webhooks"]
        for name, value in changed["clientConfig"].items():
            old = hook["clientConfig"].get(name)
            hook["clientConfig"][name] = {**old, **value} if isinstance(old, dict) else value
        self.writes += 1


@pytest.mark.parametrize(
    ("client", "address"),
    [
        ({"service": {"name": "x", "namespace": "y"}}, "/"),
        ({"url": "https://127.0.0.1:9443"}, "https://127.0.0.1:9443/"),
    ],
    ids=["service", "url"],
)
async def test_the_api_server_alone_is_told_where_to_ask(client: dict[str, Any], address: str) -> None:
    registry = Registry(client)
    await certify(registry)  # type: ignore[arg-type]
    caller = secret_data(registry.secret)[CALLER]
    config = registry.configuration["webhooks"][0]["clientConfig"]
    told = config["service"]["path"] if "service" in config else config["url"]
    assert (told, len(caller)) == (f"{address}{caller}", 64)
    assert {"name": "x", "namespace": "y"}.items() <= config.get("service", {"name": "x", "namespace": "y"}).items()
    writes = registry.writes
    await certify(registry)  # type: ignore[arg-type]
    assert registry.writes == writes
