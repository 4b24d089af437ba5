"""Spec of a CredentialRotation."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    DURATION,
    ROTATING_KINDS,
    Column,
    Model,
    Name,
    Ref,
    Resource,
    Rule,
    lasts,
    optional_ref,
    rule,
    seconds,
)

if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[ROTATING_KINDS]


class NamedService(Model):
    """A service in the same namespace."""

    kind: Kind
    """Kind of the service."""
    name: Name
    """Name of the service."""


_KEYSTONES = "['admin', 'fernet', 'adminApplicationCredential']"
_OF_KEYSTONE = rule(
    f"!(self.target in {_KEYSTONES}) || !has(self.serviceRef) || self.serviceRef.kind == 'Keystone'",
    "this target needs a Keystone; set one, or remove serviceRef for `keystone`",
    ".serviceRef.kind",
)
Target = Literal["database", "messaging", "serviceAccountPassword", "admin", "fernet", "adminApplicationCredential"]
_DAY = timedelta(days=1)


class CredentialRotationSpec(Model):
    """CredentialRotation: replaces credentials of a service, on a schedule and on request. The operator creates a
    second account beside the one in use; the service's programs switch to it; when no pod can know the first one any
    more, the operator removes that.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"self.target in {_KEYSTONES} || has(self.serviceRef)",
            "this target needs the service of the account; set serviceRef",
            ".serviceRef",
        ),
        _OF_KEYSTONE,
    )

    target: Target
    """Credential to replace: accounts of a service in its databases or its broker, its user in Keystone, the
    administrator's password or application credential, or the key that signs tokens."""
    service_ref: NamedService | None = None
    """Service of the credential; for `admin`, `adminApplicationCredential` and `fernet` the Keystone, by default the
    one called `keystone`."""
    replace_every: Annotated[str, DURATION, lasts("1d", "3650d")] | None = None
    """Time between replacements, such as 90d. If unset, the operator replaces the credential only on request. The first
    interval starts when you create this resource."""
    keep_old_for: Annotated[str, DURATION, lasts("0s", "3650d")] | None = None
    """Minimum time to keep the old account for clients outside this cluster, in whole days, none if unset. The operator
    waits for the service's own programs in any case. Has no effect on the administrator's password and on token
    keys."""
    replace_now: bool = False
    """Replace the credential now: once for each change of this spec that sets this field."""

    @property
    def candidates(self) -> tuple[Ref, ...]:
        """The service that the spec means."""
        service = self.service_ref
        return (optional_ref(service.kind, service.name) if service else optional_ref("Keystone", "keystone"),)

    def default_refs(self) -> Mapping[str, Any]:
        """Return the service that the spec means, by kind."""
        return {f"serviceRef.{ref.kind}": ref for ref in self.candidates}

    @property
    def interval(self) -> timedelta | None:
        """Time between the beginnings of two replacements; None if only an order begins one."""
        return seconds(self.replace_every) if self.replace_every else None

    @property
    def grace_days(self) -> int:
        """Minimum number of days for which the old account stays."""
        return -(-seconds(self.keep_old_for) // _DAY) if self.keep_old_for else 0

    @property
    def is_ordered(self) -> bool:
        """True if this generation of the spec orders a replacement."""
        return self.replace_now


class C5C3CredentialRotationSpec(Model):
    """CredentialRotation: replaces credentials of a service, on a schedule and on request, by the names that c5c3's
    manifests have. The operator creates a second account beside the one in use; the service's programs switch to it;
    when no pod can know the first one any more, the operator removes that.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "self.target != 'serviceAccountPassword' || has(self.keystoneService) != has(self.serviceRef)",
            "this target needs the service of the account; set serviceRef or keystoneService",
            ".serviceRef",
        ),
        rule(
            "self.target == 'serviceAccountPassword' || !has(self.keystoneService)",
            "keystoneService is for target serviceAccountPassword; set serviceRef instead",
            ".keystoneService",
        ),
        rule(
            "!(self.target in ['database', 'messaging']) || has(self.serviceRef)",
            "this target needs the service of the account; set serviceRef",
            ".serviceRef",
        ),
        _OF_KEYSTONE,
        rule(
            "!has(self.preRotationDays) || !has(self.intervalDays) || self.preRotationDays < self.intervalDays",
            "rotation would be due before it is done; choose fewer days than intervalDays",
            ".preRotationDays",
        ),
    )

    target: Target
    """Credential to replace: accounts of a service in its databases or its broker, its user in Keystone, the
    administrator's password or application credential, or the key that signs tokens."""
    service_ref: NamedService | None = None
    """Service of the credential; for `admin`, `adminApplicationCredential` and `fernet` the Keystone, by default the
    one called `keystone`."""
    keystone_service: Name | None = None
    """Name of the service, whose user in Keystone it is; only for target serviceAccountPassword, in place of
    serviceRef."""
    interval_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    """Days between replacements. If unset, the operator replaces the credential only on request. The first interval
    starts when you create this resource."""
    pre_rotation_days: Annotated[int, Field(ge=0, le=3650)] | None = None
    """Days by which the replacement begins before the end of the interval."""
    grace_period_days: Annotated[int, Field(ge=0, le=3650)] | None = None
    """Minimum number of days for which the old account stays, none if unset. It is for clients outside this cluster:
    the operator always waits for the service's programs. The administrator has one password at a time, and keys of
    tokens stay as long as Keystone keeps them."""
    re_mint: bool = False
    """Replace the credential now: once for each change of this spec that sets this field."""
    bootstrap: bool = False
    """Request the first credential. A service has it from the beginning: nothing is done."""

    @property
    def candidates(self) -> tuple[Ref, ...]:
        """Services that the spec may mean."""
        if self.service_ref:
            return (optional_ref(self.service_ref.kind, self.service_ref.name),)
        if self.keystone_service:
            return tuple(optional_ref(kind, self.keystone_service) for kind in ROTATING_KINDS)
        return (optional_ref("Keystone", "keystone"),)

    def default_refs(self) -> Mapping[str, Any]:
        """Return the services that the spec may mean, by kind."""
        return {f"serviceRef.{ref.kind}": ref for ref in self.candidates}

    @property
    def interval(self) -> timedelta | None:
        """Time between the beginnings of two replacements; None if only an order begins one."""
        return (
            None if self.interval_days is None else timedelta(days=self.interval_days - (self.pre_rotation_days or 0))
        )

    @property
    def grace_days(self) -> int:
        """Minimum number of days for which the old account stays."""
        return self.grace_period_days or 0

    @property
    def is_ordered(self) -> bool:
        """True if this generation of the spec orders a replacement."""
        return self.re_mint


class CredentialRotationStatus(Model):
    """Status of a CredentialRotation besides its conditions and its phase."""

    last_rotation: Annotated[str, Field(max_length=32)] | None = None
    """Time of the last replacement (RFC 3339), when the old credential was gone."""
    next_rotation: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the next replacement is due."""
    last_triggered_generation: int | None = None
    """Generation of the spec whose `replaceNow` (in c5c3 `reMint`) the operator carried out last."""


CREDENTIAL_ROTATION = Resource(
    kind="CredentialRotation",
    plural="credentialrotations",
    spec=CredentialRotationSpec,
    status=CredentialRotationStatus,
    columns=(
        Column("Target", ".spec.target"),
        Column("Phase", ".status.phase"),
        Column("Last", ".status.lastRotation", "date"),
        Column("Next", ".status.nextRotation", priority=1),
    ),
)
C5C3_CREDENTIAL_ROTATION = Resource(
    kind=CREDENTIAL_ROTATION.kind,
    plural=CREDENTIAL_ROTATION.plural,
    group="c5c3.io",
    spec=C5C3CredentialRotationSpec,
    status=CredentialRotationStatus,
    columns=CREDENTIAL_ROTATION.columns,
)
