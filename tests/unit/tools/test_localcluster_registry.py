"""The registry beside the embedded cluster: its files, and its own program where that is built."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tools.localcluster import build, programs, registry
from tools.localcluster.layout import Cluster
from tools.localcluster.ports import free_port
from tools.localcluster.registry import Registry

ADDRESS = "10.89.0.1:5000"
LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSTACK_OPERATOR_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_containerd_looks_where_the_registry_says_what_to_trust() -> None:
    configured = programs._containerd(Path("/x"))  # pyright: ignore[reportPrivateUsage]
    assert f'config_path = "{registry.CERTIFICATES}"' in configured
    hosts = registry.containerd_hosts(ADDRESS)
    assert f'[host."https://{ADDRESS}"]' in hosts
    # A node pulls; who pushes is this machine.
    assert 'capabilities = ["pull", "resolve"]' in hosts
    assert "skip_verify" not in hosts


def test_a_login_is_what_docker_and_a_pull_secret_have() -> None:
    entry = registry.login(ADDRESS, "a-password")["auths"][ADDRESS]["auth"]
    assert base64.b64decode(entry).decode() == f"{registry.USER}:a-password"


def test_images_outlive_the_cluster_and_keys_do_not() -> None:
    one = Registry(Cluster())
    assert one.data.is_relative_to(one.cluster.home / "images")
    for path in (one.login, one.authority, one.log):
        assert path.is_relative_to(one.home)
        assert not path.is_relative_to(one.data)


def test_a_registry_that_was_never_started_has_no_address() -> None:
    assert not Registry(Cluster()).address


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Generator[Registry]:
    """The real program on a free port of the loopback interface, without a cgroup, which takes root."""
    running = list[subprocess.Popen[bytes]]()

    def run(one: Registry) -> None:
        command = [str(build.binary("registry", "registry")), "serve", str(one.home / "config.json")]
        with one.log.open("ab") as output:
            environment = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
            running.append(subprocess.Popen(command, stdout=output, stderr=output, env=environment))

    def is_running(one: Registry) -> bool:
        del one
        return bool(running)

    try:
        for part, name in (("registry", "registry"), ("registry", "login"), ("kubernetes", "certificates")):
            build.binary(part, name)
    except build.BuildError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(registry, "PORT", free_port())
    monkeypatch.setattr(registry, "_run", run)
    monkeypatch.setattr(Registry, "is_running", is_running)
    yield registry.start(Cluster(), LOOPBACK)
    for process in running:
        process.send_signal(signal.SIGKILL)
        process.wait()


def status(one: Registry, authorization: str = "") -> int:
    request = urllib.request.Request(f"https://{one.address}/v2/")
    if authorization:
        request.add_header("Authorization", f"Basic {authorization}")
    try:
        trust = ssl.create_default_context(cafile=str(one.authority))
        with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def auth(one: Registry) -> str:
    entries: dict[str, Any] = json.loads(one.login.read_text())["auths"]
    return entries[one.address]["auth"]


def test_registry_admits_the_login(started: Registry) -> None:
    assert status(started, auth(started)) == http.client.OK


def test_registry_refuses_other_logins(started: Registry) -> None:
    assert status(started) == http.client.UNAUTHORIZED
    wrong = base64.b64encode(f"{registry.USER}:wrong".encode()).decode()
    assert status(started, wrong) == http.client.UNAUTHORIZED


def test_registry_password_is_only_in_the_login_file_of_its_owner(started: Registry) -> None:
    status(started, auth(started))
    secret = auth(started)
    password = base64.b64decode(secret).decode().partition(":")[2]
    files = [path for path in started.home.rglob("*") if path.is_file()]
    assert [path for path in files if {secret, password} & {*path.read_text().replace('"', " ").split()}] == [
        started.login
    ]
    assert not [path for path in files if password in path.read_text()]
    assert started.home.stat().st_mode & 0o077 == 0
    assert started.login.stat().st_mode & 0o077 == 0


def test_a_second_start_keeps_login_and_authority(started: Registry) -> None:
    before = (started.login.read_text(), started.authority.read_text())
    again = registry.start(Cluster(), LOOPBACK)
    assert (again.login.read_text(), again.authority.read_text()) == before
