"""Small resources, each for one thing Cinder keeps in its database."""

from typing import Annotated, Literal

from pydantic import Field

from ..api import (
    CinderRef,
    Column,
    KeystoneRef,
    Measured,
    Model,
    Resource,
    immutable,
    immutable_optional,
    rule,
    validated,
)

_Cinder = Annotated[CinderRef, validated(immutable("cinderRef"))]
_Keystone = Annotated[KeystoneRef, validated(immutable("keystoneRef"))]
_Word = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^\S(.*\S)?$")]
_Limit = Annotated[int, Field(ge=-1, le=2_147_483_647)]


class _OfCinder(Model):
    """Cinder that holds the object, and Keystone that authenticates the operator."""

    cinder_ref: _Cinder = CinderRef(name="cinder")
    """Cinder that this resource is about. Cannot be changed."""
    keystone_ref: _Keystone = KeystoneRef(name="keystone")
    """Keystone whose administrator the operator uses. Cannot be changed."""


class VolumeEncryption(Model):
    """Encryption of each volume of a type with a key of its own, which Cinder makes in Barbican as the user."""

    rules = (
        rule(
            "!has(self.cipher) || !self.cipher.contains('-xts-') || !has(self.keySize) || self.keySize != 192",
            "xts takes keys of 128 or 256 bits; use 256",
            ".keySize",
        ),
    )

    provider: Literal["luks"] = "luks"
    """Format; QEMU on the compute node reads and writes it."""
    cipher: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]+-[a-z0-9]+-[a-z0-9]+$")] = "aes-xts-plain64"
    """Cipher, mode and IV generator, as for dm-crypt."""
    key_size: Annotated[int, Field(ge=128, le=256, multiple_of=64)] = 256
    """Bits of the key. With xts there are two keys of this size."""
    control_location: Literal["front-end"] = "front-end"
    """Place of encryption: the compute node, before data reach the network and the storage."""


class CinderVolumeTypeSpec(_OfCinder):
    """A volume type: what users request, and what a backend must have for it."""

    rules = (
        rule(
            "!has(oldSelf.encryption) || has(self.encryption)",
            "new volumes of this type would not be encrypted; keep encryption, and create another type without it",
            ".encryption",
        ),
    )

    name: Annotated[_Word, validated(immutable("the type's name"))]
    """Name of the type. Cannot be changed."""
    description: Annotated[str, Field(max_length=255)] = ""
    """Description of the type for people."""
    public: bool = True
    """True if every project may use the type."""
    extra_specs: Annotated[dict[str, Annotated[str, Field(max_length=255)]], Field(max_length=64)] = {}
    """Extra specs, such as `volume_backend_name`: required capabilities of a backend, and driver options. Others are
    removed."""
    encryption: VolumeEncryption | None = None
    """Encryption of its volumes, for which Cinder and Nova need a barbicanRef. Set it with the type: Cinder refuses
    changes while the type has volumes. Unset leaves the type in Cinder as it is."""


class CinderQuotaSpec(_OfCinder):
    """Limits of a project. Limits that are not named stay unchanged."""

    rules = (immutable_optional("project", "the project of a quota"),)

    project: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Name of the project. Unset is for every project without a quota of its own. Cannot be changed."""
    domain: Annotated[str, Field(min_length=1, max_length=64)] = "Default"
    """Name of the project's domain."""
    limits: Annotated[dict[str, _Limit], Field(min_length=1, max_length=64)]
    """Limits by Cinder's names: volumes, snapshots, gigabytes, backups, backup_gigabytes, per_volume_gigabytes, groups,
    and volumes_TYPE, gigabytes_TYPE, snapshots_TYPE of a volume type. -1 is no limit."""


class CinderBackendSpec(_OfCinder):
    """A backend as Cinder's scheduler sees it; the operator creates nothing for it."""

    backend: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the backend, as in `host@backend#pool`."""
    cluster: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Cluster name of its active/active services, without the backend; unset if each volume belongs to a host."""
    hosts: Annotated[list[Annotated[str, Field(max_length=255)]], Field(max_length=16)]
    """Its services, each as `host@backend`."""


class CinderBackendStatus(Model):
    """State of a backend in Cinder."""

    status: Annotated[str, Field(max_length=63)] = ""
    """Ready, or Down."""
    message: Annotated[str, Field(max_length=32_768)] = ""
    """Reason why the backend is down."""
    available_capacity: Measured | None = None
    """Free space of its pools; unset where the storage does not report it."""
    allocated_capacity: Measured | None = None
    """Size of the volumes made on it."""
    total_capacity: Measured | None = None
    """Size of its pools; unset where the storage does not report it."""
    volumes: int | None = None
    """Number of volumes on it, in all projects."""


VOLUME_TYPE = Resource(
    kind="CinderVolumeType",
    plural="cindervolumetypes",
    spec=CinderVolumeTypeSpec,
    short_names=("voltype",),
    columns=(Column("Type", ".spec.name"), Column("Public", ".spec.public", "boolean")),
)
QUOTA = Resource(
    kind="CinderQuota",
    plural="cinderquotas",
    spec=CinderQuotaSpec,
    short_names=("volquota",),
    columns=(Column("Project", ".spec.project"),),
)
BACKEND = Resource(
    kind="CinderBackend",
    plural="cinderbackends",
    spec=CinderBackendSpec,
    status=CinderBackendStatus,
    short_names=("volbackend",),
    columns=(
        Column("Status", ".status.status"),
        Column("Available", ".status.availableCapacity"),
        Column("Volumes", ".status.volumes", "integer"),
    ),
)
