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


def gauges() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
    """Return the gauges of readiness, of conditions and of certificates, without values."""
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
    return ready, condition, expiry


class ResourceCollector(Collector):
    """Readiness and conditions of every resource of ours, and when certificates expire."""

    def __init__(self, world: World, is_active: Callable[[], bool]) -> None:
        """While `is_active` is false, the collector says nothing: of two replicas one speaks."""
        self._world = world
        self._is_active = is_active
        self._expiry: dict[tuple[str, str], tuple[str, Iterable[tuple[Sequence[str], float]]]] = {}
        """By namespace and name of a Secret: its version, and labels of its certificates with when they expire."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges as they are now."""
        ready, condition, expiry = gauges()
        if self._is_active():
            self._resources(ready, condition)
            self._certificates(expiry)
        yield from (ready, condition, expiry)

    def _resources(self, ready: GaugeMetricFamily, condition: GaugeMetricFamily) -> None:
        for kind in self._world.catalog.resources:
            for resource in self._world.stores[kind]:
                where = [kind.handle, resource.meta.namespace, resource.meta.name]
                conditions = (_live.decode(resource.raw).status or _Status()).conditions
                ready.add_metric(where, float(any((c.type, c.status) == ("Ready", "True") for c in conditions)))
                for each in conditions:
                    condition.add_metric([*where, each.type, each.status], 1.0)

    def _certificates(self, expiry: GaugeMetricFamily) -> None:
        places = set[tuple[str, str]]()
        for secret in self._world.stores[SECRET]:
            place = secret.meta.namespace, secret.meta.name
            places.add(place)
            entry = self._expiry.get(place)
            if entry is None or entry[0] != secret.meta.resource_version:
                entry = self._expiry[place] = secret.meta.resource_version, self._labeled_times(secret)
            for labels, moment in entry[1]:
                expiry.add_metric(labels, moment)
        for place in self._expiry.keys() - places:
            del self._expiry[place]

    def _labeled_times(self, secret: Cached) -> list[tuple[Sequence[str], float]]:
        """Return the expiry times of a Secret by kind and name of its resource, also of one that left it behind."""
        times = _expiry_times(secret)
        owner = self._world.last_owner(secret.meta) if times else None
        where = (owner.kind if owner else "", secret.meta.namespace, owner.name if owner else "", secret.meta.name)
        return [((*where, key), moment) for key, moment in times.items()]


def _expiry_times(secret: Cached) -> dict[str, float]:
    """Return the expiry times of a Secret's certificates by key, in seconds since the epoch; of a bundle, the first."""
    times: dict[str, float] = {}
    if f'{_CERTIFICATE}"'.encode() not in secret.raw:
        return times
    certificates = {key: text for key, text in secret_data(secret.decode()).items() if key.endswith(_CERTIFICATE)}
    for key, text in certificates.items():
        try:
            bundle = x509.load_pem_x509_certificates(text.encode())
        except ValueError:
            continue
        if bundle:
            times[key] = min(each.not_valid_after_utc for each in bundle).timestamp()
    return times
