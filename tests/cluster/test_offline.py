"""What is checked without a cluster is what the API server checks: both are asked, and have to agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.offline.manifest import Checker
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.registry import RESOURCES

from .rest import Rest
from .test_refusals import CHANGED, CLOUD, GROWN, REFUSED, manifest

CHECKER = Checker(RESOURCES, evaluator())


@pytest.fixture(scope="module")
def rest(kubeconfig: Path) -> Iterator[Rest]:
    connection = Rest(kubeconfig, "default")
    yield connection
    connection.close()


@pytest.mark.parametrize(("kind", "spec", "field", "fix"), REFUSED, ids=[f"{kind}-{f}" for kind, _, f, _ in REFUSED])
def test_both_name_the_same_fields(rest: Rest, kind: str, spec: dict[str, Any], field: str, fix: str) -> None:
    status, answer = rest.create(manifest(kind, spec))
    assert status == 422
    # The scale subresource names its fields with a dot before them.
    theirs = {cause.get("field", "").lstrip(".") for cause in answer["details"]["causes"] if _is_said(cause)}
    ours = {problem.path for problem in CHECKER.check(manifest(kind, spec)).problems}
    assert theirs <= ours, answer["message"]


def _is_said(cause: dict[str, Any]) -> bool:
    """The API server also says that it did not look any further; that is no mistake of the user's."""
    return "some validation rules were not checked" not in cause.get("message", "")


OTHERS: list[tuple[str, dict[str, Any]]] = [
    (CLOUD, {"nova": {"config": {"DEFAULT": {"debug": None, "workers": 2**40}}}}),
    (CLOUD, {"nova": {"config": {"DEFAULT": 5}}}),
    (CLOUD, {"nova": {"cells": [None]}}),
    (CLOUD, {"nova": None, "region": None}),
    (CLOUD, {"glance": []}),
    (CLOUD, {"mariadb": {"replicas": "3"}}),
    (CLOUD, {"mariadb": {"replicas": 3.5}}),
    (CLOUD, {"mariadb": {"replicas": 2**63}}),
    (CLOUD, {"mariadb": {"replicas": True}}),
    (CLOUD, {"horizon": {"config": {"local_settings": {"LANGUAGES": [["en", "English"], [1, None]]}}}}),
    ("Horizon", {"otherKeystones": [{"name": "a", "authUrl": "https://a"}, {"name": "a", "authUrl": "https://b"}]}),
    ("Horizon", {"branding": {"title": "<script>"}}),
    (CLOUD, {"region": "a" * 300}),
    (CLOUD, {"region": "ä"}),
    (CLOUD, {"region": "a\n"}),
    ("Keystone", {"resources": {"requests": {"cpu": 2, "memory": "1.5Gi"}}}),
    ("Keystone", {"resources": {"requests": {"cpu": 1.5}}}),
    ("Keystone", {"resources": {"requests": {"cpu": True}}}),
    ("Keystone", {"resources": {"requests": {"cpu": ""}}}),
    ("Keystone", {"nodeSelector": {"a": 1}}),
    ("Keystone", {"nodeSelector": {"a": None}}),
    ("Keystone", {"tolerations": [{"anything": ["goes", 1, None]}]}),
    ("Keystone", {"tolerations": ["text"]}),
    ("Keystone", {"networkPolicies": {"nodes": ["2001:db8::/32", "10.0.0.1/8"]}}),
    ("Keystone", {"networkPolicies": {"nodes": ["10.0.0.0/08"]}}),
    ("Keystone", {"networkPolicies": {"nodes": ["::ffff:10.0.0.0/104"]}}),
    ("Keystone", {"networkPolicies": {"nodes": ["fe80::1%eth0/64"]}}),
    ("Nova", {"cells": [{"name": "a"}, {"name": "a"}, {}]}),
    ("Nova", {"cells": {}}),
    ("MariaDBDatabase", {"database": "mysql"}),
]


@pytest.mark.parametrize(("kind", "spec"), [*OTHERS, *((row[0], row[1]) for row in (*CHANGED, *GROWN))])
def test_both_take_or_refuse(rest: Rest, kind: str, spec: dict[str, Any]) -> None:
    status, answer = rest.create(manifest(kind, spec, "both"))
    problems = CHECKER.check(manifest(kind, spec, "both")).problems
    assert bool(problems) == (status in {400, 422}), (status, answer.get("message"), problems)


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "no.dots"},
        {"name": "9lives"},
        {"name": "a" * 64},
        {"name": "UPPER"},
        {"name": ""},
        {"generateName": "a-"},
        {"name": "a", "labels": {"a": 1}},
        {"name": "a", "labels": {"a": None}},
        {"name": "a", "nmae": "b"},
        {"name": "a", "annotations": {"any.thing/at": "all"}},
    ],
    ids=str,
)
def test_both_look_at_names(rest: Rest, metadata: dict[str, Any]) -> None:
    wanted = {**manifest("Keystone", {}), "metadata": metadata}
    status, answer = rest.create(wanted)
    problems = CHECKER.check(wanted).problems
    assert bool(problems) == (status in {400, 422}), (status, answer.get("message"), problems)


@pytest.mark.parametrize("spec", [{"fernet": {"schedule": "@daily"}}, {"nothing": 1}], ids=str)
def test_both_refuse_fields_that_do_not_exist(rest: Rest, spec: dict[str, Any]) -> None:
    status, answer = rest.create(manifest("Keystone", spec))
    assert status == 400
    ours = [problem.path for problem in CHECKER.check(manifest("Keystone", spec)).problems]
    assert [f'unknown field "{path}"' in answer["message"] for path in ours] == [True]
