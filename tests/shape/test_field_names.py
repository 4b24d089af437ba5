"""Sizes and durations are text with a unit, and one thing has one name in every kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from openstack_operator.api import IS_NOW, crd
from openstack_operator.registry import RESOURCES

UNIT = re.compile(
    r"(Seconds?|Minutes?|Hours?|Days?|Weeks?|Months?|Years?|Milliseconds|Millis|Ms|Bytes|Kilobytes|Megabytes|Gigabytes"
    r"|[KMGTP]i?[Bb]|Percent(age)?)$|^(seconds|minutes|hours|days|bytes|megabytes|gigabytes|percent)$"
)
AMOUNT = re.compile(r"(size|timeout|interval|period|lifetime|memory|capacity|quota|retention|ttl|age)$", re.IGNORECASE)
"""What a number alone does not tell the unit of."""
QUOTA = "Cinder calls its quotas so, and a CinderQuota names them by these words"
ROTATION = "c5c3's CredentialRotation has this name"
COPIES = "Ceph's own word for the number of copies"
C5C3 = "c5c3's manifests have this name"
EXCEPTIONS: Mapping[str, str] = {
    "quotas.gigabytes": QUOTA,
    "quotas.backupGigabytes": QUOTA,
    "quotas.perVolumeGigabytes": QUOTA,
    "encryption.keySize": "Cinder's property key_size; bits, as everything about keys is",
    "ml2.maxHeaderSize": "Neutron's option max_header_size; bytes, as everything about packets is",
    **{
        f"pools.{use}.size": "Ceph's own word for the number of copies"
        for use in ("volumes", "images", "vms", "backups")
    },
    **{f"spec.{name}Days": ROTATION for name in ("interval", "preRotation", "gracePeriod")},
    "OpenStackBackupSchedule spec.startingDeadlineSeconds": "a CronJob of Kubernetes has this field",
    **{f"backends[].{name}CapacityGb": C5C3 for name in ("available", "allocated", "total")},
}
"""Ends of paths of fields, with why they are called so."""
ONE_NAME = {"storageClass": "storageClassName", "backend": "storageType"}
"""What things of several kinds are not called in openstack.k8s.io, and what they are called."""
OTHER_THINGS: Mapping[str, str] = {
    "cache.backend": "oslo.cache's option: how it talks to a cache",
    "CinderBackend spec.backend": "Cinder's word for the backend it is about",
    "Designate spec.backend": "Designate's word for the kind of its DNS servers",
    "designate.backend": "Designate's word for the kind of its DNS servers",
    "pools[].backend": "Designate's word for the kind of its DNS servers",
}


def fields(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every field at any depth with its path; none that only tells of its other name."""
    for name, field in node.get("properties", {}).items():
        if not field.get("description", "").startswith(IS_NOW):
            yield f"{path}.{name}", field
            yield from fields(field, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(node.get(inner), dict):
            yield from fields(node[inner], f"{path}[]")


def every(*, c5c3: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for resource in RESOURCES:
        if c5c3 or not resource.on_request:
            schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
            for part in ("spec", "status"):
                yield from fields(schema[part], f"{resource.kind} {part}")


def unclear(path: str, field: Mapping[str, Any]) -> bool:
    """Whether a field's unit is in its name, or nowhere."""
    name = path.rpartition(".")[2]
    return bool(UNIT.search(name) or (field.get("type") in {"integer", "number"} and AMOUNT.search(name)))


def test_field_names_with_units_or_without_them_are_unclear() -> None:
    number, text = {"type": "integer"}, {"type": "string"}
    for name in ("timeoutSeconds", "intervalDays", "memoryMB", "totalGb", "gigabytes", "backupGigabytes"):
        assert unclear(f"spec.{name}", text), name
    assert unclear("spec.timeout", number)
    assert not unclear("spec.timeout", text)
    assert not unclear("spec.replicas", number)


def test_field_names_have_no_unit_and_sizes_have_one() -> None:
    found = [path for path, field in every(c5c3=True) if unclear(path, field)]
    assert [path for path in found if not path.endswith(tuple(EXCEPTIONS))] == []
    assert [end for end in EXCEPTIONS if not any(path.endswith(end) for path in found)] == [], "remove what is gone"


def test_names_of_c5c3_are_no_excuse_for_ours() -> None:
    excused = tuple(end for end, reason in EXCEPTIONS.items() if reason in {C5C3, ROTATION})
    assert [path for path, _ in every(c5c3=False) if path.endswith(excused)] == []


def test_equal_things_have_equal_field_names() -> None:
    known = tuple(OTHER_THINGS)
    found = [path for path, _ in every(c5c3=False) if path.rpartition(".")[2] in ONE_NAME and not path.endswith(known)]
    assert found == [], f"call it as in {ONE_NAME}"
