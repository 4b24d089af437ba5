"""Metrics of each resource, read off the stores at each scrape: what is deleted is gone there, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from cryptography import x509
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ...api import Resource
from ...kube import secret_data
from ...plan import HELD_REASONS
from ...plan.times import valid_time
from ..cache.entries import Cached
from ..cache.world import World
from ..kubernetes.kinds import DAEMON_SET, DEPLOYMENT, SECRET, STATEFUL_SET, Kind

_CERTIFICATE = ".crt"
"""Ending of the keys of a Secret that hold one."""


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Live(msgspec.Struct):
    status: _Status | None = None


class _WorkloadSpec(msgspec.Struct):
    replicas: int = 1


class _WorkloadStatus(msgspec.Struct, rename="camel"):
    desired_number_scheduled: int = 0
    number_ready: int = 0
    ready_replicas: int = 0


class _Workload(msgspec.Struct):
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


_live = msgspec.json.Decoder(_Live)
# A pod template is large, and none of it is needed.
_workload = msgspec.json.Decoder(_Workload)
_Times = dict[str, tuple[float, float]]
"""Start and end of a certificate in seconds since the epoch, by its key."""


def gauges() -> tuple[GaugeMetricFamily, ...]:
    """Return the gauges of readiness, of what users hold, of conditions, of pods, twice, and of certificates,
    twice, without values.
    """
    where = ["kind", "namespace", "name"]
    ready = GaugeMetricFamily("openstack_operator_resource_ready", "1 while a resource is Ready.", labels=where)
    on_hold = GaugeMetricFamily(
        "openstack_operator_resource_held",
        "1 while only a step is left that a user holds back: the end of an upgrade, or a paused roll-out.",
        labels=where,
    )
    condition = GaugeMetricFamily(
        "openstack_operator_resource_condition",
        "1 for the current status of a condition of a resource.",
        labels=[*where, "type", "status"],
    )
    pods = [*where, "workload_kind", "workload"]
    desired_pods = GaugeMetricFamily(
        "openstack_operator_workload_pods_desired", "Desired pods of a workload of a resource.", labels=pods
    )
    ready_pods = GaugeMetricFamily(
        "openstack_operator_workload_pods_ready", "Pods of a workload that are ready.", labels=pods
    )
    start, expiry = (
        GaugeMetricFamily(
            f"openstack_operator_certificate_{name}_timestamp_seconds",
            f"When the certificate under a key of a Secret of a resource {verb}, in seconds since the epoch.",
            labels=[*where, "secret", "key"],
        )
        for name, verb in (("start", "becomes valid"), ("expiry", "expires"))
    )
    return ready, on_hold, condition, desired_pods, ready_pods, start, expiry


def time_gauges(definitions: Iterable[Resource[Any]]) -> dict[str, GaugeMetricFamily]:
    """Return the gauges of times in the status of these kinds, by their names, without values."""
    return {
        time.name: GaugeMetricFamily(
            f"openstack_operator_{time.name}_timestamp_seconds",
            f"{time.description}, in seconds since the epoch.",
            labels=["kind", "namespace", "name"],
        )
        for definition in definitions
        for time in definition.times
    }


class ResourceCollector(Collector):
    """Readiness and conditions of every resource of ours, times in its status, pods of its workloads, and when
    certificates expire.
    """

    def __init__(self, world: World, is_active: Callable[[], bool]) -> None:
        """While `is_active` is false, the collector says nothing: of two replicas one speaks."""
        self._world = world
        self._is_active = is_active
        self._lifetimes: dict[tuple[str, str], tuple[str, Iterable[tuple[Sequence[str], float, float]]]] = {}
        """By namespace and name of a Secret: its version, and labels, start and end of each of its certificates."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges as they are now."""
        families = ready, on_hold, condition, desired_pods, ready_pods, start, expiry = gauges()
        times = time_gauges(self._world.catalog.definitions)
        if self._is_active():
            self._resources(ready, on_hold, condition)
            self._workloads(desired_pods, ready_pods)
            self._certificates(start, expiry)
            self._times(times)
        yield from (*families, *times.values())

    def _resources(self, ready: GaugeMetricFamily, on_hold: GaugeMetricFamily, condition: GaugeMetricFamily) -> None:
        for kind in self._world.catalog.resources:
            for resource in self._world.stores[kind]:
                where = [kind.handle, resource.meta.namespace, resource.meta.name]
                conditions = (_live.decode(resource.raw).status or _Status()).conditions
                ready.add_metric(where, float(any((c.type, c.status) == ("Ready", "True") for c in conditions)))
                if any(c.type == "Ready" and c.reason in HELD_REASONS for c in conditions):
                    on_hold.add_metric(where, 1.0)
                for each in conditions:
                    condition.add_metric([*where, each.type, each.status], 1.0)

    def _times(self, gauges: Mapping[str, GaugeMetricFamily]) -> None:
        for definition in (each for each in self._world.catalog.definitions if each.times):
            kind = Kind.of(definition)
            for resource in self._world.stores[kind]:
                status: Mapping[str, Any] = resource.decode().get("status") or {}
                for time in definition.times:
                    if at := valid_time(status.get(time.field)):
                        where = [kind.handle, resource.meta.namespace, resource.meta.name]
                        gauges[time.name].add_metric(where, at.timestamp())

    def _workloads(self, desired: GaugeMetricFamily, ready: GaugeMetricFamily) -> None:
        for kind in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET):
            for workload in self._world.stores[kind]:
                if (owner := self._world.last_owner(workload.meta)) is None:
                    continue
                live = _workload.decode(workload.raw)
                spec, status = live.spec or _WorkloadSpec(), live.status or _WorkloadStatus()
                counts = (spec.replicas, status.ready_replicas)
                if kind is DAEMON_SET:
                    counts = (status.desired_number_scheduled, status.number_ready)
                labels = [owner.kind, workload.meta.namespace, owner.name, kind.kind, workload.meta.name]
                desired.add_metric(labels, float(counts[0]))
                ready.add_metric(labels, float(counts[1]))

    def _certificates(self, start: GaugeMetricFamily, expiry: GaugeMetricFamily) -> None:
        places = set[tuple[str, str]]()
        for secret in self._world.stores[SECRET]:
            place = secret.meta.namespace, secret.meta.name
            places.add(place)
            entry = self._lifetimes.get(place)
            if entry is None or entry[0] != secret.meta.resource_version:
                entry = self._lifetimes[place] = secret.meta.resource_version, self._labeled_times(secret)
            for labels, begin, end in entry[1]:
                start.add_metric(labels, begin)
                expiry.add_metric(labels, end)
        for place in self._lifetimes.keys() - places:
            del self._lifetimes[place]

    def _labeled_times(self, secret: Cached) -> list[tuple[Sequence[str], float, float]]:
        """Return labels, start and end of a Secret's certificates. The labels have kind and name of its resource, also
        of one that left it behind.
        """
        times = _lifetimes(secret)
        owner = self._world.last_owner(secret.meta) if times else None
        where = (owner.kind if owner else "", secret.meta.namespace, owner.name if owner else "", secret.meta.name)
        return [((*where, key), begin, end) for key, (begin, end) in times.items()]


def _lifetimes(secret: Cached) -> _Times:
    """Return the lifetimes of a Secret's certificates; of a bundle, that of the certificate that expires first."""
    times: _Times = {}
    if f'{_CERTIFICATE}"'.encode() not in secret.raw:
        return times
    certificates = {key: text for key, text in secret_data(secret.decode()).items() if key.endswith(_CERTIFICATE)}
    for key, text in certificates.items():
        try:
            bundle = x509.load_pem_x509_certificates(text.encode())
        except ValueError:
            continue
        if bundle:
            first_to_end = min(bundle, key=lambda each: each.not_valid_after_utc)
            times[key] = first_to_end.not_valid_before_utc.timestamp(), first_to_end.not_valid_after_utc.timestamp()
    return times
