"""What one resource holds, however strange, keeps the operator from none of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from openstack_operator import api
from openstack_operator.catalogue import RESOURCES
from openstack_operator.plan import SpecError

from .harness import Cluster, eventually
from .test_controlplane import RESOURCE, operator

_LEVELS = 2_000
"""The API server takes 10,000; Python decodes fewer than 1,000."""


def free_forms(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the fields whose content has no schema."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    for name, field in schema.get("properties", {}).items():
        yield from free_forms(field, (*path, name))


def deep(path: tuple[str, ...]) -> dict[str, Any]:
    """A spec whose field of that path is nested deeply."""
    spec: Any = msgspec.Raw(b'{"a":' * _LEVELS + b"1" + b"}" * _LEVELS)
    for name in reversed(path):
        spec = {name: spec}
    return spec


async def deep_ones(cluster: Cluster, name: str, kinds: Sequence[api.Resource[Any]]) -> list[api.Resource[Any]]:
    """Those of the kinds of which there is a resource of that name now, with a field that is nested deeply."""
    made: list[api.Resource[Any]] = []
    for resource in kinds:
        schema = api.structural(resource.spec, as_c5c3=resource.as_c5c3)
        for path in list(free_forms(schema))[:1]:
            try:
                await cluster.create(resource, name, **deep(path))
                made.append(resource)
            except SpecError:
                # It wants other fields as well.
                continue
    return made


async def test_a_resource_that_is_nested_deeply_is_refused_by_its_field_and_harms_no_other(
    cluster: Cluster, root: Path
) -> None:
    listed = await deep_ones(cluster, "listed", RESOURCES[::2])
    await cluster.create(RESOURCE["Memcached"], "before")
    async with operator(cluster, root):
        await cluster.ready(RESOURCE["Memcached"], "before")
        watched = await deep_ones(cluster, "watched", RESOURCES[1::2])
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
