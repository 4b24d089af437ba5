"""`config` shows the options of a service and who set each, and no secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.cli.inspection import configuration
from openstack_operator.cli.inspection.configuration import Options, effective
from openstack_operator.cli.inspection.snapshot import Snapshot
from openstack_operator.kube.masking import is_secret_option, parse_options, secret_values
from openstack_operator.plan import Object
from openstack_operator.runtime.kubernetes.client import Client
from tests.unit.live_objects import NOW, pod, resource

CONF = """[DEFAULT]
transport_url = rabbit://nova:hush-hush@rabbitmq:5671/nova
cpu_allocation_ratio = 4
debug = true

[keystone_authtoken]
password = hush
memcache_secret_key = hush
tls_keyfile = /etc/tls/tls.key
service_token_roles_required = true
service_token_roles = service,admin-of-all
token_cache_time = 300
about = the password is correct-horse

[driver]
license = correct-horse
pure_api_token = hush

[cache]
backend_argument = sentinel:hush

[pci]
device_spec = {"address": "*:0a:00.*"}
device_spec = {"address": "*:0b:00.*"}
alias = a
alias = b
note = two
  lines
"""


def secret(name: str, role: str, **data: str) -> Object:
    labels = {kube.KIND: role, kube.INSTANCE: role, "app.kubernetes.io/managed-by": kube.MANAGED_BY}
    encoded = {file: base64.b64encode(text.encode()).decode() for file, text in data.items()}
    return {"kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": encoded}


SECRETS = (
    secret("nova-config", "nova", **{"nova.conf": CONF, "policy.yaml": '"a": "b"', "digest-key": "k"}),
    secret("nova-compute-config", "nova", **{"nova.conf": "[DEFAULT]\nhost = n1\n"}),
    secret("nova-credentials", "nova", identity="correct-horse"),
    secret("glance-config", "glance", **{"glance-api.conf": "[DEFAULT]\ndebug = true\n"}),
)
CELLS = [{"name": "cell1", "config": {"DEFAULT": {"host": "n1"}}}]
NOVA = resource("Nova/nova", config={"DEFAULT": {"cpu_allocation_ratio": 4, "debug": True}}, cells=CELLS)


def by_name(names: frozenset[str] | None = None) -> Mapping[str, tuple[str, str]]:
    options, others = effective([NOVA], SECRETS, names)
    assert others == ([] if names == {"nova-compute-config"} else ["Secret/nova-config, policy.yaml"])
    return {each.name: (each.value, each.source) for each in options}


@pytest.mark.security
def test_options_are_shown_without_what_is_secret() -> None:
    options = by_name()
    assert "hush" not in str(options)
    assert "correct-horse" not in str(options)
    assert {name: value for name, (value, source) in options.items() if source == "operator"} == {
        "transport_url": "rabbit://nova:***@rabbitmq:5671/nova",
        "password": "***",
        "memcache_secret_key": "***",
        "tls_keyfile": "/etc/tls/tls.key",
        "service_token_roles_required": "true",
        "service_token_roles": "service,admin-of-all",
        "token_cache_time": "300",
        "backend_argument": "***",
        "pure_api_token": "***",
        "about": "the password is ***",
        "license": "***",
        "device_spec": '{"address": "*:0b:00.*"}',
        "alias": "b",
        "note": "two\nlines",
    }


def test_each_option_names_who_set_it() -> None:
    options = by_name()
    assert options["cpu_allocation_ratio"] == ("4", "user: Nova/nova, spec.config")
    assert options["debug"] == ("true", "user: Nova/nova, spec.config")
    assert options["host"] == ("n1", "user: Nova/nova, spec.cells[0].config")
    assert set(by_name(frozenset({"nova-compute-config"}))) == {"host"}


def test_each_value_of_a_list_is_shown() -> None:
    specs = [{"address": "*:0a:00.*"}, {"address": "*:0b:00.*"}]
    pci = {"device_spec": [json.dumps(each) for each in specs], "alias": ["a"], "note": "two\nlines"}
    options, _ = effective([resource("Nova/nova", config={"pci": pci})], SECRETS)
    values = [(each.name, each.value, each.source) for each in options if each.section == "pci"]
    user = "user: Nova/nova, spec.config"
    assert values == [
        *(("device_spec", json.dumps(each), user) for each in specs),
        ("alias", "a", "operator"),
        ("alias", "b", "operator"),
        ("note", "two\nlines", user),
    ]


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("[a]\nx = 1\n# x = 2\ny: 3=4\n[b]\n[a]\nz =\n", {"a": {"x": "1", "y": "3=4", "z": ""}, "b": {}}),
        ("[client.x]\n\tkey = AQ==\n\tcaps = a\n\t\tb\n", {"client.x": {"key": "AQ==", "caps": "a\nb"}}),
        ("x = 1\n[a]\ny = 2\n", {}),
        ("[mysqld]\nskip-name-resolve\n", {}),
        ("[a]\n= 1\n", {}),
        ("", {}),
    ],
)
def test_a_configuration_file_has_sections_of_options(text: str, sections: Mapping[str, Any]) -> None:
    assert parse_options(text) == sections


@pytest.mark.security
@pytest.mark.parametrize("text", ["[abcdefgh]", "a" * 100_000, "a " * 50_000, "[" * 100_000, "[x]\n" + "a " * 50_000])
def test_a_text_without_options_is_a_secret(text: str) -> None:
    encoded = base64.b64encode(text.encode()).decode()
    whole, decoded, *parts = secret_values({"data": {"key": encoded}})
    assert (whole, decoded) == (encoded, text)
    # Lines of it count by themselves, too.
    assert all(part in text for part in parts)


@pytest.mark.security
@pytest.mark.parametrize("name", ["pin", "hsm_pin", "login", "pin[1]", "admin_password[0]"])
def test_an_entry_of_a_secret_option_is_secret(name: str) -> None:
    assert is_secret_option(name)


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Prints the configuration of a cluster that has Nova, with a pod of its API."""
    api = pod("nova-api-a", "nova-api", "nova", {"running": {}})
    api["metadata"]["labels"][kube.COMPONENT] = "api"
    api["spec"]["volumes"] = [
        {"name": "config", "secret": {"secretName": "nova-config"}},
        {"name": "all", "projected": {"sources": [{"secret": {"name": "other"}}]}},
    ]

    class FakeClient:
        async def close(self) -> None: ...

        async def page(self, *_: Any, **__: Any) -> bytes:
            return json.dumps({"items": SECRETS}).encode()

    def connected(context: str | None) -> FakeClient:
        del context
        return FakeClient()

    def asked(**options: Any) -> int:
        async def read(*_: Any, **__: Any) -> Snapshot:
            return Snapshot(namespace="openstack", resources=[NOVA], pods=[api], now=NOW)

        monkeypatch.setattr(configuration, "read", read)
        monkeypatch.setattr(Client, "connect", connected)
        return configuration.config(Options(**options))

    return asked


def test_configuration_is_printed_as_in_its_files(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(service="nova", program="api") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["# Secret/nova-config, nova.conf", "[DEFAULT]"]
    assert "cpu_allocation_ratio = 4                                      # user: Nova/nova, spec.config" in lines
    assert lines[-1] == "# not shown: Secret/nova-config, policy.yaml"
    assert not any("host = n1" in line for line in lines)
    assert ask(service="nova", as_json=True) == 0
    [host] = [each for each in json.loads(capsys.readouterr().out) if each["name"] == "host"]
    assert (host["section"], host["file"]) == ("DEFAULT", "nova.conf")
    assert ask(service="nova", program="scheduler") == 2
    assert "no pods of a program 'scheduler'" in capsys.readouterr().err
