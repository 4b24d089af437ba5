"""A real kube-apiserver with etcd, the garbage collector and the namespace controller, once in each process for all
tests here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import shutil
import sys
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import api
from openstack_operator.kube import conditions
from openstack_operator.plan import Transient
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import NAMESPACE, Kind
from tests.shared_results import SharedResults
from tools.localcluster import apiserver, build

from . import external_definitions, toy
from .etcd import etcd_data
from .harness import Cluster, eventually

CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")

_LONG = (
    *(
        "test_crash_points.py",
        "test_upgrade.py",
        "test_restore_crash_points.py",
        "test_upgrade_crash_points.py",
        "test_install.py",
        "test_etcd_restore.py",
        "test_korc.py",
        "test_takeover.py",
        "test_providers.py",
    ),
    *("test_recreation.py", "test_nodes.py", "test_hostile.py", "test_budget.py", "test_metrics.py"),
    "test_node_groups.py",
)
"""Files with tests that take ten seconds or more, many of them waiting for what takes its time: a lease that ends."""
_names = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An operator killed in the middle of a TLS handshake leaves a socket to Python's garbage collector. The tests that
    take longest come first: one that came last would leave all processes but its own without work.
    """
    ignored = pytest.mark.filterwarnings(
        "ignore:Exception ignored in.*(ransport|socket):pytest.PytestUnraisableExceptionWarning"
    )
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(ignored)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return the place of a test: files that take longest, then all others here, then those of other folders. So an API
    server that has started, which takes 14 s of CPU, is used until its process has no test for it, and then ends: one
    without work takes 4 % of a core.
    """
    if item.path.parent != Path(__file__).parent:
        return len(_LONG) + 1
    return _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """What the test's event loop held until it was closed is found here, too, and not in a test of another folder. Such
    a test took it for its own; and one that parsed Python at that moment failed with a SystemError of Python 3.11.
    Most tests only ask the API server over one connection, and leave nothing.
    """
    yield
    if item.get_closest_marker("asyncio") is None and "cluster" not in getattr(item, "fixturenames", ()):
        return
    usual = sys.unraisablehook
    sys.unraisablehook = lambda found: None if isinstance(found.exc_value, ResourceWarning) else usual(found)
    try:
        gc.collect()
        gc.collect()
    finally:
        sys.unraisablehook = usual


@pytest.fixture(scope="package")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory, established: Path) -> Iterator[Path]:
    # Only what collects garbage: the controllers of workloads would argue with the simulator.
    chosen = "garbage-collector-controller,namespace-controller"
    directory = tmp_path_factory.mktemp("cluster")
    shutil.copytree(established, directory / "etcd")
    with apiserver.api_server(directory, controllers=chosen) as path:
        os.environ["KUBECONFIG"] = str(path)
        yield path
        del os.environ["KUBECONFIG"]


@pytest.fixture(scope="session")
def established(tmp_path_factory: pytest.TempPathFactory, shared_results: SharedResults) -> Path:
    """The data of an etcd in which all definitions are established: that takes an API server 45 s of CPU, and one that
    finds them there 5 s.
    """
    try:
        build.binary("kubernetes", "kube-apiserver")
    except build.BuildError as error:
        pytest.skip(str(error))
    # They take three seconds of CPU, which each process would spend again.
    definitions = shared_results("definitions", _definitions)
    return etcd_data(tmp_path_factory, ["applied", definitions], lambda path: _prepare(path, definitions))


def _definitions() -> list[dict[str, Any]]:
    ours = [api.crd(resource) for resource in (*toy.RESOURCES, *RESOURCES)]
    return [*ours, *external_definitions.definitions()]


def _prepare(kubeconfig: Path, definitions: list[dict[str, Any]]) -> None:
    os.environ["KUBECONFIG"] = str(kubeconfig)
    asyncio.run(install(definitions))
    del os.environ["KUBECONFIG"]


async def install(definitions: Iterable[dict[str, Any]]) -> None:
    """Kinds that are served from now on."""
    # More at once only wait for each other: a large definition takes the API server a second of CPU.
    client, two = Client.connect(), asyncio.Semaphore(2)

    async def create(definition: dict[str, Any]) -> None:
        definition["metadata"]["namespace"] = None
        name = definition["metadata"]["name"]

        async def created() -> bool:
            # On a busy machine it may take longer than a request may.
            with contextlib.suppress(Transient):
                return bool(await client.apply(CRD, definition))
            return False

        async def served() -> bool:
            """An API server that is started again establishes none that was not; discovery would never list it."""
            told = conditions(await client.get(CRD, None, name) or {})
            return told.get("Established", {}).get("status") == "True"

        async with two:
            await eventually(created)
        await eventually(served)

    await asyncio.gather(*map(create, definitions))
    await client.close()


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[Cluster]:
    client = Client.connect()
    name = f"test-{os.getpid()}-{next(_names)}"
    await client.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": None}}
    )
    yield Cluster(client, name)
    await client.close()
