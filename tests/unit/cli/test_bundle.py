"""`support-bundle` holds the state of a cloud and none of its secrets."""

from __future__ import annotations

import base64
import json
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from openstack_operator.cli.inspection import support_bundle
from openstack_operator.cli.inspection.redaction import masked_values, redacted
from openstack_operator.cli.inspection.snapshot import Snapshot
from openstack_operator.cli.inspection.support_bundle import Options
from openstack_operator.kube.masking import Mask
from openstack_operator.plan import Object, SpecError
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Forbidden
from openstack_operator.runtime.kubernetes.kinds import Kind
from tests.unit.live_objects import NOW, deployment, pod, resource

SECRET = "correct-horse"
DATA = {"password": SECRET, "username": "keystone", "short": "abc"}


def secret() -> Object:
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in DATA.items()}
    return {"metadata": {"name": "mine", "namespace": "openstack"}, "type": "Opaque", "data": encoded}


def api(name: str, restarts: int = 0) -> Object:
    each = pod(name, "keystone-api", "keystone", {"running": {}}, restartCount=restarts)
    each["spec"]["containers"] = [
        {
            "name": "main",
            "image": "keystone:1",
            "env": [{"name": "DB_PASSWORD", "value": "hush"}, {"name": "A", "value": SECRET}],
        }
    ]
    return each


EVENT = {
    "metadata": {"name": "e"},
    "type": "Warning",
    "reason": "BackOff",
    "count": 3,
    "lastTimestamp": "2026-01-01T12:00:00Z",
    "involvedObject": {"kind": "Pod", "name": "keystone-api-a"},
    # As a program writes that colors the names of its settings.
    "message": f"\x1b[2Jcannot use {SECRET}, password\x1b[0m=hunter2",
}
NODE = {
    "metadata": {"name": "n1", "labels": {"zone": "a"}},
    "status": {"conditions": [{"type": "Ready"}], "images": [1]},
}


