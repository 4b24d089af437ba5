"""The cloud of this folder: the minimal one, in the place of any other, from images that its node pulls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster import cluster as embedded
from tools.localcluster import node
from tools.localcluster.commands import run
from tools.localcluster.kubernetes import module
from tools.localcluster.layout import Cluster
from tools.localcluster.registry import Registry
from tools.localcluster.target import target

from ..conftest import stays


@pytest.fixture(scope="package")
def registry() -> Registry:
    return Registry(Cluster())


@pytest.fixture(scope="package")
def stood(registry: Registry) -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud, Ready."""
    if target().kind != "embedded":
        pytest.skip("only the embedded cluster has a registry beside it")
    module("tools.localcluster", "down")
    try:
        with stays(MINIMAL, _start) as found:
            yield found
    finally:
        module("tools.localcluster", "down")
    assert not registry.is_running()
    assert not registry.home.exists()


def _start(sample: Path) -> Session:
    """The operator runs; its node has no image of the registry that it pulled in an earlier run."""
    session = Session.start(sample, pulls=True)
    for each in embedded.running_nodes(Cluster()):
        pulled = [name for name in embedded.present(each) if name.startswith(session.cluster.registry)]
        if pulled:
            run(*node.command_in(each, "ctr", "--namespace=k8s.io", "images", "remove", *pulled))
    return session
