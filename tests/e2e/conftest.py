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

from tools.cloud import deploy, proof
from tools.cloud.session import Cloud, Session
from tools.localcluster import paths
from tools.localcluster.kubernetes import ROOT, Kubernetes, module
from tools.localcluster.target import target

from . import evidence, waiting
from .waiting import Stage

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
    sample: Path, change: Callable[[dict[str, Any]], object], nodes: int = 1, release: str = deploy.RELEASE
) -> Generator[tuple[Session, Cloud]]:
    """A cluster in the place of any other, and in it, Ready, the cloud of a sample whose control plane was changed."""
    if target().kind != "embedded":
        pytest.skip("what is looked at, and reached, is on the networks of the embedded cluster's nodes")
    module("tools.localcluster", "down")
    found = deploy.documents(sample)
    plane = next(doc for doc in found if doc["kind"] == "OpenStackControlPlane")
    change(plane["spec"])
    changed = ROOT / "build" / sample.name
    changed.parent.mkdir(exist_ok=True)
    changed.write_text(yaml.safe_dump_all(found))
    try:
        session = Session.start(changed, nodes, release=release)
        with stage(session.cluster, plane["metadata"]["namespace"]) as entered:
            yield session, session.converge(changed, timeout=900, in_vain=entered.in_vain)
    finally:
        module("tools.localcluster", "down")


@contextmanager
def stays(
    sample: Path, start: Callable[[Path], Session] = Session.start, namespace: str = "openstack"
) -> Generator[tuple[Session, Cloud]]:
    """The cloud of a sample, Ready, on the cluster that is there, or a new one; it stays at the end."""
    session = start(sample)
    with stage(session.cluster, namespace) as entered:
        yield session, session.converge(sample, timeout=900, in_vain=entered.in_vain)


@contextmanager
def stage(cluster: Kubernetes, namespace: str) -> Generator[Stage]:
    """Waits inside the block end when the cloud in that namespace has, and tests that come after it are not tried."""
    entered = Stage(cluster, namespace)
    waiting.enter(entered)
    try:
        yield entered
    finally:
        waiting.leave(entered)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and report.when != "teardown" and (entered := waiting.current()):
        entered.suspect = item.name
        kept = evidence.keep(entered.cluster, entered.namespace, item.name)
        report.sections.append(("What the cloud said", f"in {kept.relative_to(ROOT)}"))
    return report


@pytest.fixture(autouse=True)
def usable(request: pytest.FixtureRequest) -> None:
    """A test is only tried where the cloud it needs still stands; what is tried in vain takes minutes, each."""
    for name in ("stood", "cloud"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    if entered := waiting.current():
        entered.look_into()
        if entered.over:
            pytest.skip(f"not tried: {entered.over}")


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """The cluster with the operator in it; removed at the end."""
    try:
        started = Session.start()
        with stage(started.cluster, "openstack"):
            yield started
    finally:
        if target().kind != "existing":
            module("tools.localcluster", "down")


@pytest.fixture
def cluster(stood: tuple[Session, Cloud]) -> Kubernetes:
    """The cluster of Kubernetes that a folder or a module starts in its fixture `stood`."""
    return stood[0].cluster


@pytest.fixture
def cloud(stood: tuple[Session, Cloud]) -> Cloud:
    """The cloud in that cluster."""
    return stood[1]


@pytest.fixture
def conn(cluster: Kubernetes, cloud: Cloud) -> Connection:
    """The public APIs of that cloud as its administrator."""
    return proof.connect(cluster, cloud.namespace)
