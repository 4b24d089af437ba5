"""Kubeconfigs: the same server, user and rights as with kubectl."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from openstack_operator.kubeconfig import KubeconfigError, connection
from openstack_operator.kubeconfig.credentials import TokenFile
from openstack_operator.kubeconfig.proxies import proxy_of
from openstack_operator.plan import SpecError, Transient
from openstack_operator.runtime.kubernetes.client import Client
from tests.kubeconfigs import REFUSED, Answer, Stand, golden, rows, stand

ROWS = rows()


@pytest.fixture(scope="module", name="server")
def _server() -> Generator[Stand]:
    with stand() as one:
        yield one


def use(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


async def ours(server: Stand, row: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Answer:
    """What this project does with a kubeconfig."""
    use(server.prepare(row), monkeypatch)
    try:
        client = Client.connect(row.get("argument"))
    except KubeconfigError as error:
        assert str(error).startswith("kubeconfig")
        return REFUSED
    try:
        await client.server_version()
    except (Transient, SpecError):
        return server.answer(sent=False)
    finally:
        await client.close()
    answer = server.answer(sent=True)
    return {**answer, "namespace": client.namespace} if row.get("shows_namespace") else answer


@pytest.mark.seconds
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
async def test_kubectl_does_the_same(server: Stand, row: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await ours(server, row, monkeypatch)
    assert answer == golden()[row["name"]]


def test_each_row_has_an_answer_of_kubectl() -> None:
    assert list(golden()) == [row["name"] for row in ROWS]
    assert len(ROWS) >= 20


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a login that kubectl no longer has", ["auth-provider 'gcp'", "exec"]),
        ("a program that is not there", ["exec", "not-there-at-all", "install it"]),
        ("a program that fails", ["exec: false", "exit status 1"]),
        ("a program that answers in another version", ["v1beta1", "apiVersion"]),
        ("a program of a version that is gone", ["exec.apiVersion", "client.authentication.k8s.io/v1beta1"]),
        ("a context without a user", ["context 'a'", "has no login"]),
        ("a context that is not there", ["no context 'b'", "it has: a"]),
        ("a file that is not there", ["names no current-context", "KUBECONFIG"]),
        ("a context whose cluster is not there", ["cluster 'b' has no server"]),
        ("a name that is there twice", ["clusters", "'a' occurs twice"]),
        ("a token that is no text", ["users[0].user.token"]),
        ("a file with a token that is not there", ["tokenFile"]),
        ("groups without a user", ["user 'a'", "`as`"]),
        ("a proxy of another scheme", ["proxy-url", "socks5"]),
        ("an authority that is no certificate", ["certificate-authority"]),
    ],
)
async def test_a_refused_kubeconfig_is_reported_with_its_reason(
    server: Stand, row: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = [each for each in ROWS if each["name"] == row]
    use(server.prepare(entry), monkeypatch)
    with pytest.raises(KubeconfigError) as refused:
        client = Client.connect(entry.get("argument"))
        try:
            await client.server_version()
        finally:
            await client.close()
    for word in words:
        assert word in str(refused.value)


async def test_a_login_that_the_server_does_not_take_is_renewed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old\n")
    seconds = [0.0]
    token = TokenFile(str(path), clock=lambda: seconds[0])
    assert (await token.login()).token == "old"
    path.write_text("new")
    assert (await token.login()).token == "old"
    assert (await token.renewed(await token.login())).token == "new"
    path.write_text("newer")
    seconds[0] = 10
    assert (await token.login()).token == "newer"
    # Whoever replaces it may remove it first.
    path.unlink()
    seconds[0] = 20
    assert (await token.login()).token == "newer"


async def test_a_program_is_asked_again_once_its_login_has_expired(
    server: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "login"
    program.write_text(
        "#!/bin/sh\necho x >> calls\n"
        'printf \'{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status":'
        ' {"token": "%s", "expirationTimestamp": "%s"}}\' "$(wc -l < calls | tr -d " ")" "$UNTIL"\n'
    )
    program.chmod(stat.S_IRWXU)
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "interactiveMode": "Never",
    }
    for until, tokens in ((timedelta(hours=1), ["1", "1"]), (timedelta(hours=-1), ["1", "2"])):
        environment = server.prepare({"secure": True, "user": {"exec": spec}})
        use(environment, monkeypatch)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "calls").unlink(missing_ok=True)
        monkeypatch.setenv("UNTIL", (datetime.now(UTC) + until).strftime("%Y-%m-%dT%H:%M:%SZ"))
        client = Client.connect()
        for _ in tokens:
            await client.server_version()
        await client.close()
        assert [each["headers"] for each in server.recorder.requests] == [
            [f"authorization: Bearer {n}"] for n in tokens
        ]


def test_a_pod_takes_the_account_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use({"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, monkeypatch)
    with pytest.raises(KubeconfigError, match="names no current-context"):
        connection(account=tmp_path)
    (tmp_path / "token").write_text("t")
    way = connection(account=tmp_path)
    assert (way.server, way.proxy, way.namespace) == ("https://[fd00::1]:443", "", "")
    # A context that is asked for is not another cluster.
    with pytest.raises(KubeconfigError, match="no context 'a'"):
        connection("a", account=tmp_path)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://a'}}]}"
    )
    assert connection(account=tmp_path).server == "http://a"


@pytest.mark.parametrize(
    ("exceptions", "proxied"),
    [
        ("", True),
        ("*", False),
        ("10.0.0.0/8", True),
        ("example.org", False),
        (".example.org", False),
        ("*.example.org", False),
        ("kube.example.org:6443", False),
        ("kube.example.org:443", True),
        ("ample.org", True),
        ("other, KUBE.example.org", False),
    ],
)
def test_the_environment_names_servers_without_a_proxy(exceptions: str, proxied: bool) -> None:
    environment = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": exceptions}
    server = urlsplit("https://kube.example.org:6443")
    assert proxy_of(server, None, environment) == ("http://proxy:3128" if proxied else "")
    assert proxy_of(server, "socks5://here:1080", environment) == "socks5://here:1080"


def test_networks_are_without_a_proxy() -> None:
    environment = {"https_proxy": "http://proxy:3128", "no_proxy": "10.0.0.0/8,[fd00::1]:6443"}
    assert proxy_of(urlsplit("https://10.1.2.3:6443"), None, environment) == ""
    assert proxy_of(urlsplit("https://11.1.2.3:6443"), None, environment) == "http://proxy:3128"
    assert proxy_of(urlsplit("https://[fd00::1]:6443"), None, environment) == ""
    assert proxy_of(urlsplit("https://[::1]:6443"), None, environment) == ""
