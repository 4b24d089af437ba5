"""Kinds of other operators that plans write and read, as their own modules define them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, cast

from openstack_operator.kube import Object
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.yaml_text import load
from tools.operators import crds

_HERE = Path(__file__).parent
_PLURALS = {
    (
        "mariadb-operator",
        "k8s.mariadb.com",
    ): "mariadbs databases users grants externalmariadbs backups restores physicalbackups",
    ("rabbitmq-cluster-operator", "rabbitmq.com"): "rabbitmqclusters",
    ("messaging-topology-operator", "rabbitmq.com"): "vhosts users permissions policies",
    ("memcached-operator", "memcached.c5c3.io"): "memcacheds",
    ("k-orc", "openstack.k-orc.cloud"): "domains projects roles users services endpoints applicationcredentials",
    ("rook-newest", "ceph.rook.io"): "cephclusters cephblockpools cephclients",
    ("cert-manager", "cert-manager.io"): "certificates",
    ("gateway-api", "gateway.networking.k8s.io"): "httproutes backendtlspolicies",
}
"""No more than plans need, since each takes the API server a while: (module, group) → plurals."""


def definitions(*names: str) -> list[Object]:
    """Definitions of the modules of these names, and of all without: "cert-manager". Those of operators whose modules
    nobody serves were written by hand, and come with all.

    Raises BuildError where a module cannot be had.
    """
    wanted = {of: plurals for of, plurals in _PLURALS.items() if not names or of[0] in names}
    full = [f"{plural}.{group}" for (_, group), plurals in wanted.items() for plural in plurals.split()]
    found = [_bare(each) for each in crds.definitions(*(module for module, _ in wanted), only=full)]
    return found if names else [*found, *load(_HERE / "valkey.yaml"), *load(_HERE / "external_secrets.yaml")]


def _bare(value: Any) -> Any:
    """Without descriptions, more than half of it; a field of that name has a schema for a value, and stays."""
    if isinstance(value, list):
        return [_bare(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    return {key: _bare(each) for key, each in found.items() if key != "description" or not isinstance(each, str)}


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """Every version that is served of the kinds in `definitions()`."""
    return tuple(
        Kind(f"{spec['group']}/{version['name']}", spec["names"]["kind"], spec["names"]["plural"])
        for spec in (each["spec"] for each in definitions())
        for version in spec["versions"]
        if version["served"]
    )
