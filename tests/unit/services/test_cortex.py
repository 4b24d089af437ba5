"""Cortex's special rules; what its plan looks like as a whole stands in its goldens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from openstack_operator import kube, pki
from openstack_operator.plan import MissingReference, Object, Plan, SpecError
from openstack_operator.services.cortex.model import CORTEX
from openstack_operator.services.cortex.service import FILTERS, WEIGHERS, plan
from openstack_operator.testing import NOW, context, granted
from tests.planning import release_of
from tools.localcluster.kubernetes import ROOT

PROGRAM = (ROOT / "images" / "cortex" / "cortex").read_text(encoding="utf-8")
IMAGE = {"repository": "ghcr.io/c5c3/cortex", "tag": "0.5.0"}
SEED: dict[str, Any] = {
    "replicas": 2,
    "image": IMAGE,
    "database": {"secretRef": {"name": "db"}, "database": "cortex"},
    "keystone": {"authUrl": "https://keystone:5000/v3", "appCredentialRef": {"name": "credential"}},
    "datasources": {"prometheus": {"enabled": True, "endpoint": "http://prometheus.monitoring:9090"}},
    "pipelines": {"cinder": {"enabled": True}},
}
SECRETS = {"db": {"password": "secret"}, "credential": {"secret": "secret"}}


def planned(spec: Mapping[str, Any] | None = None, **changes: Any) -> Plan:
    return plan(context(CORTEX, spec, release=release_of(changes.pop("profile", "debian")), **changes))


def made(result: Plan) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in result.objects}


def config(result: Plan) -> Any:
    return json.loads(kube.secret_data(made(result)["Secret", "cortex-config"])["cortex.json"])


def container(result: Plan) -> Object:
    return made(result)["Deployment", "cortex-api"]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(("table", "known"), [("FILTERS", FILTERS), ("WEIGHERS", WEIGHERS)])
def test_allowed_steps_are_those_that_the_program_has(table: str, known: tuple[str, ...]) -> None:
    text = re.search(rf"^{table} = \{{(.*?)\}}$", PROGRAM, re.MULTILINE | re.DOTALL)
    assert text
    assert sorted(re.findall(r'"(\w+(?:Filter|Weigher))":', text[1])) == sorted(known)


def test_without_a_word_it_ranks_for_nova_by_memory_and_processors() -> None:
    nova = config(planned())["pipelines"]["nova"]
    assert [entry["name"] for entry in nova["filters"]] == ["AvailabilityZoneFilter", "ComputeCapabilitiesFilter"]
    assert nova["weighers"] == [{"name": "RAMWeigher", "weight": 1.0}, {"name": "CPUWeigher", "weight": 1.0}]


@pytest.mark.parametrize(
    ("pipelines", "path"),
    [
        ({"nova": {"filters": [{"name": "RAMFilter"}]}}, r"nova\.filters\[0\]\.name: the image has no 'RAMFilter'"),
        (
            {"cinder": {"enabled": True, "weighers": [{"name": "X"}]}},
            r"cinder\.weighers\[0\]\.name: the image has no 'X'",
        ),
    ],
)
def test_a_filter_nobody_has_is_named(pipelines: Any, path: str) -> None:
    with pytest.raises(SpecError, match=rf"spec\.pipelines\.{path}; choose from .*, or use an image with it"):
        planned({"pipelines": pipelines})


def test_an_image_of_its_own_has_its_own_filters_and_command() -> None:
    result = planned({"image": IMAGE, "pipelines": {"nova": {"filters": [{"name": "RAMFilter"}]}}})
    assert config(result)["pipelines"]["nova"]["filters"] == [{"name": "RAMFilter"}]
    assert container(result)["image"] == "ghcr.io/c5c3/cortex:0.5.0"
    assert "command" not in container(result)
    assert container(planned())["command"] == ["cortex", "/etc/cortex/cortex.json"]


def test_own_image_of_cortex_gets_sources_and_secret_files() -> None:
    result = planned(SEED, secrets=SECRETS)
    told = config(result)
    assert told["datasources"] == {"prometheus": {"endpoint": "http://prometheus.monitoring:9090"}}
    assert told["database"] == {"database": "cortex", "login": "/etc/cortex/database"}
    assert told["keystone"] == {"authUrl": "https://keystone:5000/v3", "login": "/etc/cortex/keystone"}
    assert {"/etc/cortex/database", "/etc/cortex/keystone"} <= {
        m["mountPath"] for m in container(result)["volumeMounts"]
    }
    assert "secret" not in json.dumps(told)


@pytest.mark.parametrize(
    ("missing", "path"), [("db", r"database\.secretRef"), ("credential", r"keystone\.appCredentialRef")]
)
def test_a_secret_it_needs_and_that_is_not_there_is_named(missing: str, path: str) -> None:
    secrets = {name: data for name, data in SECRETS.items() if name != missing}
    with pytest.raises(MissingReference, match=rf"spec\.{path}\.name: there is no Secret '{missing}'"):
        planned(SEED, secrets=secrets)


def test_the_reference_implementation_says_what_it_does_not_read() -> None:
    spec = {name: value for name, value in SEED.items() if name != "image"}
    result = planned(spec)
    step = next(step for step in result if step.name == "Datasources")
    assert step.verdict
    assert step.verdict.ready
    assert "does not use spec.database, spec.keystone, spec.datasources" in step.verdict.message
    assert set(config(result)) == {"listen", "pipelines"}
    told = [
        next(step for step in planned(each, secrets=SECRETS) if step.name == "Datasources") for each in (None, SEED)
    ]
    assert [step.verdict and step.verdict.message for step in told] == ["", ""]


def test_cortex_has_the_address_of_its_name() -> None:
    result = planned()
    assert result.outcome.endpoint == "http://cortex.openstack.svc.cluster.local:8080"
    assert result.outcome.published == {"internalURL": result.outcome.endpoint}
    assert made(result)["Service", "cortex"]["spec"]["ports"][0]["port"] == 8080


def test_with_a_certificate_it_is_behind_a_front_and_alone_with_it() -> None:
    by = pki.authority("drawn", "openstack/internal", NOW)
    published = {"authoritySecret": "by", "bundleSecret": "bundle", "certificateMinutes": "60"}
    given: dict[str, Any] = {
        "published": {"PKI": published},
        "secrets": {"by": {"tls.crt": by.cert, "tls.key": by.key}, "bundle": {"ca.crt": by.cert}},
    }
    result = planned({"tls": {"pkiRef": {"name": "internal"}}}, **given)
    assert result.outcome.endpoint == "https://cortex.openstack.svc.cluster.local:8080"
    assert result.outcome.published["trustSecret"] == "bundle"
    assert config(result)["listen"] == "127.0.0.1:8080"
    names = kube.secret_data(made(result)["Secret", "cortex-api-tls"])["tls.crt"]
    wanted = pki.Request(common="cortex", names=frozenset({"cortex.openstack.svc.cluster.local"}))
    key = kube.secret_data(made(result)["Secret", "cortex-api-tls"])["tls.key"]
    assert not pki.fault(pki.Pair(key, names), wanted, NOW, authorities=[by.cert])


@pytest.mark.proves("Cortex", "status.activePipelines[]")
def test_pipelines_are_active_once_a_pod_answers() -> None:
    spec = {"pipelines": {"cinder": {"enabled": True}}}
    assert planned(spec).outcome.details == {"activePipelines": []}
    live = {("Deployment", "cortex-api"): granted(made(planned(spec))["Deployment", "cortex-api"])}
    assert planned(spec, children=live).outcome.details == {"activePipelines": ["nova", "cinder"]}
    only = {"pipelines": {"nova": {"enabled": False}}}
    assert planned(only, children=live).outcome.details == {"activePipelines": []}


def test_cortex_pods_wait_for_dependencies() -> None:
    spec = {"dependsOn": [{"kind": "Nova", "name": "nova", "condition": "Ready"}, {"kind": "Cinder", "name": "cinder"}]}
    pods = next(step for step in planned(spec) if step.name == "Pipelines")
    (waits,) = [step for step in pods.after if step.name == "Dependencies"]
    assert waits.verdict
    assert "Nova/nova" in waits.verdict.message
    with pytest.raises(ValidationError, match="kind"):
        CORTEX.spec.model_validate({"dependsOn": [{"kind": "Pod", "name": "nova"}]})


@pytest.mark.parametrize("profile", ["debian", "kolla"])
def test_each_profile_has_an_image(profile: str) -> None:
    assert "/cortex:" in container(planned({"imageProfile": profile}, profile=profile))["image"]
