"""One real cloud for all end-to-end tests, which run in the order they are written."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from openstack.connection import Connection

from cloud import deploy, proof
from cloud.kubernetes import ROOT, Kubernetes, module
from cloud.session import Cloud, Session
from localcluster import paths
from localcluster.target import target

REPORT = ROOT / "build" / "e2e.json"
# One node is the router of the external network; of several, each has a cable to it and to the others.
CABLED = {"tunnelInterface": "eth1", "externalBridge": {"interface": "eth2"}}


class Report:
    """What was measured, in build/e2e.json."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n")

    def add(self, **facts: Any) -> None:
        """Merges facts into the file, so that a run cut short leaves what it knew."""
        self.path.write_text(json.dumps({**json.loads(self.path.read_text()), **facts}, indent=2) + "\n")


@pytest.fixture(scope="session", autouse=True)
def alone() -> Iterator[None]:
    """Only one run of such tests on a machine: each removes the cluster that is there, whoever uses it."""
    path = paths.state() / "tests.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.exit(f"another run uses this machine's cluster (it holds {path})", returncode=3)
        yield


@pytest.fixture(scope="session")
def report() -> Report:
    return Report(REPORT)


@contextmanager
def stands(
    sample: Path, change: Callable[[dict[str, Any]], object], **cluster: int
) -> Generator[tuple[Session, Cloud]]:
    """A cluster in the place of any other, and in it, Ready, the cloud of a sample whose control plane was changed."""
    if target().kind != "embedded":
        pytest.skip("what is looked at, and reached, is on the networks of the embedded cluster's nodes")
    module("localcluster", "down")
    found = deploy.documents(sample)
    change(next(doc for doc in found if doc["kind"] == "OpenStackControlPlane")["spec"])
    changed = ROOT / "build" / sample.name
    changed.parent.mkdir(exist_ok=True)
    changed.write_text(yaml.safe_dump_all(found))
    session = Session.start(changed, **cluster)
    yield session, session.converge(changed, timeout=900)
    module("localcluster", "down")


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """The cluster with the operator in it; removed at the end."""
    started = Session.start()
    yield started
    if started.cluster.kind != "existing":
        module("localcluster", "down")


@pytest.fixture(scope="session")
def cluster(session: Session) -> Kubernetes:
    return session.cluster


@pytest.fixture
def conn(cluster: Kubernetes) -> Connection:
    """The public APIs as the administrator."""
    return proof.connect(cluster, "openstack")
