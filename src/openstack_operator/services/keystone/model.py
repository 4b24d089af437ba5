"""What users write to get a Keystone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ...api import (
    CachesResults,
    Column,
    Component,
    HttpApi,
    Model,
    Name,
    Resource,
    Schedule,
    SecretKeyRef,
    ServiceSpec,
    UsesDatabase,
)


class Rotation(Model):
    """How keys age."""

    rotation_schedule: Schedule = "0 0 * * 0"
    """When the primary key is replaced, as a cron expression in UTC."""
    max_active_keys: Annotated[int, Field(ge=3, le=32)] = 3
    """Keys kept, the staged and the primary one included. Tokens stay valid for (maxActiveKeys - 2) rotations."""


class Bootstrap(Model):
    """The first administrator."""

    admin_user: Name = "admin"
    """Name of the administrator."""
    admin_project: Name = "admin"
    """Project of the administrator."""
    admin_password_secret_ref: SecretKeyRef | None = None
    """Password of the administrator; unset has the operator draw one."""


class KeystoneSpec(ServiceSpec, UsesDatabase, CachesResults):
    """OpenStack Keystone: users, projects, tokens and the service catalog."""

    api: HttpApi = HttpApi()
    """The Identity API."""
    fernet: Rotation = Rotation()
    """Keys that sign tokens."""
    credential_keys: Rotation = Rotation(rotation_schedule="@monthly")
    """Keys that encrypt stored credentials (EC2, TOTP)."""
    bootstrap: Bootstrap = Bootstrap()
    """The first administrator and the region."""
    client: Component = Component(replicas=1)
    """The pod with the openstack command; the service's image, resources and replicas do not apply to it."""


KEYSTONE = Resource(
    kind="Keystone",
    plural="keystones",
    spec=KeystoneSpec,
    columns=(Column("Endpoint", ".status.endpoint"),),
)
