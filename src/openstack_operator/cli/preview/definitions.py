"""Definitions that a version of the operator brings, compared with those of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ...api import Resource, crd
from ...plan import Object
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.kinds import Kind

_DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
_AT_ONCE = 8
"""Requests that run at a time: a server of a small cluster has other clients."""


async def outdated(client: Client, resources: Sequence[Resource[Any]]) -> list[str]:
    """Return the names of definitions that the cluster lacks or has otherwise, in the order of the resources. One that
    is installed on request may be absent. Raises Forbidden, and Transient.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def is_outdated(resource: Resource[Any]) -> bool:
        async with limit:
            live = await client.get(_DEFINITION, None, resource.crd_name)
        return not resource.on_request if live is None else differs(live, crd(resource))

    answers = await asyncio.gather(*map(is_outdated, resources))
    return [resource.crd_name for resource, answer in zip(resources, answers, strict=True) if answer]


def differs(live: Object, definition: Object) -> bool:
    """Return True if a definition in a cluster is not this one, but for what the API server adds."""
    return not _contains(live["spec"], definition["spec"])


def _contains(live: Any, fields_of_definition: Any) -> bool:
    """Return True if each field of a definition is there. Schemas have to be equal: a removed field counts, too."""
    if isinstance(fields_of_definition, Mapping) and isinstance(live, Mapping):
        fields: Mapping[str, Any] = fields_of_definition
        return all(
            _stored(live.get(name)) == _stored(value) if name == "schema" else _contains(live.get(name), value)
            for name, value in fields.items()
        )
    if isinstance(fields_of_definition, list) and isinstance(live, list):
        entries: Sequence[Any] = fields_of_definition
        return len(live) == len(entries) and all(map(_contains, live, entries))
    return live == fields_of_definition


def _stored(schema: Any) -> Any:
    """Return a schema as an API server stores it: without lists that are empty, such as that of no rules."""
    if isinstance(schema, Mapping):
        fields: Mapping[str, Any] = schema
        # A default is kept as it is.
        return {
            name: value if name == "default" else _stored(value)
            for name, value in fields.items()
            if value != [] or name == "default"
        }
    if isinstance(schema, list):
        entries: Sequence[Any] = schema
        return [_stored(value) for value in entries]
    return schema
