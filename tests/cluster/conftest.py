"""A real kube-apiserver with etcd, the garbage collector and the namespace controller, once for all tests here."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster import apiserver, build
from openstack_operator import api
from openstack_operator.catalogue import RESOURCES
from openstack_operator.kube import conditions
from openstack_operator.runtime.client import Client
from openstack_operator.runtime.kinds import NAMESPACE, Kind

from . import others, toy
from .harness import Cluster, eventually

CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")

_names = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An operator killed in the middle of a TLS handshake leaves a socket to Python's garbage collector."""
    ignored = pytest.mark.filterwarnings(
        "ignore:Exception ignored in.*(ransport|socket):pytest.PytestUnraisableExceptionWarning"
    )
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(ignored)


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    try:
        build.binary("kubernetes", "kube-apiserver")
    except build.BuildError as error:
        pytest.skip(str(error))
    # Only what collects garbage: the controllers of workloads would argue with the simulator.
    chosen = "garbage-collector-controller,namespace-controller"
    directory = tmp_path_factory.mktemp("cluster")
    with apiserver.running(directory, controllers=chosen, prepare=_prepare) as path:
        yield path
        del os.environ["KUBECONFIG"]


def _prepare(kubeconfig: Path) -> None:
    os.environ["KUBECONFIG"] = str(kubeconfig)
    ours = [api.crd(resource) for resource in (*toy.RESOURCES, *RESOURCES)]
    asyncio.run(install([*ours, *others.definitions()]))


async def install(definitions: Iterable[dict[str, Any]]) -> None:
    """Kinds that are served from now on."""
    client = Client.connect()
    names: list[str] = []
    for definition in definitions:
        definition["metadata"]["namespace"] = None
        names.append((await client.create(CRD, definition))["metadata"]["name"])
    for name in names:

        async def served(name: str = name) -> bool:
            return "Established" in conditions(await client.get(CRD, None, name) or {})

        await eventually(served)
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
    # So that what a killed operator left is found here, where it is expected, and not in another test.
    gc.collect()
    # What is left of a killed connection is found here, where it is expected, and not during another test.
    gc.collect()
