"""Metrics of each resource, read off the stores at each scrape: what is deleted is gone there, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from cryptography import x509
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..kube import secret_data
from .kinds import SECRET
from .store import Cached
from .world import World

_CERTIFICATE = ".crt"
"""Ending of the keys of a Secret that hold one."""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Live(msgspec.Struct):
    status: _Status | None = None


_live = msgspec.json.Decoder(_Live)


class ResourceCollector(Collector):
    """Readiness and conditions of every resource of ours, and when certificates expire."""

    def __init__(self, world: World, is_active: Callable[[], bool]) -> None:
        """Nothing is said while `is_active` is false: of two replicas one speaks."""
        self._world = world
        self._is_active = is_active
        self._expiry: dict[tuple[str, str], tuple[str, Iterable[tuple[Sequence[str], float]]]] = {}
        """By namespace and name of a Secret: its version, and labels of its certificates with when they expire."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges as they are now."""
        where = ["kind", "namespace", "name"]
        ready = GaugeMetricFamily("openstack_operator_resource_ready", "1 while a resource is Ready.", labels=where)
        condition = GaugeMetricFamily(
            "openstack_operator_resource_condition",
            "1 for the status a condition of a resource has.",
            labels=[*where, "type", "status"],
        )
        expiry = GaugeMetricFamily(
            "openstack_operator_certificate_expiry_timestamp_seconds",
            "When the certificate under a key of a Secret of a resource expires, in seconds since the epoch.",
            labels=[*where, "secret", "key"],
        )
        if self._is_active():
            self._resources(ready, condition)
            self._certificates(expiry)
        yield from (ready, condition, expiry)

    def _resources(self, ready: GaugeMetricFamily, condition: GaugeMetricFamily) -> None:
        for kind in self._world.catalog.resources:
            for held in self._world.stores[kind]:
                where = [kind.handle, held.meta.namespace, held.meta.name]
                conditions = (_live.decode(held.raw).status or _Status()).conditions
                ready.add_metric(where, float(any((c.type, c.status) == ("Ready", "True") for c in conditions)))
                for each in conditions:
                    condition.add_metric([*where, each.type, each.status], 1.0)

    def _certificates(self, expiry: GaugeMetricFamily) -> None:
        there = set[tuple[str, str]]()
        for held in self._world.stores[SECRET]:
            place = held.meta.namespace, held.meta.name
            there.add(place)
            known = self._expiry.get(place)
            if known is None or known[0] != held.meta.resource_version:
                known = self._expiry[place] = held.meta.resource_version, self._labeled_times(held)
            for labels, moment in known[1]:
                expiry.add_metric(labels, moment)
        for place in self._expiry.keys() - there:
            del self._expiry[place]

    def _labeled_times(self, secret: Cached) -> list[tuple[Sequence[str], float]]:
        """Expiry times of a Secret's certificates by kind and name of its resource, also of one that left it behind."""
        times = _expiry_times(secret)
        owner = self._world.last_owner(secret.meta) if times else None
        where = (owner.kind if owner else "", secret.meta.namespace, owner.name if owner else "", secret.meta.name)
        return [((*where, key), moment) for key, moment in times.items()]


def _expiry_times(secret: Cached) -> dict[str, float]:
    """Expiry times of a Secret's certificates, by key, in seconds since the epoch: of a bundle, that of the first."""
    found: dict[str, float] = {}
    if f'{_CERTIFICATE}"'.encode() not in secret.raw:
        return found
    certificates = {key: text for key, text in secret_data(secret.decode()).items() if key.endswith(_CERTIFICATE)}
    for key, text in certificates.items():
        try:
            read = x509.load_pem_x509_certificates(text.encode())
        except ValueError:
            continue
        if read:
            found[key] = min(each.not_valid_after_utc for each in read).timestamp()
    return found
