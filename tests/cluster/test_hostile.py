"""What one resource holds, however strange, keeps the operator from none of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openstack_operator import api
from openstack_operator.plan import SpecError
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.kubernetes.kinds import CHILDREN
from tests.searches import IS_LONG

from .harness import Cluster, eventually
from .test_controlplane import RESOURCE, operator

pytestmark = pytest.mark.security

_STEP = 9 if IS_LONG else 18
"""Of the kinds every so many has a large resource: the API server takes a second of CPU for each."""
_LEVELS = 2_000
"""The API server takes 10,000; Python decodes fewer than 1,000."""


def free_forms(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the fields whose content has no schema."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    for name, field in schema.get("properties", {}).items():
        yield from free_forms(field, (*path, name))


DEEP = msgspec.Raw(b'{"a":' * _LEVELS + b"1" + b"}" * _LEVELS)
LARGE = {
    "text": {"a": {"b": "x" * 1_000_000}},
    "lists": {"a": {"b": [[[]] * 1_000] * 100}},
    "names": {"a": {f"b{number}": {} for number in range(30_000)}},
}
"""More than a spec may have, in ways that no schema of a free-form field refuses everywhere."""
UNICODE = {"a": {"b": "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000, 64))))}}
"""All of Unicode's first plane and some of the others."""


def holding(path: tuple[str, ...], content: Any) -> dict[str, Any]:
    """A spec with that content in the field of that path."""
    spec = content
    for name in reversed(path):
        spec = {name: spec}
    return spec


async def strange_ones(
    cluster: Cluster, name: str, kinds: Sequence[api.Resource[Any]], content: Any = DEEP
) -> list[api.Resource[Any]]:
    """Those of the kinds of which there is a resource of that name now, with that content in a free-form field."""
    made: list[api.Resource[Any]] = []
    for resource in kinds:
        schema = api.structural(resource.spec, as_c5c3=resource.as_c5c3)
        for path in list(free_forms(schema))[:1]:
            try:
                await cluster.create(resource, name, **holding(path, content))
                made.append(resource)
            except SpecError:
                # It wants other fields as well, or the definition bounds this one.
                continue
    return made


async def test_a_deeply_nested_resource_is_refused_and_harms_no_other(cluster: Cluster, root: Path) -> None:
    listed = await strange_ones(cluster, "listed", RESOURCES[::2])
    await cluster.create(RESOURCE["Memcached"], "before")
    async with operator(cluster, root):
        await cluster.ready(RESOURCE["Memcached"], "before")
        watched = await strange_ones(cluster, "watched", RESOURCES[1::2])
        await cluster.create(RESOURCE["Memcached"], "after")
        await cluster.ready(RESOURCE["Memcached"], "after")
        assert min(len(listed), len(watched)) > 5
        for name, kinds in (("listed", listed), ("watched", watched)):
            for kind in kinds:
                message = (await cluster.ready(kind, name, "InvalidSpec"))["message"]
                assert message.startswith("spec."), (kind.kind, message)
                assert "is nested deeper than 100 levels; make it flatter" in message, (kind.kind, message)
        for kind in watched:
            await cluster.delete(kind, "watched")

        async def gone() -> bool:
            return not [kind for kind in watched if await cluster.get(kind, "watched")]

        await eventually(gone)


@pytest.mark.search
async def test_large_resources_are_refused_and_harm_no_other(cluster: Cluster, root: Path) -> None:
    await cluster.create(RESOURCE["Memcached"], "before")
    async with operator(cluster, root):
        await cluster.ready(RESOURCE["Memcached"], "before")
        large = {
            name: await strange_ones(cluster, name, RESOURCES[at::_STEP], content)
            for at, (name, content) in enumerate(LARGE.items())
        }
        await strange_ones(cluster, "unicode", RESOURCES[::_STEP], UNICODE)
        await cluster.create(RESOURCE["Memcached"], "after")
        await cluster.ready(RESOURCE["Memcached"], "after")
        assert all(large.values())
        for name, kinds in large.items():
            for kind in kinds:
                message = (await cluster.ready(kind, name, "InvalidSpec"))["message"]
                assert message == "spec: is larger than 256 KiB; make it smaller", kind.kind


async def test_the_api_server_bounds_options(cluster: Cluster) -> None:
    for config, refusal in (
        ({"a": {f"b{number}": 1 for number in range(1025)}}, "must have at most 1024"),
        ({f"a{number}": {} for number in range(257)}, "must have at most 256"),
        ({"a": {"b": "x" * 65_537}}, "may not be more than 65536"),
        ({"a": {"b": ["x"] * 1_025}}, "must have at most 1024 items"),
    ):
        with pytest.raises(SpecError, match=refusal):
            await cluster.create(RESOURCE["Placement"], "bounded", config=config)


async def test_every_character_is_stored_as_it_was_applied(cluster: Cluster) -> None:
    kind = next(kind for kind in CHILDREN if kind.kind == "ConfigMap")
    metadata = {"name": "text", "namespace": cluster.namespace}
    applied = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "data": UNICODE["a"]}
    stored = await cluster.client.apply(kind, applied)
    assert stored["data"] == applied["data"]
