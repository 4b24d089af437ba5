"""What users write to have credentials replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    CinderRef,
    Column,
    GlanceRef,
    KeystoneRef,
    Model,
    Name,
    NeutronRef,
    NovaRef,
    PlacementRef,
    Ref,
    Resource,
    Rule,
    rule,
)

# What is named here may come later; the condition says so.
_KINDS: tuple[type[Ref], ...] = (KeystoneRef, GlanceRef, PlacementRef, NeutronRef, NovaRef, CinderRef)
Kind = Literal["Keystone", "Glance", "Placement", "Neutron", "Nova", "Cinder"]


class NamedService(Model):
    """A service in the same namespace."""

    kind: Kind
    """Kind of the service."""
    name: Name
    """Name of the service."""


class SomeService(Ref):
    """A service that may not be there."""

    kind: ClassVar[str] = ""
    optional: ClassVar[bool] = True


def some(kind: str, name: str) -> SomeService:
    """A reference to a service of that kind."""
    return _SOME[kind](name=name)


_SOME: Mapping[str, type[SomeService]] = {
    each.kind: type(f"Some{each.kind}", (SomeService,), {"kind": each.kind, "__annotations__": {"kind": ClassVar[str]}})
    for each in _KINDS
}

_KEYSTONES = "['admin', 'fernet', 'adminApplicationCredential']"


class CredentialRotationSpec(Model):
    """CredentialRotation: has credentials of a service replaced, on a schedule and when asked. A second account is made
    beside the one in use; the service's programs go over to it; when no pod can know the first one any more, that is
    removed."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "self.target != 'serviceAccountPassword' || has(self.keystoneService) != has(self.serviceRef)",
            "say whose account it is; set serviceRef, or keystoneService",
            ".serviceRef",
        ),
        rule(
            "self.target == 'serviceAccountPassword' || !has(self.keystoneService)",
            "this is for target serviceAccountPassword; set serviceRef instead",
            ".keystoneService",
        ),
        rule(
            "!(self.target in ['database', 'messaging']) || has(self.serviceRef)",
            "say whose account it is; set serviceRef",
            ".serviceRef",
        ),
        rule(
            f"!(self.target in {_KEYSTONES}) || !has(self.serviceRef) || self.serviceRef.kind == 'Keystone'",
            "this is a Keystone's; name one, or none for `keystone`",
            ".serviceRef.kind",
        ),
        rule(
            "!has(self.preRotationDays) || !has(self.intervalDays) || self.preRotationDays < self.intervalDays",
            "it would be due before it was done; choose fewer days than intervalDays",
            ".preRotationDays",
        ),
    )

    target: Literal["database", "messaging", "serviceAccountPassword", "admin", "fernet", "adminApplicationCredential"]
    """What is replaced: accounts of a service in its databases or its broker, its user in Keystone, the administrator's
    password, his application credential, or the key that signs tokens."""
    service_ref: NamedService | None = None
    """Whose; for `admin`, `adminApplicationCredential` and `fernet` the Keystone, and without it the one called
    `keystone`."""
    keystone_service: Name | None = None
    """Whose user in Keystone, by the name of the service alone; for target serviceAccountPassword, in place of
    serviceRef."""
    interval_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    """How many days after one replacement the next one is due; unset is only when asked. The first is counted from when
    this resource came."""
    pre_rotation_days: Annotated[int, Field(ge=0, le=3650)] | None = None
    """How many days before that it begins."""
    grace_period_days: Annotated[int, Field(ge=0, le=3650)] | None = None
    """For how many days at least the account before is kept, for clients outside this cluster; unset is none. Programs
    of the service are waited for in any case. The administrator has one password at a time, and keys of tokens stay as
    long as Keystone keeps them."""
    re_mint: bool = False
    """Replace it now: once for each change of this spec that has it set."""
    bootstrap: bool = False
    """Asks for the first credential, which a service has from its beginning: nothing is done."""

    @property
    def named(self) -> tuple[Ref, ...]:
        """Whom it may be about."""
        if self.service_ref:
            return (some(self.service_ref.kind, self.service_ref.name),)
        if self.keystone_service:
            return tuple(some(kind, self.keystone_service) for kind in _SOME)
        return (some("Keystone", "keystone"),)

    def implied(self) -> Mapping[str, Any]:
        """Whom it may be about, by kind."""
        return {f"serviceRef.{ref.kind}": ref for ref in self.named}


class CredentialRotationStatus(Model):
    """What a CredentialRotation tells besides its conditions and its phase."""

    last_rotation: Annotated[str, Field(max_length=32)] | None = None
    """When it was replaced for the last time (RFC 3339): the one before was gone."""
    next_rotation: Annotated[str, Field(max_length=32)] | None = None
    """When it is due."""
    last_triggered_generation: int | None = None
    """The last change of the spec whose reMint was followed."""


CREDENTIAL_ROTATION = Resource(
    kind="CredentialRotation",
    plural="credentialrotations",
    group="c5c3.io",
    spec=CredentialRotationSpec,
    status=CredentialRotationStatus,
    columns=(
        Column("Target", ".spec.target"),
        Column("Phase", ".status.phase"),
        Column("Last", ".status.lastRotation", "date"),
        Column("Next", ".status.nextRotation", priority=1),
    ),
)
