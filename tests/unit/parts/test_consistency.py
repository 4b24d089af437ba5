"""Fields that are right alone and wrong together: a condition with the numbers, and the same words for a file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
import yaml

from openstack_operator.cli.offline.documents import parse
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.cli.offline.survey import survey
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.parts.schedules import duration_text, shortest_span
from openstack_operator.plan import FIELDS_INCONSISTENT, Object, SpecError, State
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.keystone.keys import due
from openstack_operator.testing import NOW
from tests.field_effects import EXTERNAL_HANDLES, RELEASES

RULES = evaluator()
BY_KIND = {resource.handle: resource for resource in RESOURCES}
NAME = "one"
GIB: Mapping[str, Any] = {"resources": {"limits": {"memory": "1Gi"}}}
TOKENS = {"expiration": 86400, "allow_expired_window": 172800}

TOGETHER: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "Keystone",
        {"fernet": {"rotationSchedule": "@hourly", "maxActiveKeys": 3}, "config": {"token": TOKENS}},
        "spec.fernet.maxActiveKeys",
        (
            "3 keys, rotated each 1 h (rotationSchedule), read a token for 1 h, and tokens last 3 d (token.expiration"
            " 1 d and allow_expired_window 2 d): users and long operations get 401; 74 exceeds the limit of 32, rotate"
            " each 3 d or less often, or let tokens end sooner"
        ),
    ),
    (
        "Keystone",
        {"fernet": {"rotationSchedule": "@daily"}},
        "spec.fernet.maxActiveKeys",
        (
            "read a token for 1 d, and tokens last 2 d 1 h (token.expiration 1 h and allow_expired_window 2 d): users"
            " and long operations get 401; set it to 5, rotate"
        ),
    ),
    (
        # Rotations that come sooner than they may wait for ten minutes.
        "Keystone",
        {"fernet": {"rotationSchedule": "* * * * *", "maxActiveKeys": 32}, "config": {"Token": TOKENS}},
        "spec.fernet.maxActiveKeys",
        "32 keys, rotated each 10 min (rotationSchedule), read a token for 5 h, ",
    ),
    (
        # On Mondays, two come one hour after the other.
        "Keystone",
        {"fernet": {"rotationSchedule": "0 0,1 * * 1"}},
        "spec.fernet.maxActiveKeys",
        "3 keys, rotated each 1 h (rotationSchedule), read a token for 1 h, ",
    ),
    ("Heat", {"purge": {"schedule": "0 0 30 2 *"}}, "spec.purge.schedule", "'0 0 30 2 *' is not a schedule"),
    (
        "Nova",
        {"config": {"DEFAULT": {"report_interval": 60}}},
        "spec.config.DEFAULT.report_interval",
        (
            "DEFAULT.service_down_time is 60 s, and DEFAULT.report_interval 60 s: a running program counts as"
            " down between two reports; raise the first to at least 120 s, or lower the second"
        ),
    ),
    (
        # The interval of the service holds for nova-compute, too.
        "Nova",
        {
            "config": {"DEFAULT": {"report_interval": 20}},
            "compute": {"config": {"DEFAULT": {"service-down-time": 30}}},
        },
        "spec.compute.config.DEFAULT.service-down-time",
        "DEFAULT.service_down_time is 30 s, and DEFAULT.report_interval 20 s",
    ),
    (
        # Those of all compute nodes hold in a group.
        "Nova",
        {
            "compute": {
                "config": {"DEFAULT": {"report_interval": 40}},
                "groups": [
                    {"name": "gpu", "nodeSelector": {"a": "b"}, "config": {"DEFAULT": {"service_down_time": 70}}}
                ],
            },
        },
        "spec.compute.groups[0].config.DEFAULT.service_down_time",
        "DEFAULT.service_down_time is 70 s, and DEFAULT.report_interval 40 s",
    ),
    (
        "Neutron",
        {"config": {"AGENT": {"report_interval": 60}}},
        "spec.config.AGENT.report_interval",
        "raise the first to at least 120 s",
    ),
    (
        "Cinder",
        {"backends": [{"name": "a", "type": "lvm"}], "config": {"DEFAULT": {"service_down_time": 15}}},
        "spec.config.DEFAULT.service_down_time",
        "raise the first to at least 20 s",
    ),
    (
        "Octavia",
        {"config": {"health_manager": {"heartbeat_timeout": 10}}},
        "spec.config.health_manager.heartbeat_timeout",
        "healthy amphorae are failed over",
    ),
    (
        "Placement",
        {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "512Mi"}}},
        "spec.resources.requests.memory",
        "1Gi is more than limits.memory, 512Mi, and Kubernetes refuses the pods; lower it",
    ),
    (
        "Placement",
        {"api": {"resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "2500m"}}}},
        "spec.api.resources.requests.cpu",
        "3 is more than limits.cpu, 2500m",
    ),
    (
        "MariaDB",
        {**GIB, "config": {"mysqld": {"innodb-buffer-pool-size": "1G"}}},
        "spec.config.mysqld.innodb-buffer-pool-size",
        "1Gi is too much for spec.resources.limits.memory 1Gi, which needs 1229Mi or more",
    ),
    (
        "MariaDB",
        {"storageSize": "1Gi", "config": {"mysqld": {"innodb_log_file_size": "1024M"}}},
        "spec.config.mysqld.innodb_log_file_size",
        "these files alone fill the volume",
    ),
    ("Memcached", {**GIB, "memory": "1Gi"}, "spec.memory", "which needs 1127Mi or more"),
    ("Valkey", {"memory": "2Gi"}, "spec.memory", "2Gi is too much for spec.storageSize 1Gi"),
    (
        "Etcd",
        {"quota": "2Gi"},
        "spec.quota",
        "2Gi is too much for spec.storageSize 1Gi, which needs 2253Mi or more",
    ),
    (
        "RabbitMQ",
        {**GIB, "config": {"vm_memory_high_watermark.absolute": "1GiB"}},
        "spec.config.vm_memory_high_watermark.absolute",
        "the server is killed before it throttles clients",
    ),
    (
        "RabbitMQ",
        {"storageSize": "1Gi", "config": {"disk_free_limit.absolute": "2GB"}},
        "spec.config.disk_free_limit.absolute",
        "the server blocks all publishers",
    ),
    (
        "PKI",
        {"authorityLifetime": "300d", "certificateLifetime": "200d", "overlap": "7d"},
        "spec.certificateLifetime",
        "is replaced when 100 d of it are left",
    ),
    (
        "PKI",
        {"authorityLifetime": "30d", "certificateLifetime": "1d", "overlap": "7d"},
        "spec.overlap",
        "programs trust a new authority for at most 5 d before it signs; choose that or less",
    ),
    (
        "CredentialRotation",
        {"target": "fernet", "replaceEvery": "7d", "keepOldFor": "7d"},
        "spec.keepOldFor",
        "the old account stays for 7 days, at least as long as replaceEvery (7), and delays the next replacement",
    ),
    (
        "CredentialRotation.c5c3.io",
        {"target": "fernet", "intervalDays": 7, "gracePeriodDays": 7},
        "spec.gracePeriodDays",
        "the old account stays for 7 days, at least as long as intervalDays (7), and delays the next replacement",
    ),
]


def manifest(kind: str, spec: Mapping[str, Any]) -> Object:
    """Return a resource of a kind, by its handle."""
    resource = BY_KIND[kind]
    metadata = {"name": NAME, "namespace": "openstack"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": dict(spec)}


@pytest.mark.parametrize(
    ("kind", "spec", "field", "words"), TOGETHER, ids=[f"{kind}-{f}" for kind, _, f, _ in TOGETHER]
)
def test_fields_that_do_not_go_together_are_named_with_their_numbers(
    kind: str, spec: dict[str, Any], field: str, words: str
) -> None:
    paper = OfflineCluster(SERVICES, ACTUATORS, RELEASES, served=EXTERNAL_HANDLES)
    planned = next(each for each in paper.render([manifest(kind, spec)], "openstack") if each.id.name == NAME)
    assert planned.plan
    verdict = planned.plan.outcome.extra_conditions[FIELDS_INCONSISTENT]
    assert verdict.state is State.READY
    assert f"{field}: " in verdict.message
    assert words in verdict.message
    loaded = parse(yaml.safe_dump(manifest(kind, spec)).encode(), "f.yaml")[0]
    found = survey(loaded, ReleaseFiles(), namespace="openstack", rules=RULES)
    (warning,) = [each for each in found.warnings if each.path == field]
    assert f"{field}: {warning.message}" in verdict.message
    assert found.errors == []


FINE: list[tuple[str, dict[str, Any]]] = [
    ("Keystone", {"fernet": {"rotationSchedule": "@daily", "maxActiveKeys": 5}}),
    ("Keystone", {"fernet": {"rotationSchedule": "@hourly"}, "config": {"token": {"allow_expired_window": 0}}}),
    ("Nova", {"config": {"DEFAULT": {"report_interval": 30}}}),
    ("Placement", {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1024Mi"}}}),
    ("MariaDB", {**GIB, "config": {"mysqld": {"innodb_buffer_pool_size": "800M"}}}),
    ("Memcached", {"memory": "8Gi"}),
    ("CredentialRotation", {"target": "fernet", "replaceEvery": "7d", "keepOldFor": "6d"}),
]


@pytest.mark.parametrize(("kind", "spec"), FINE)
def test_fields_that_go_together_are_not_named(kind: str, spec: dict[str, Any]) -> None:
    paper = OfflineCluster(SERVICES, ACTUATORS, RELEASES, served=EXTERNAL_HANDLES)
    planned = next(each for each in paper.render([manifest(kind, spec)], "openstack") if each.id.name == NAME)
    assert planned.plan
    assert FIELDS_INCONSISTENT not in planned.plan.outcome.extra_conditions


def test_spans_of_a_schedule() -> None:
    assert shortest_span("0 0 * * 0", NOW, 2) == timedelta(days=14)
    assert shortest_span("0 0,1 * * 1", NOW, 3) == timedelta(days=7, hours=1)
    assert shortest_span("*/5 * * * *", NOW, 3, timedelta(minutes=10)) == timedelta(minutes=30)
    assert duration_text(timedelta(days=1, hours=2, seconds=1)) == "1 d 2 h 1 min"
    with pytest.raises(SpecError, match=r"spec\.x: .* is not a schedule"):
        due("0 0 31 2 *", NOW, "spec.x")
