"""Fields of Cortex: each changes what it says, and nothing else."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import pki
from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.plan import Object
from openstack_operator.testing import NOW
from tests.field_effects import Leaves, check, pods, row

KIND, POD_OF = "Cortex", "Deployment/cortex-api"
IMAGE = {"image": {"repository": "registry.example.org/cortex"}}
CONFIG = "Secret/cortex-config cortex.json"
NOVA, CINDER = f"{CONFIG}.pipelines.nova", f"{CONFIG}.pipelines.cinder"
SIZES = {"requests": {"cpu": "77m", "memory": "99Mi"}, "limits": {"cpu": "7", "memory": "7Gi"}}
ASKED_BY_CINDER = {"pipelines": {"cinder": {"enabled": True}}}


def secret(name: str, host: str = "", **data: str) -> Object:
    metadata = {"name": name, **({"annotations": {ALLOWED_HOSTS: host}} if host else {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


SECRETS = (secret("db", password="x"), secret("app", "keystone", id="y"))


def mounted(name: str, source: str) -> Leaves:
    """A Secret as files for the program."""
    path = f"/etc/cortex/{name}"
    return {
        f"{POD_OF} pod.volumes[{name}].secret.secretName": source,
        f"{POD_OF} pod.containers[main].volumeMounts[{path}].name": name,
        f"{CONFIG}.{name}.login": path,
    }


def login(name: str) -> tuple[str, str]:
    return f"{POD_OF} pod.volumes[{name}]", f"{POD_OF} pod.containers[main].volumeMounts[/etc/cortex/{name}]"


def learns(name: str) -> Any:
    source = {"enabled": True, "endpoint": f"http://{name}.example.org"}
    expected = {f"{CONFIG}.datasources.{name}.endpoint": f"http://{name}.example.org"}
    return row(KIND, f"spec.datasources.{name}", source, expected, f"{CONFIG}.datasources", base=IMAGE)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *pods(KIND, "spec", POD_OF, {"replicas": 2}, f"{POD_OF} pod.containers[main].command", f"{CONFIG}.datasources"),
        row(
            KIND,
            "spec.defaultResources",
            SIZES,
            {
                f"{POD_OF} pod.containers[main].resources.{part}.{name}": amount
                for part, amounts in SIZES.items()
                for name, amount in amounts.items()
            },
        ),
        row(
            KIND,
            "spec.replicas",
            2,
            {f"{POD_OF} spec.replicas": 2},
            f"{POD_OF} pod.affinity",
            f"{POD_OF} pod.tolerations",
            f"{POD_OF} pod.containers[main].lifecycle",
        ),
        row(
            KIND,
            "spec.database",
            {"secretRef": {"name": "db"}, "database": "learned"},
            {f"{CONFIG}.database.database": "learned", **mounted("database", "db")},
            *login("database"),
            base=IMAGE,
        ),
        row(
            KIND,
            "spec.keystone",
            {"authUrl": "https://keystone:5000/v3", "appCredentialRef": {"name": "app"}},
            {f"{CONFIG}.keystone.authUrl": "https://keystone:5000/v3", **mounted("keystone", "app")},
            *login("keystone"),
            base=IMAGE,
        ),
        learns("prometheus"),
        learns("nova"),
        row(KIND, "spec.pipelines.nova.enabled", False, {f"{CONFIG}.pipelines": {}}, NOVA),
        row(
            KIND,
            "spec.pipelines.nova.filters",
            [{"name": "ComputeCapabilitiesFilter"}],
            {f"{NOVA}.filters[AvailabilityZoneFilter].name": None},
        ),
        row(
            KIND,
            "spec.pipelines.nova.weighers",
            [{"name": "DiskWeigher", "weight": -2}],
            {
                f"{NOVA}.weighers[DiskWeigher].name": "DiskWeigher",
                f"{NOVA}.weighers[DiskWeigher].weight": -2.0,
                f"{NOVA}.weighers[RAMWeigher].name": None,
            },
            f"{NOVA}.weighers",
        ),
        row(KIND, "spec.pipelines.cinder.enabled", True, {f"{CINDER}.filters": [], f"{CINDER}.weighers": []}),
        row(
            KIND,
            "spec.pipelines.cinder.filters",
            [{"name": "AvailabilityZoneFilter"}],
            {f"{CINDER}.filters[AvailabilityZoneFilter].name": "AvailabilityZoneFilter"},
            f"{CINDER}.filters",
            base=ASKED_BY_CINDER,
        ),
        row(
            KIND,
            "spec.pipelines.cinder.weighers",
            [{"name": "DiskWeigher", "weight": 3}],
            {f"{CINDER}.weighers[DiskWeigher].name": "DiskWeigher", f"{CINDER}.weighers[DiskWeigher].weight": 3.0},
            f"{CINDER}.weighers",
            base=ASKED_BY_CINDER,
        ),
        row(
            KIND,
            "spec.dependsOn",
            [{"kind": "Nova", "name": "other", "condition": "APIReady"}],
            {
                "DependenciesReady": re.compile("^waiting for Nova/other to be APIReady; there is none"),
                f"{POD_OF} waits for": ["Dependencies"],
            },
        ),
        row(
            KIND,
            "spec.networkPolicies.enabled",
            True,
            {"NetworkPolicy/cortex ": True},
            "NetworkPolicy/cortex",
        ),
        row(
            KIND,
            "spec.networkPolicies.allowFrom",
            [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            {"NetworkPolicy/cortex spec.ingress[0].from[1].podSelector.matchLabels.app": "prometheus"},
            base={"networkPolicies": {"enabled": True}},
        ),
    ],
)
def test_a_field_changes(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also, *SECRETS)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            KIND,
            f"spec.{field}",
            value,
            {"DatasourcesReady": re.compile(f"does not use spec.{field}; set image to one of Cortex")},
            says="without an image does nothing",
        )
        for field, value in (
            ("database", {"secretRef": {"name": "db"}, "database": "learned"}),
            ("keystone", {"authUrl": "https://keystone:5000/v3", "appCredentialRef": {"name": "app"}}),
            ("datasources", {name: {"enabled": True, "endpoint": "http://x"} for name in ("prometheus", "nova")}),
        )
    ],
)
def test_the_small_scheduler_says_what_it_does_not_read(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also, *SECRETS)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(KIND, "spec.imageProfile", "kolla", {}, says="does nothing"),
        row(
            KIND,
            "spec.networkPolicies.nodes",
            ["192.0.2.0/24"],
            {},
            base={"networkPolicies": {"enabled": True}},
            says="does nothing",
        ),
    ],
)
def test_cortex_fields_without_effect_change_nothing(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    """Kolla has no image of it, and no program on the nodes' own network calls it but by its Service, as everybody."""
    check(kind, base, path, value, expected, also)


