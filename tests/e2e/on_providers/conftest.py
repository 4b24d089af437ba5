"""A cluster with the operators of others in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.localcluster.kubernetes import Kubernetes, module, started
from tools.localcluster.target import target
from tools.operators.catalog import OPERATORS, chosen
from tools.operators.install import install

from .asked import NAMESPACE


@pytest.fixture(scope="package")
def cluster() -> Iterator[Kubernetes]:
    """A cluster in the place of any other, with all operators that there are Available in it; removed at the end."""
    if target().kind != "embedded":
        pytest.skip("operators are built for, and loaded onto, the nodes of the embedded cluster")
    module("tools.localcluster", "down")
    found = started()
    install(found, chosen(list(OPERATORS)))
    found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield found
    module("tools.localcluster", "down")
