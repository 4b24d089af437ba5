"""Spec of a Barbican."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ...api import (
    Column,
    HttpApi,
    Resource,
    Scalable,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
)


class BarbicanSpec(ServiceSpec, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """OpenStack Barbican: secrets, keys and certificates of users and of other services. It encrypts them with a key
    for each project, and these with a key-encryption key in the Secret `<name>-kek`. **Without this Secret no program
    can read them**: keep a copy outside of the cluster."""

    api: HttpApi = HttpApi()
    """The Key Manager API."""
    worker: Scalable = Scalable()
    """The worker, which carries out orders: keys that Barbican generates."""
    kek_generation: Annotated[int, Field(ge=1)] = 1
    """Raise this number to replace the key-encryption key: first, all programs can read with the new one; then they
    write with it; then a job encrypts the keys of all projects with it; then the old one is removed. The condition
    KEKReady says what the operator waits for. A smaller number changes nothing."""


BARBICAN = Resource(
    kind="Barbican",
    plural="barbicans",
    spec=BarbicanSpec,
    columns=(Column("Endpoint", ".status.endpoint"), Column("KEK", ".spec.kekGeneration", "integer", priority=1)),
)