BY = pki.authority("drawn", "openstack/own", NOW)
WANTED = pki.Request(
    common="cortex", names=frozenset({"cortex.openstack.svc.cluster.local"}), life=timedelta(days=3650)
)
PAIR = pki.issue(BY, WANTED, "own", NOW)
MINE = secret("mine", **{"tls.crt": PAIR.cert, "tls.key": PAIR.key, "ca.crt": BY.cert})
CERTIFIED = {"tls": {"pkiRef": {"name": "internal"}}}


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            KIND,
            "spec.tls.pkiRef.name",
            "internal",
            {
                "endpoint": "https://cortex.openstack.svc.cluster.local:8080",
                "published.internalURL": "https://cortex.openstack.svc.cluster.local:8080",
                f"{POD_OF} pod.containers[front].name": "front",
                f"{POD_OF} pod.volumes[tls].secret.secretName": "cortex-api-tls",
                f"{CONFIG}.listen": "127.0.0.1:8080",
                "uses PKI/internal": True,
            },
            POD_OF,
            "Secret/cortex-api-tls ",
            "CertificateReady",
            "published.",
        ),
        row(
            KIND,
            "spec.tls.secretRef.name",
            "mine",
            {"Secret/cortex-api-tls tls.crt": PAIR.cert, f"{POD_OF} pod.containers[front].name": "front"},
            POD_OF,
            "Secret/cortex-",
            CONFIG,
            "CertificateReady",
            "published.",
            "endpoint",
        ),
        row(
            KIND,
            "spec.monitoring.enabled",
            True,
            {
                "PodMonitor/cortex-api spec.podMetricsEndpoints[0].scheme": "https",
                f"{POD_OF} pod.containers[front].ports[metrics].containerPort": 8404,
            },
            "PodMonitor/cortex-api ",
            f"{POD_OF} pod.containers[front]",
            base=CERTIFIED,
        ),
        row(
            KIND,
            "spec.monitoring.labels",
            {"release": "own"},
            {"PodMonitor/cortex-api labels.release": "own"},
            base={**CERTIFIED, "monitoring": {"enabled": True}},
        ),
        row(
            KIND,
            "spec.tls.announced",
            False,
            {"endpoint": "http://cortex.openstack.svc.cluster.local:8080", "published.trustSecret": None},
            "published.",
            POD_OF,
            base=CERTIFIED,
        ),
        row(
            KIND,
            "spec.tls.required",
            True,
            {
                f"{POD_OF} pod.containers[front].env[CONFIG].value": re.compile(
                    r"req\.payload\(0,1\) -m bin 16 \}\n.*reject"
                )
            },
            f"{POD_OF} pod.containers[",
            base=CERTIFIED,
        ),
    ],
)
def test_encryption(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also, MINE)
