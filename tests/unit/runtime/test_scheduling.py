"""Pods of a resource keep no pods of other namespaces from running."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from openstack_operator.api import Model, PodSettings, Template, models_in
from openstack_operator.cli.main import main
from openstack_operator.plan import Permissions, State
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.cache.entries import Cached, Meta
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.scheduling import anti_affinity_faults, priority_class_faults
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import Catalog
from openstack_operator.runtime.reconcile.gather import Gatherer

pytestmark = pytest.mark.security

KINDS = {resource.handle.partition(".")[0]: resource for resource in reversed(RESOURCES)}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "kubernetes.io/os", "labelSelector": {"matchLabels": {"victim": "yes"}}}
EVERYWHERE = {**TERM, "namespaceSelector": {}}
CRITICAL = "system-node-critical"


def away(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def repelled(kind: str, spec: dict[str, Any]) -> list[str]:
    found = anti_affinity_faults(KINDS[kind].spec.model_validate(spec), "openstack")
    return [f"{path}: {text}" for path, text in found]


def preempting(kind: str, spec: dict[str, Any], *allowed: str) -> list[str]:
    model = KINDS[kind].spec.model_validate(spec)
    found = priority_class_faults(model, "openstack", Permissions(priority_classes=allowed))
    return [f"{path}: {text}" for path, text in found]


def test_a_required_rule_selects_no_pods_of_other_namespaces() -> None:
    where = f"spec.affinity.podAntiAffinity.{REQUIRED}"
    advice = "so that the rule selects pods of this namespace, or make it a preferred rule"
    (selector,) = repelled("Memcached", {"affinity": away(TERM, EVERYWHERE)})
    assert selector == (
        f"{where}[1].namespaceSelector: a selector of namespaces would keep pods of other namespaces off these "
        f"nodes; remove namespaceSelector, {advice}"
    )
    (names,) = repelled("Memcached", {"affinity": away({**TERM, "namespaces": ["openstack", "bank"]})})
    assert names == (
        f"{where}[0].namespaces: a list with other namespaces would keep pods of other namespaces off these "
        f"nodes; remove namespaces, {advice}"
    )


@pytest.mark.parametrize(
    "selection",
    [
        {"namespaces": ["bank"]},
        {"namespaces": ["openstack", "bank"]},
        {"namespaces": ["openstack"], "namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bank"}}},
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}},
    ],
)
def test_each_way_to_select_other_namespaces_is_refused(selection: dict[str, Any]) -> None:
    assert repelled("Memcached", {"affinity": away({**TERM, **selection})})


@pytest.mark.parametrize("selection", [{}, {"namespaces": []}, {"namespaces": ["openstack"]}])
def test_a_required_rule_selects_pods_of_its_own_namespace(selection: dict[str, Any]) -> None:
    assert repelled("Memcached", {"affinity": away({**TERM, **selection})}) == []


def test_rules_that_keep_no_other_pod_from_running_select_what_they_like() -> None:
    preferred = [{"weight": 1, "podAffinityTerm": EVERYWHERE}]
    soft = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert repelled("Memcached", {"affinity": soft}) == []
    assert repelled("Memcached", {"affinity": {"podAffinity": {REQUIRED: [EVERYWHERE]}}}) == []


@pytest.mark.parametrize(
    "affinity",
    [{"podAntiAffinity": None}, {"podAntiAffinity": [1]}, {"podAntiAffinity": {REQUIRED: 1}}, away(cast("Any", 1))],
)
def test_an_affinity_that_the_api_server_refuses_is_left_to_it(affinity: dict[str, Any]) -> None:
    assert repelled("Memcached", {"affinity": affinity}) == []


def test_classes_of_kubernetes_itself_need_the_administrator() -> None:
    for name in (CRITICAL, "system-cluster-critical"):
        (fault,) = preempting("Memcached", {"priorityClassName": name})
        assert fault == (
            f"spec.priorityClassName: '{name}' is for Kubernetes' own programs: to run such pods, it ends pods of "
            "other namespaces; choose a class that does not begin with 'system-', or the operator's administrator may "
            f"allow it with --priority-classes 'openstack={name}'"
        )
    for name in ("high", "my-system-class", "systemic"):
        assert preempting("Memcached", {"priorityClassName": name}) == []


@pytest.mark.parametrize(
    ("entry", "is_allowed"),
    [
        (CRITICAL, True),
        ("system-*", True),
        (f"openstack={CRITICAL}", True),
        (f"bank={CRITICAL}", False),
        ("system-cluster-critical", False),
    ],
)
def test_an_administrator_allows_a_class(entry: str, is_allowed: bool) -> None:
    assert is_allowed == (not preempting("Memcached", {"priorityClassName": CRITICAL}, entry))


def test_settings_of_each_component_are_looked_at() -> None:
    wrong = {"affinity": away(EVERYWHERE), "priorityClassName": CRITICAL}
    nova = {"api": wrong, "cells": [{"name": "cell1", "conductor": wrong}]}
    for found in (repelled("Nova", nova), preempting("Nova", nova)):
        assert [text.partition(".affinity")[0].partition(".priority")[0] for text in found] == [
            "spec.api",
            "spec.cells[0].conductor",
        ]


def test_no_model_has_scheduling_fields_outside_the_examined_settings() -> None:
    models = [Model]
    for model in models:
        models += model.__subclasses__()
    names = {"priority_class_name", "affinity"}
    # The values of a chart are an administrator's.
    specs = [model for model in models if not model.__module__.startswith("openstack_operator.generate.")]
    assert [model for model in specs if names & set(model.model_fields) and not issubclass(model, PodSettings)] == []


def test_templates_of_a_cloud_are_looked_at_in_what_they_become() -> None:
    cloud = KINDS["OpenStackControlPlane"].spec.model_validate({"memcached": {"priorityClassName": CRITICAL}})
    templates = [value for _, value in cloud if isinstance(value, Template)]
    assert templates
    assert not any(model in templates for _, model in models_in(cloud))


async def test_nothing_is_planned_with_pods_that_keep_others_from_running() -> None:
    meta = Meta("memcached", namespace="openstack", uid="memcached-1", resource_version="1")
    held = Cached(meta, b'{"metadata": {"name": "memcached"}}')
    allowed = Permissions(priority_classes=(CRITICAL,))
    for spec, permissions, says in (
        ({"priorityClassName": CRITICAL}, Permissions(), f"--priority-classes 'openstack={CRITICAL}'"),
        ({"priorityClassName": CRITICAL}, allowed, ""),
        ({"affinity": away(EVERYWHERE)}, allowed, "remove namespaceSelector"),
    ):
        world = World(cast("Client", None), Catalog([KINDS["Memcached"]]), [], lambda change: None)
        model = KINDS["Memcached"].spec.model_validate(spec)
        found = (await Gatherer(world, permissions=permissions).gather(KINDS["Memcached"], held, model)).missing
        assert bool(says) == (found is not None)
        if found:
            assert (found.state, found.reason) == (State.FAILED, "InvalidSpec")
            assert says in found.message


CLOUD = """\
apiVersion: openstack.k8s.io/v1alpha1
kind: OpenStackControlPlane
metadata: {{name: cloud, namespace: openstack}}
spec:
  memcached:
    {}
"""


def test_validate_warns_of_a_class_and_refuses_a_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(CLOUD.format(f"priorityClassName: {CRITICAL}"), encoding="utf-8")
    assert main(["validate", "-f", str(file)]) == 0
    warned = capsys.readouterr().err
    assert f"c.yaml:6: warning: OpenStackControlPlane/cloud: spec.memcached.priorityClassName: '{CRITICAL}'" in warned
    assert f"--priority-classes 'openstack={CRITICAL}'" in warned
    assert main(["validate", "-f", str(file), "--priority-classes", CRITICAL]) == 0
    assert "--priority-classes" not in capsys.readouterr().err
    rule = "{topologyKey: a, labelSelector: {}, namespaces: [bank]}"
    file.write_text(CLOUD.format(f"affinity: {{podAntiAffinity: {{{REQUIRED}: [{rule}]}}}}"), encoding="utf-8")
    assert main(["validate", "-f", str(file)]) == 1
    assert f"spec.memcached.affinity.podAntiAffinity.{REQUIRED}[0].namespaces: " in capsys.readouterr().err