class FakeClient:
    """A client of a small cluster, in which a user may read everything but what is `refused`."""

    def __init__(self, refused: Sequence[str] = ()) -> None:
        self.refused = refused
        self.lists: Mapping[str, Sequence[Object]] = {"events": [EVENT], "nodes": [NODE], "secrets": [secret()]}

    async def close(self) -> None: ...

    async def server_version(self) -> str:
        return "v1.34.1"

    async def page(self, kind: Kind, namespace: str, params: Mapping[str, str]) -> bytes:
        if kind.plural in self.refused:
            raise Forbidden(f"the operator lacks a permission: User x cannot list {kind.plural}")
        if namespace == "openstack-operator" and kind.plural == "pods":
            assert params["labelSelector"] == "app.kubernetes.io/name=openstack-operator"
            return json.dumps({"items": [api("operator-a")]}).encode()
        items = self.lists.get(kind.plural, ()) if namespace != "openstack-operator" else ()
        return json.dumps({"items": items}).encode()

    async def log(self, namespace: str, pod: str, container: str, *, lines: int, previous: bool = False) -> str:
        if "log" in self.refused:
            raise Forbidden("the operator lacks a permission: User x cannot get pods/log")
        if pod.endswith("-b"):
            raise SpecError("Pod/x", "has not begun")
        return f"{lines} {previous}\n\x1b[2Jmysql://nova:hush@db password=hush {SECRET}\n"


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Writes a bundle, and returns the exit status and its files."""
    spec: dict[str, Any] = {
        "config": {"x": {"my_key": "hush", "debug": True}},
        "password": "hush",
        "database": {"secretRef": {"name": "y"}},
    }
    keystone = resource("Keystone/keystone", reason="Progressing", message=f"starts {SECRET}", **spec)
    keystone["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hush", "kept": "yes"}
    keystone["metadata"]["managedFields"] = [{"hush": 1}]
    snapshot = Snapshot(
        namespace="openstack",
        resources=[keystone],
        workloads=[deployment("keystone-api", "Keystone/keystone")],
        pods=[api("keystone-api-a", restarts=1), api("keystone-api-b")],
        now=NOW,
    )

    async def read(*_: Any, **__: Any) -> Snapshot:
        return snapshot

    def written(refused: Sequence[str] = (), file: str = "bundle.tar.gz") -> tuple[int, dict[str, str]]:
        def connected(context: str | None) -> FakeClient:
            del context
            return FakeClient(refused)

        monkeypatch.setattr(support_bundle, "read", read)
        monkeypatch.setattr(Client, "connect", connected)
        path = tmp_path / file
        status = support_bundle.support_bundle(Options(file=path))
        if status:
            return status, {}
        assert path.stat().st_mode & 0o777 == 0o600
        with tarfile.open(path) as archive:
            members = {each.name.partition("/")[2]: archive.extractfile(each) for each in archive.getmembers()}
            return status, {name: member.read().decode() for name, member in members.items() if member}

    return written


@pytest.mark.security
def test_a_support_bundle_holds_state_and_no_secret(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, files = write()
    assert status == 0
    everything = "".join(files.values())
    assert SECRET not in everything
    assert "hush" not in everything
    assert "\x1b" not in everything
    assert set(files) == {
        "about.txt",
        "status.txt",
        "why.txt",
        "versions.txt",
        "nodes.yaml",
        "events.txt",
        "secrets.txt",
        "files.txt",
        "resources/Keystone.openstack.k8s.io/keystone.yaml",
        "workloads/Deployment/keystone-api.yaml",
        "pods/Pod/keystone-api-a.yaml",
        "pods/Pod/keystone-api-b.yaml",
        "operator/Pod/operator-a.yaml",
        "logs/keystone-api-a/main.log",
        "logs/keystone-api-a/main.previous.log",
        "operator/logs/operator-a/main.log",
    }
    assert (
        files["events.txt"]
        == "2026-01-01T12:00:00Z Warning BackOff Pod/keystone-api-a cannot use ***, password=*** (x3)\n"
    )
    assert files["secrets.txt"] == "mine (Opaque)\n"
    assert files["logs/keystone-api-a/main.log"] == "300 False\nmysql://nova:***@db password=*** ***\n"
    assert "Keystone/keystone" in files["why.txt"]
    assert "Kubernetes: v1.34.1" in files["versions.txt"]
    assert "images" not in files["nodes.yaml"]
    manifest = files["resources/Keystone.openstack.k8s.io/keystone.yaml"]
    assert "my_key: '***'" in manifest
    assert "debug: true" in manifest
    assert "name: y" in manifest
    assert "name: keystone" in manifest
    printed = capsys.readouterr().out
    assert all(name in files["files.txt"] for name in files if name != "files.txt")
    # One line for each file, or folder of files, of the archive.
    tops = dict.fromkeys(name.partition("/")[0] for name in files)
    assert sorted(line.split()[1].rstrip("/") for line in printed.splitlines() if line.startswith(" ")) == sorted(tops)
    assert "  logs/ (2 files)\n" in printed
    assert "  workloads/ (1 file)\n" in printed


def test_objects_that_may_not_be_read_are_named_in_the_bundle(write: Any) -> None:
    status, files = write(refused=("nodes", "secrets", "log"))
    assert status == 0
    assert "not readable: User x cannot list nodes" in files["about.txt"]
    assert "not readable: User x cannot get pods/log" in files["about.txt"]
    assert "each value of the namespace's Secrets" not in files["about.txt"]
    # Patterns hide what is known by its place alone.
    assert "mysql://nova:***@db" not in "".join(files.values())
    assert "hush" not in "".join(files.values())


def test_a_file_that_exists_is_not_replaced(write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bundle.tar.gz").write_text("mine")
    assert write()[0] == 2
    assert "bundle.tar.gz" in capsys.readouterr().err
    assert (tmp_path / "bundle.tar.gz").read_text() == "mine"


def test_a_bundle_that_fails_leaves_no_file(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any) -> str:
        raise LookupError("x")

    monkeypatch.setattr(FakeClient, "server_version", failing)
    assert write()[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.security
def test_names_stay_and_secrets_go() -> None:
    mask = Mask(masked_values([secret()]))
    live = {
        "metadata": {"name": "keystone"},
        "spec": {"rootPassword": 12345678, "adminSecret": "x", "automountServiceAccountToken": False, "text": SECRET},
    }
    assert redacted(live, mask)["spec"] == {
        "rootPassword": "***",
        "adminSecret": "x",
        "automountServiceAccountToken": False,
        "text": "***",
    }
    assert redacted(live, mask)["metadata"] == {"name": "keystone"}


@pytest.mark.security
@pytest.mark.parametrize("key", ["config.json", "clouds.yaml", "script"])
def test_no_form_of_a_secret_of_the_namespace_is_in_it(write: Any, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """In a value of several lines, short, encoded, behind an option, or with another ending."""
    value = "s3cr't/ä"
    contents = {
        "config.json": json.dumps({"auths": {"r": {"password": value}}}),
        "clouds.yaml": f"clouds:\n  x:\n    password: {value}\n",
        "script": f"#!/bin/sh\nlogin --as x\nexport DB_PASS={value}\n",
    }
    mine = {"metadata": {"name": "other"}, "data": {key: base64.b64encode(contents[key].encode()).decode()}}
    login = base64.b64encode(f"x:{value}".encode()).decode()
    forms = [value, quote(value, safe=""), json.dumps(value), login]
    event = {**EVENT, "message": " ".join(["cannot log in:", *forms, "--password hunter2 ADMIN_PW=hunter2"])}

    class Other(FakeClient):
        def __init__(self, refused: Sequence[str] = ()) -> None:
            super().__init__(refused)
            self.lists = {**self.lists, "events": [event], "secrets": [mine]}

        async def log(self, *_: Any, **__: Any) -> str:
            return "\n".join(forms)

    monkeypatch.setattr(sys.modules[__name__], "FakeClient", Other)
    status, files = write()
    everything = "".join(text for name, text in files.items() if name != "about.txt")
    assert status == 0
    assert [each for each in [*forms, "hunter2"] if each in everything] == []


@pytest.mark.security
def test_nothing_in_it_moves_a_terminal_or_turns_text_around(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = 0
    hostile = "\u202egnp.exe\u2066 \u200f\x1b]0;title\x07\x9b2J\x1b[31m\u2028\x00\x7f"

    class Hostile(FakeClient):
        def __init__(self, refused: Sequence[str] = ()) -> None:
            super().__init__(refused)
            named = {**NODE, "metadata": {"name": "n1", "labels": {"zone": hostile}}}
            self.lists = {**self.lists, "events": [{**EVENT, "message": hostile}], "nodes": [named]}

        async def server_version(self) -> str:
            return hostile

        async def log(self, *_: Any, **__: Any) -> str:
            return hostile

    monkeypatch.setattr(sys.modules[__name__], "FakeClient", Hostile)
    _, files = write()
    for name, text in files.items():
        checks += 1
        assert name.isprintable()
        assert [letter for letter in text if letter != "\n" and not letter.isprintable()] == [], name
    assert checks
