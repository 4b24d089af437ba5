"""The small resource for an identity provider that Keystone trusts."""

from typing import Annotated, Literal

from pydantic import Field

from ..api import (
    Column,
    FixedProviderName,
    KeystoneRef,
    MappingRules,
    Model,
    RemoteIdAttribute,
    Resource,
    immutable,
    immutable_optional,
    validated,
)


class KeystoneIdentityProviderSpec(Model):
    """An identity provider in Keystone, with one protocol and the mapping of its users."""

    rules = (immutable_optional("domain", "the domain of an identity provider"),)

    keystone_ref: Annotated[KeystoneRef, validated(immutable("keystoneRef"))] = KeystoneRef(name="keystone")
    """Keystone that trusts the provider. Cannot be changed."""
    name: FixedProviderName
    """Name of the provider in Keystone, and of its mapping. Cannot be changed."""
    description: Annotated[str, Field(max_length=255)] = ""
    """Description of the provider for people."""
    domain: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Name of the domain its users belong to. It is created where it does not exist, and kept when this resource is
    deleted. Unset lets Keystone create one. Cannot be changed."""
    remote_ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=255)]], Field(min_length=1, max_length=8)
    ] = Field(alias="remoteIDs")
    """Identifiers of the provider in its messages (remote IDs). Others are removed."""
    protocol: Annotated[
        str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$"), validated(immutable("the protocol"))
    ]
    """Protocol of the provider: one of Keystone's authentication methods. Keystone knows users by their provider and by
    this. Cannot be changed."""
    remote_id_attribute: RemoteIdAttribute | None = Field(default=None, alias="remoteIDAttribute")
    """Variable that holds the identifier of the provider that authenticated a user. Unset takes Keystone's
    configuration."""
    mapping: MappingRules
    """Rules of Keystone that map the provider's users to local ones."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """Treatment of the provider when this resource is deleted. Retain disables it, and enables it again when the
    resource is created again; Delete removes it, its mapping and its users with their roles and application
    credentials."""


IDENTITY_PROVIDER = Resource(
    kind="KeystoneIdentityProvider",
    plural="keystoneidentityproviders",
    spec=KeystoneIdentityProviderSpec,
    short_names=("ksidp",),
    columns=(Column("Provider", ".spec.name"), Column("Protocol", ".spec.protocol")),
)
