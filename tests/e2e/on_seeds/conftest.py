"""A cluster in which manifests that were written for other operators are applied as they stand."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.yaml_text import load
from tools.cloud import deploy, view
from tools.cloud.session import Session
from tools.localcluster.kubernetes import KubeError, Kubernetes, module, run
from tools.localcluster.target import target
from tools.operators.catalog import OPERATORS
from tools.operators.install import install

from .. import evidence
from ..conftest import stage
from ..waiting import until

SEEDS = Path(os.environ.get("SEEDS", ""))
"""Folder of the manifests, which are no part of this project: `make e2e-seeds SEEDS=…` names it."""
NAMESPACE = "openstack"
NODES = 3
_ON_NODES = ("openvswitch", "openstack-compute-node", "openstack-gateway")
_CLIENT = ("-n", NAMESPACE, "deploy/keystoneclient", "--")
_AGENT = "app.kubernetes.io/instance=neutron,app.kubernetes.io/component=metadata-agent"


def manifest(kind: str) -> Path:
    """Return the file with an object of that kind; of several the one with the shortest name, since others have numbers
    in theirs. Skips the test without one.
    """
    by_length = sorted(SEEDS.glob("*.yaml"), key=lambda path: (len(path.name), path.name))
    for path in by_length if os.environ.get("SEEDS") else ():
        if any(f"{obj['kind']}.{obj['apiVersion'].partition('/')[0]}".lower() == kind for obj in load(path)):
            return path
    pytest.skip(f"no manifest of {kind}: make e2e-seeds SEEDS=… names their folder")


@contextmanager
def standing(sample: Path, *operators: str, c5c3: bool = False) -> Generator[Kubernetes]:
    """A new cluster in the place of any other, with the images of a sample, our operator and those of others; removed
    at the end. One of its nodes runs servers: without `tunnelInterface`, which these manifests do not name, a switch in
    userspace reaches no other node.
    """
    if target().kind != "embedded":
        pytest.skip("servers are reached on the nodes of the embedded cluster")
    module("tools.localcluster", "down")
    try:
        cluster = Session.start(sample, NODES).cluster
        for node in cluster.items("nodes")[1:]:
            cluster.kubectl("label", "node", node["metadata"]["name"], *(f"{label}-" for label in _ON_NODES))
        if operators:
            install(cluster, [OPERATORS[name] for name in operators])
        if c5c3:
            deploy.install(cluster, replicas=2, c5c3=True)
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        with stage(cluster, NAMESPACE):
            try:
                yield cluster
            except Exception:
                # Before the cluster goes: the report of a test that has one of its own comes after that.
                evidence.keep(cluster, NAMESPACE, sample.stem)
                raise
    finally:
        module("tools.localcluster", "down")


def applied(cluster: Kubernetes, path: Path, kind: str, name: str, timeout: float, namespace: str = NAMESPACE) -> float:
    """Apply the bytes of a file as they are, and return the seconds until the resource is Ready."""
    began = time.monotonic()
    cluster.kubectl("apply", "--server-side", "-n", namespace, "-f", str(path))

    def is_ready() -> bool:
        return view.ready(cluster.get(kind, name, "-n", namespace))

    until(f"{kind}/{name} to be Ready", is_ready, timeout, 3)
    return round(time.monotonic() - began, 1)


def used(cluster: Kubernetes) -> dict[str, Any]:
    """Boot a server with a volume at it, by the cloud's client within the cluster, and return facts and its answer."""
    guest = Path(module("images", "guest").strip().splitlines()[-1])
    command = [*cluster.command(), "exec", "-i", *_CLIENT, "sh", "-c", "cat > /tmp/guest.qcow2"]
    run("sh", "-c", '"$@" < "$0"', str(guest), *command)
    program = (Path(__file__).with_name("tenant.py")).read_text(encoding="utf-8")
    output = cluster.kubectl("exec", "-i", *_CLIENT, "python3", "-", "/tmp/guest.qcow2", stdin=program, timeout=900)
    facts: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    facts["reply"] = until("the server to answer", lambda: _reply(cluster, facts), 180, 2)
    return facts


def _reply(cluster: Kubernetes, facts: dict[str, Any]) -> str:
    """Return what a server answers on its network; empty if it does not. Each node that runs a server of a network
    serves that network's metadata from a network namespace with a port in it.
    """
    pods = cluster.items("pods", "-n", NAMESPACE, "-l", _AGENT, f"--field-selector=spec.nodeName={facts['host']}")
    url = f"http://{facts['address']}/"
    program = f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=3).read().decode())"
    inside = ("ip", "netns", "exec", f"ovnmeta-{facts['network']}", "python3", "-c", program)
    try:
        return cluster.kubectl("exec", "-n", NAMESPACE, pods[0]["metadata"]["name"], "--", *inside).strip()
    except KubeError:
        return ""
