"""Fields of a cloud by the names of either group: each changes what it says, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from _pytest.mark import ParameterSet

from openstack_operator import plan
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import READY, UnsupportedError, progressing
from openstack_operator.registry import SERVICES
from openstack_operator.services.controlplane import c5c3
from openstack_operator.yaml_text import load
from tests.field_effects import RELEASES, Leaves, changes, check, resulting_leaves, row, with_field
from tests.fields import HANDED_ON, KINDS, OFF_BY_DEFAULT, ROOT, description

OURS, THEIRS = "OpenStackControlPlane", "ControlPlane"
BASE: Mapping[str, dict[str, Any]] = {
    OURS: {"tls": {"enabled": False}},
    THEIRS: {"global": {"tls": {"enabled": False}}},
}
"""Without certificates, which follow from one another."""
TEMPLATES = {
    "infrastructure": {
        "mariadb": "MariaDB",
        "rabbitmq": "RabbitMQ",
        "memcached": "Memcached",
        "valkey": "Valkey",
        "etcd": "Etcd",
        "ceph": "CephStorage",
        "ovn": "OVNNetwork",
    },
    "services": {name.lower(): name for name in ("Keystone", "Glance", "Placement", "Neutron", "Nova", "Cinder")},
    "": {"cortex": "Cortex", "tempest": "Tempest"},
}
RUNS = {"mariadb", "rabbitmq", "memcached", "ovn", "keystone", "glance", "placement", "neutron", "nova"}
"""Without a word."""
KIND = {name: kind for part in TEMPLATES.values() for name, kind in part.items()}


def at(door: str, field: str) -> str:
    """Where the template or setting `field` is."""
    name = field.partition(".")[0]
    if door == OURS:
        return f"spec.{field}"
    part = next((part for part, names in TEMPLATES.items() if name in names), "global")
    return f"spec.{part}.{field}" if part else f"spec.{field}"


def in_both(
    field: str, value: Any, expected: Leaves, *also: str, base: Mapping[str, Any] | None = None, says: str = ""
) -> Iterator[ParameterSet]:
    """The same row for both doors; `base` is what is set besides, by field."""
    for door in (OURS, THEIRS):
        spec = BASE[door]
        for each, told in (base or {}).items():
            spec = with_field(spec, at(door, each), told)
        yield row(door, at(door, field), value, expected, *also, base=spec, says=says)


def child(name: str, field: str = "") -> str:
    return f"{KIND[name]}/{name} {field}"


# What of others changes with one that comes.
BESIDE = {
    "barbican": (child("nova", "spec.barbicanRef"), child("glance", "spec.barbicanRef")),
    "ceph": (child("glance", "spec.storageType"), child("nova", "spec.compute")),
    "cinder": (child("nova", "spec.cinderRef"), child("tempest", "spec.dependsOn")),
    "cortex": (child("nova", "spec.scheduler"),),
    "designate": (child("neutron", "spec.externalDns"),),
    "etcd": (child("cinder", "spec.coordination"),),
}
CONDITION = {"ovn": "OVNReady"}
EVERYWHERE = ("keystone", "glance", "placement", "neutron", "nova")
"""APIs of OpenStack that run without a word."""


def switched(name: str) -> Iterator[ParameterSet]:
    """A service that comes, or goes, with its condition."""
    expected: Leaves = {child(name): None if name in RUNS else True}
    if name in RUNS:
        expected[CONDITION.get(name, f"{KIND[name]}Ready")] = None
    also = (child(name), CONDITION.get(name, f"{KIND[name]}Ready"), *BESIDE.get(name, ()))
    for each in in_both(f"{name}.enabled", name not in RUNS, expected, *also):
        # One that is named runs, by these names; its default is changed by naming it.
        if not (name == "valkey" and each.values[0] == THEIRS):
            yield each


def of_all(field: str, value: Any, told: str, *also: str) -> Iterator[ParameterSet]:
    """What the cloud says of all its services."""
    return in_both(field, value, {child(name, f"spec.{told}"): value for name in EVERYWHERE}, *also)


HIGHLY_AVAILABLE: Leaves = {
    **{child(name, f"annotations.{plan.HIGHLY_AVAILABLE}"): "true" for name in RUNS},
    **{child(name, "spec.replicas"): 3 for name in ("mariadb", "rabbitmq", "ovn")},
    # A Glance on a volume of one node stays alone.
    **{child(name, "spec.replicas"): 2 for name in ("memcached", "keystone", "placement", "neutron", "nova")},
}
"""What changes with three MariaDB members."""


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *(each for name in KIND for each in switched(name)),
        *(
            row(
                OURS,
                f"spec.{name}.enabled",
                True,
                {f"{kind}/{name} ": True},
                *(f"{kind}/{name} ", f"{kind}Ready", *BESIDE.get(name, ())),
            )
            for name, kind in OFF_BY_DEFAULT.items()
        ),
        row(
            OURS,
            "spec.horizon.replicas",
            2,
            {"Horizon/horizon spec.replicas": 2},
            base=with_field(BASE[OURS], "spec.horizon.enabled", True),
        ),
        *of_all("region", "North", "region", "OVNNetwork/"),
        *of_all("release", "2099.1", "release", "MariaDB/", "RabbitMQ/", "Memcached/", "OVNNetwork/"),
        *of_all("imageProfile", "kolla", "imageProfile", "MariaDB/", "RabbitMQ/", "Memcached/", "OVNNetwork/"),
        *in_both(
            "storageBackend",
            "ceph",
            {
                child("ceph"): True,
                child("glance", "spec.storageType"): "ceph",
                child("nova", "spec.compute.storageType"): "ceph",
                child("cinder", "spec.backends[ceph].type"): "ceph",
            },
            "CephStorage",
            "uses CephStorage",
            child("cinder", "spec.backends"),
            base={"cinder.enabled": True},
        ),
        *in_both("mariadb.replicas", 3, HIGHLY_AVAILABLE),
        *in_both("mariadb.storageSize", "20Gi", {child("mariadb", "spec.storageSize"): "20Gi"}),
        row(
            OURS,
            "spec.mariadb.storageClassName",
            "fast",
            {child("mariadb", "spec.storageClassName"): "fast"},
            base=BASE[OURS],
        ),
        row(
            THEIRS,
            "spec.infrastructure.mariadb.storageClass",
            "fast",
            {child("mariadb", "spec.storageClassName"): "fast"},
            base=BASE[THEIRS],
        ),
        row(
            THEIRS,
            "spec.services.glance.storage.storageClass",
            "fast",
            {child("glance", "spec.storage.storageClass"): "fast"},
            base=BASE[THEIRS],
        ),
        *in_both("rabbitmq.replicas", 3, {child("rabbitmq", "spec.replicas"): 3}),
        *in_both("rabbitmq.storageSize", "20Gi", {child("rabbitmq", "spec.storageSize"): "20Gi"}),
        *in_both(
            "rabbitmq.perService",
            True,
            {
                "RabbitMQ/rabbitmq-nova ": True,
                "RabbitMQ/rabbitmq ": None,
                child("nova", "spec.messaging.rabbitmqRef.name"): "rabbitmq-nova",
                child("nova", "spec.messaging.notificationsRef.name"): "rabbitmq-notifications",
            },
            "RabbitMQ/",
            child("nova", "spec.messaging"),
            child("neutron", "spec.messaging"),
            *(f"{KIND[name]}/{name} spec.messaging" for name in EVERYWHERE),
        ),
        *in_both("memcached.replicas", 3, {child("memcached", "spec.replicas"): 3}),
        *in_both("valkey.replicas", 3, {child("valkey", "spec.replicas"): 3}, base={"valkey": {"enabled": True}}),
        *in_both(
            "valkey.sentinel.enabled",
            True,
            {child("valkey", "spec.sentinel.enabled"): True},
            base={"valkey": {"enabled": True, "replicas": 3}},
        ),
        row(
            THEIRS,
            "spec.infrastructure.valkey.enabled",
            False,
            {child("valkey"): None, "ValkeyReady": None},
            child("valkey"),
            base=with_field(BASE[THEIRS], "spec.infrastructure.valkey", {"replicas": 1}),
        ),
        row(
            THEIRS,
            "spec.infrastructure.memcached.memory",
            "1Gi",
            {child("memcached", "spec.memory"): "1Gi"},
            base=BASE[THEIRS],
        ),
        *in_both("keystone.replicas", 3, {child("keystone", "spec.replicas"): 3}),
        *in_both("glance.replicas", 2, {child("glance", "spec.replicas"): 2}),
        *in_both("glance.storageType", "ceph", {child("glance", "spec.storageType"): "ceph"}),
        *in_both("placement.replicas", 2, {child("placement", "spec.replicas"): 2}),
        *in_both("neutron.replicas", 2, {child("neutron", "spec.replicas"): 2}),
        *in_both("neutron.api.replicas", 3, {child("neutron", "spec.api.replicas"): 3}),
        *in_both("nova.replicas", 2, {child("nova", "spec.replicas"): 2}),
        *in_both("nova.api.replicas", 3, {child("nova", "spec.api.replicas"): 3}),
        *in_both("nova.scheduler.replicas", 2, {child("nova", "spec.scheduler.replicas"): 2}),
        *in_both("nova.conductor.replicas", 2, {child("nova", "spec.conductor.replicas"): 2}),
        *(
            each
            for field, value in (("replicas", 2), ("api.replicas", 2), ("scheduler.replicas", 2))
            for each in in_both(
                f"cinder.{field}", value, {child("cinder", f"spec.{field}"): value}, base={"cinder.enabled": True}
            )
        ),
        *in_both(
            "cinder.backends",
            [{"name": "fast", "type": "ceph"}],
            {child("cinder", "spec.backends[fast].type"): "ceph", child("cinder", "spec.backends[fast].name"): "fast"},
            base={"cinder.enabled": True},
        ),
        *in_both("cortex.replicas", 2, {child("cortex", "spec.replicas"): 2}, base={"cortex.enabled": True}),
        *in_both(
            "tempest.schedule",
            "0 3 * * *",
            {child("tempest", "spec.schedule"): "0 3 * * *"},
            base={"tempest.enabled": True},
        ),
    ],
)
def test_a_field_changes(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    # A service that asks for a release that is not there says so itself, and its cloud hands it on.
    check(
        kind,
        base,
        path,
        value,
        expected,
        also,
        releases=lambda spec: RELEASES(spec.model_copy(update={"release": "2025.1"})),
    )


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *in_both(
            "logging.format",
            "json",
            {child(name, "spec.logging.format"): "json" for name in EVERYWHERE},
        ),
    ],
)
def test_logging(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)


MADE = (("PrometheusRule", ""),)
MONITORED = (*EVERYWHERE, "rabbitmq", "mariadb", "memcached", "ovn")


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *in_both(
            "monitoring.enabled",
            True,
            {child(name, "spec.monitoring.enabled"): True for name in MONITORED}
            | {"MonitoringReady": re.compile("^APIs have no metrics without the TLS proxy")},
            "PodMonitor/",
            "PrometheusRule/",
        ),
        *in_both(
            "monitoring.labels",
            {"release": "own"},
            {child(name, "spec.monitoring.labels.release"): "own" for name in MONITORED},
            *(f"{kind}/{cloud.lower()}{name} labels.release" for cloud in (OURS, THEIRS) for kind, name in MADE),
            base={"monitoring.enabled": True},
        ),
        *in_both(
            "monitoring.runbookUrl",
            "https://docs.example.org/{alert}",
            {},
            *(f"{kind}/{cloud.lower()}{name} " for cloud in (OURS, THEIRS) for kind, name in MADE),
            base={"monitoring.enabled": True},
        ),
    ],
)
def test_monitoring(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)
    made = resulting_leaves(kind, with_field(base, path, value))
    assert all(f"{sort}/{kind.lower()}{name} " in made for sort, name in MADE)


ISSUER = {"name": "mine", "kind": "ClusterIssuer"}


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *in_both(
            "tls.enabled",
            True,
            {"PKI/internal ": True, "PKI/internal-ovn ": True, "PKIReady": ""}
            | {child(name, "spec.tls.pkiRef.name"): "internal" for name in (*EVERYWHERE, "mariadb", "rabbitmq")}
            | {child("ovn", "spec.tls.pkiRef.name"): "internal-ovn"},
            "PKI/",
            *(child(name, "spec.tls") for name in RUNS),
        ),
        *in_both(
            "tls.issuerRef",
            ISSUER,
            {f"PKI/internal spec.issuerRef.{field}": ISSUER[field] for field in ISSUER},
            "PKI/internal spec",
            base={"tls.enabled": True},
        ),
        *in_both(
            "tls.required",
            False,
            {child(name, "spec.tls.required"): None for name in (*EVERYWHERE, "mariadb", "rabbitmq", "ovn")},
            *(child(name, "spec.tls.required") for name in RUNS),
            base={"tls.enabled": True},
        ),
    ],
)
def test_encryption(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also)


PARENT = {"name": "public", "namespace": "gateways", "sectionName": "https", "port": 443}
OUT: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "type": ("NodePort", {}),
    "host": ("cloud.example.org", {"type": "NodePort"}),
    "port": (8443, {"type": "Ingress", "domain": "example.org"}),
    "ingress.className": ("nginx", {"type": "Ingress", "domain": "example.org"}),
    "ingress.secretName": ("public", {"type": "Ingress", "domain": "example.org"}),
    "ingress.annotations": ({"own": "yes"}, {"type": "Ingress", "domain": "example.org"}),
    "gateway.annotations": (
        {"own": "yes"},
        {"type": "Gateway", "domain": "example.org", "gateway": {"parentRefs": [PARENT]}},
    ),
    "annotations": ({"metallb.io/address-pool": "own"}, {"type": "LoadBalancer"}),
    "loadBalancerClass": ("own", {"type": "LoadBalancer"}),
    "loadBalancerIP": ("192.0.2.10", {"type": "LoadBalancer"}),
    "loadBalancerSourceRanges": (["198.51.100.0/24"], {"type": "LoadBalancer"}),
    "externalTrafficPolicy": ("Local", {"type": "LoadBalancer"}),
}
SIZES = {"requests": {"cpu": "77m", "memory": "99Mi"}, "limits": {"cpu": "7", "memory": "7Gi"}}
PROXY = {"httpProxy": "http://a.example.org", "httpsProxy": "http://b.example.org", "noProxy": ["c.example.org"]}


def leaves_of(field: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a value of a field is in a resource, leaf by leaf."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from leaves_of(f"{field}.{name}", inner)
    else:
        yield field, value


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *(
            row(
                OURS,
                f"spec.expose.{field}",
                value,
                {
                    child(name, f"spec.expose.{where}"): told
                    for name in EVERYWHERE
                    for where, told in leaves_of(field, value)
                },
                *(child(name, "spec.expose.") for name in (*EVERYWHERE, "ovn")),
                base={**BASE[OURS], "expose": base},
            )
            for field, (value, base) in OUT.items()
        ),
        row(
            OURS,
            "spec.expose.domain",
            "example.org",
            {child(name, "spec.expose.host"): f"{name}.example.org" for name in EVERYWHERE},
            *(child(name, "spec.expose.") for name in (*EVERYWHERE, "ovn")),
            base={**BASE[OURS], "expose": {"type": "Ingress"}},
        ),
        row(
            OURS,
            "spec.expose.gateway.parentRefs",
            [PARENT],
            {
                child(name, f"spec.expose.gateway.parentRefs[public].{field}"): value
                for name in EVERYWHERE
                for field, value in PARENT.items()
            },
            *(child(name, "spec.expose.") for name in (*EVERYWHERE, "ovn")),
            base={**BASE[OURS], "expose": {"type": "Gateway", "domain": "example.org"}},
        ),
        *(
            row(
                OURS,
                f"spec.{field}",
                value,
                {child(name, f"spec.{where}"): told for name in names for where, told in leaves_of(field, value)},
                base=BASE[OURS],
            )
            for names, field, value in (
                (RUNS, "podAnnotations", {"own": "yes"}),
                (RUNS, "podLabels", {"own": "yes"}),
                (RUNS, "defaultResources", SIZES),
                (EVERYWHERE, "proxy", PROXY),
            )
        ),
        *(
            row(
                OURS,
                f"spec.networkPolicies.{field}",
                value,
                {child(name, f"spec.networkPolicies.{told}"): text for name in RUNS},
                base={**BASE[OURS], "networkPolicies": {} if field == "enabled" else {"enabled": True}},
            )
            for field, value, told, text in (
                ("enabled", True, "enabled", True),
                ("nodes", ["192.0.2.0/24"], "nodes", ["192.0.2.0/24"]),
                (
                    "allowFrom",
                    [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
                    "allowFrom[0].podSelector.matchLabels.app",
                    "prometheus",
                ),
            )
        ),
    ],
)
def test_a_setting_of_all_services_changes_each(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)


def cases() -> Iterator[ParameterSet]:
    """Each template of each door, filled with what the cases of its service write."""
    found = [
        obj
        for path in sorted((ROOT / "src/openstack_operator/services").glob("*/cases/[!.]*.yaml"))
        for obj in load(path)
    ]
    for door in (OURS, THEIRS):
        for name, kind in (KIND | OFF_BY_DEFAULT if door == OURS else KIND).items():
            specs = [obj["spec"] for obj in found if obj["kind"] == kind and obj.get("spec") and "status" not in obj]
            path = at(door, name)
            yield pytest.param(
                door, name, path, specs, id=f"{door} {path}", marks=pytest.mark.proves(door, f"{path}{HANDED_ON}")
            )


@pytest.mark.parametrize(("door", "name", "path", "specs"), [*cases()])
def test_all_a_template_says_is_handed_on(door: str, name: str, path: str, specs: list[dict[str, Any]]) -> None:
    kind = (KIND | OFF_BY_DEFAULT)[name]
    resource = next(each.resource for each in SERVICES if each.resource.kind == kind)
    assert specs
    for spec in specs:
        manifest = {
            "apiVersion": KINDS[door].api_version,
            "kind": door,
            "metadata": {"name": "cloud"},
            "spec": with_field(BASE[door], path, {"enabled": True, **spec}),
        }
        (made,) = [
            obj
            for obj in next(OfflineCluster(SERVICES, (), RELEASES).render([manifest])).objects
            if obj["metadata"]["name"].partition("-")[0] == name and obj["kind"] == kind
        ]
        wanted, found = resource.spec.model_validate(spec), resource.spec.model_validate(made["spec"])
        # Whether clients are told of a certificate is for the cloud to say.
        for field in wanted.model_fields_set - {"tls"}:
            assert getattr(found, field) == getattr(wanted, field), f"{path}.{field}"
        if tls := getattr(wanted, "tls", None):
            assert (found.tls.pki_ref, found.tls.secret_ref) == (tls.pki_ref, tls.secret_ref)


@pytest.mark.parametrize(
    ("door", "path", "value", "message"),
    [
        pytest.param(
            door, path, value, message, id=f"{door} {path}", marks=pytest.mark.proves(door, path, says="not supported")
        )
        for door, path, value, message in (
            (OURS, "spec.networkBackend", "ovs", "ovs is not supported; use ovn"),
            (OURS, "spec.neutron.mechanism", "ovs", "ovs is not supported; use ovn"),
        )
    ],
)
def test_an_unsupported_field_is_refused(door: str, path: str, value: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^{re.escape(path)}: {message}"):
        resulting_leaves(door, with_field(BASE[door], path, value))
    assert "a condition reports" in description(door, path).lower()


KORC = [
    *(f"spec.korc.{name}" for name in ("enabled", "bootstrapResources[]")),
    *(f"spec.korc.secretStoreRef.{name}" for name in ("name", "kind", "key")),
]


@pytest.mark.proves(OURS, *KORC)
@pytest.mark.proves(THEIRS, *KORC)
@pytest.mark.parametrize(("door", "provider"), [(OURS, "k-orc"), (THEIRS, "auto")])
def test_keystones_catalog_is_what_is_said_of_k_orc(door: str, provider: str) -> None:
    store = {"name": "openbao", "kind": "SecretStore", "key": "openstack/k-orc"}
    korc = {"enabled": True, "bootstrapResources": ["domains", "projects"], "secretStoreRef": store}
    found = changes(
        resulting_leaves(door, BASE[door]), resulting_leaves(door, with_field(BASE[door], "spec.korc", korc))
    )
    assert found.pop("KORCReady")
    told = "Keystone/keystone spec.catalog"
    assert {path.removeprefix(told): value for path, value in found.items()} == {
        ".provider": provider,
        ".bootstrapResources": ["domains", "projects"],
        ".secretStoreRef.name": "openbao",
        ".secretStoreRef.kind": "SecretStore",
        ".secretStoreRef.key": "openstack/k-orc",
    }


def test_service_catalog_is_a_phase_while_k_orc_keeps_it() -> None:
    starting = progressing("starting")
    conditions = (
        "MariaDBReady",
        "KeystoneReady",
        "KORCReady",
        "GlanceReady",
        "NovaReady",
        "CortexReady",
        "TempestReady",
    )
    expected = ("Infrastructure", "Identity", "ServiceCatalog", "CoreServices", "Compute", "Scheduler", "Testing")
    for number, name in enumerate(expected):
        verdicts = {each: READY if index < number else starting for index, each in enumerate(conditions)}
        assert c5c3.phase(verdicts) == name
    assert c5c3.phase(dict.fromkeys(conditions, READY)) == "Ready"
    # Without K-ORC there is no such condition, and each service enters itself.
    assert c5c3.phase({"KeystoneReady": READY, "GlanceReady": starting}) == "CoreServices"
