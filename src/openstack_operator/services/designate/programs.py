"""Programs in the pods of a Designate."""

from __future__ import annotations

from collections.abc import Mapping

from .model import DesignateSpec

_PROGRAMS = ("api", "central", "worker", "producer", "mdns")


def programs(spec: DesignateSpec) -> Mapping[str, str]:
    """Return components of a release, each with the field that replaces its image."""
    backends = {spec.backend, *(pool.backend for pool in spec.pools)}
    servers = {"designate-bind9": "bind9" in backends, "designate-pdns": "pdns4" in backends}
    of_designate = dict.fromkeys((f"designate-{name}" for name in _PROGRAMS), "image")
    return of_designate | {name: "" for name, is_used in servers.items() if is_used}
