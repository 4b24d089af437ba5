"""Logs as objects of JSON: what programs are told, and what the TLS proxies write."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from openstack_operator.registry import SERVICES
from tests.field_effects import changes, resulting_leaves

TLS: dict[str, Any] = {"tls": {"pkiRef": {"name": "internal"}}}
JSON: dict[str, Any] = {"logging": {"format": "json"}}
CONFIG = "pod.containers[front].env[CONFIG].value"


@pytest.mark.parametrize("kind", ["Keystone", "Glance", "Placement", "Nova", "Neutron", "Cinder"])
def test_programs_of_openstack_log_json(kind: str) -> None:
    found = changes(resulting_leaves(kind, {}), resulting_leaves(kind, JSON))
    files = {
        field.partition(" [")[0] for field in resulting_leaves(kind, {}) if field.endswith(" [DEFAULT] use_stderr")
    }
    assert files
    assert {field.partition(" [")[0] for field in found if field.endswith(" [DEFAULT] use_json")} == files
    assert not [field for field in found if not field.endswith(" [DEFAULT] use_json")]


def test_an_option_of_the_users_wins() -> None:
    found = resulting_leaves("Keystone", {**JSON, "config": {"DEFAULT": {"use_json": False}}})
    assert found["Secret/keystone-config keystone.conf [DEFAULT] use_json"] == "false"


@pytest.mark.parametrize("kind", ["Keystone", "Nova"])
def test_a_proxy_writes_one_object_for_each_request_that_failed(kind: str) -> None:
    configs = {
        field: value for field, value in resulting_leaves(kind, {**TLS, **JSON}).items() if field.endswith(CONFIG)
    }
    assert configs
    for config in configs.values():
        (form,) = set(re.findall(r"log-format '(.*)'", config))
        line = json.loads(re.sub(r"%(\[[^]]*\]|\w+)", "0", form))
        assert line.keys() == {"client", "method", "path", "status", "request_id", "ms", "ended"}
        # What it writes of the client's choice is escaped, and the query of a console has a token.
        assert form.count("%[var(txn.path)]") == 1
        assert "set-var(txn.path) path,json(utf8s)" in config
        assert "capture.req.uri" not in config


@pytest.mark.security
def test_heat_logs_no_objects() -> None:
    """They would have `password` and `aws_creds` of its request (heat.common.context.RequestContext.to_dict)."""
    spec = next(service.resource.spec for service in SERVICES if service.resource.role == "Heat")
    assert "logging" not in spec.model_fields
