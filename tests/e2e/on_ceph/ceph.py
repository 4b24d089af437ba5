"""A Ceph seen by its administrator, and as one that others run."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from tools.cloud import view
from tools.localcluster.kubernetes import Kubernetes

from .volumes import NAMESPACE, USES

_RATIOS = {"nearfull": 0.85, "backfillfull": 0.9, "full": 0.95}
"""What Ceph begins with, in the order in which they may be raised."""


def command(cluster: Kubernetes, *words: str) -> str:
    """What the `ceph` command answers the monitor's own user."""
    login = ("-n", "mon.", "-k", "/etc/ceph/daemon/keyring")
    return cluster.kubectl("exec", "-n", NAMESPACE, "ceph-mon-0", "--", "ceph", *login, *words)


def pools_of(cluster: Kubernetes) -> list[str]:
    """Names of all pools."""
    return command(cluster, "osd", "pool", "ls").split()


def remove_pools(cluster: Kubernetes, *names: str) -> None:
    """Pools and what is in them, which Ceph does not let go by itself."""
    command(cluster, "config", "set", "mon", "mon_allow_pool_delete", "true")
    for name in names:
        command(cluster, "osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it")
    command(cluster, "config", "rm", "mon", "mon_allow_pool_delete")


@contextmanager
def full(cluster: Kubernetes) -> Generator[None]:
    """Ceph takes its OSDs for full, as it does when hardly anything is left, until the end of the block."""
    for number, name in enumerate(_RATIOS, 1):
        command(cluster, "osd", f"set-{name}-ratio", f"{number / 1e5:.5f}")
    try:
        yield
    finally:
        for name in reversed(_RATIOS):
            command(cluster, "osd", f"set-{name}-ratio", str(_RATIOS[name]))


def clients_of(cluster: Kubernetes) -> set[str]:
    """Names of all clients, without `client.`."""
    found = json.loads(command(cluster, "auth", "ls", "--format", "json"))["auth_dump"]
    return {each["entity"].removeprefix("client.") for each in found if each["entity"].startswith("client.")}


def quorum(cluster: Kubernetes) -> int:
    """Number of monitors that decide together."""
    return len(json.loads(command(cluster, "quorum_status", "--format", "json"))["quorum"])


def up(cluster: Kubernetes) -> int:
    """Number of OSDs that are up and have data."""
    found = json.loads(command(cluster, "osd", "stat", "--format", "json"))
    return min(found["num_up_osds"], found["num_in_osds"])


def clean(cluster: Kubernetes) -> bool:
    """Whether every placement group has all its copies."""
    states = json.loads(command(cluster, "pg", "stat", "--format", "json"))["pg_summary"]["num_pg_by_state"]
    # Some may be looked through at the moment (active+clean+scrubbing).
    return all(state["name"].startswith("active+clean") for state in states)


def says(cluster: Kubernetes, name: str, condition: str) -> str:
    """Message of a condition of a CephStorage; empty where there is none."""
    found = view.conditions(cluster.get("cephstorage", name, "-n", NAMESPACE))
    return found.get(condition, {}).get("message", "")


def ready(cluster: Kubernetes, name: str) -> bool:
    """Whether a CephStorage is Ready."""
    return view.ready(cluster.get("cephstorage", name, "-n", NAMESPACE))


def administrator(cluster: Kubernetes) -> dict[str, str]:
    """ceph.conf and keyring of client.admin."""
    secrets = cluster.items("secrets", "-n", NAMESPACE)
    data = next(each["data"] for each in secrets if each["metadata"]["name"].startswith("ceph-pools-setup"))
    return {"ceph.conf": _text(data["ceph.conf"]), "keyring": _text(data["client.admin.keyring"])}


def service(cluster: Kubernetes, *, key: str = "", monitor: str = "", **_: str) -> dict[str, str]:
    """ceph.conf and keyring of client.cinder, with another key or another monitor."""
    data = cluster.items("secrets", "-n", NAMESPACE)
    held = next(each["data"] for each in data if each["metadata"]["name"].startswith("ceph-client-volumes"))
    conf, ring = _text(held["ceph.conf"]), _text(held["keyring"])
    if key:
        ring = re.sub(r"key = .*", f"key = {key}", ring)
    if monitor:
        conf = re.sub(r"mon host = .*", f"mon host = {monitor}", conf)
    return {"ceph.conf": conf, "keyring": ring}


def named(pattern: str) -> dict[str, dict[str, Any]]:
    """Pools and clients of all uses, called after a pattern with `{use}` in it; of one copy, as there is one OSD."""
    name = {use: pattern.format(use=use) for use in USES}
    return {use: {"name": name[use], "user": name[use], "size": 1, "autoscale": "off"} for use in USES}


def others(
    cluster: Kubernetes, name: str, *, login: Mapping[str, str], pools: Mapping[str, Any], manage: bool = True
) -> None:
    """A CephStorage for a Ceph that others run, and the Secret for it."""
    meta = {"name": name, "namespace": NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": dict(login)}
    spec = {"mode": "external", "external": {"secretRef": {"name": name}, "manage": manage}, "pools": dict(pools)}
    storage = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "CephStorage", "metadata": meta, "spec": spec}
    cluster.apply(secret, storage)


def _text(value: str) -> str:
    return base64.b64decode(value).decode()
