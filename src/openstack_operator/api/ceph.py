"""Where in Ceph a service keeps what it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from .fields import Name, settled
from .model import Model, Rule, rule
from .refs import CephStorageRef, SecretRef

PoolName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]*$")]
"""Name of a pool in Ceph."""

CEPH = CephStorageRef(name="ceph")
"""The CephStorage of a control plane."""


class CephClientRef(Model):
    """A CephClient of Rook's."""

    name: Name
    """Name of the CephClient."""
    namespace: Name = "rook-ceph"
    """Its namespace; nothing is read there."""


class CephSource(Model):
    """Where in Ceph a service keeps its data: in a CephStorage of this namespace, unless a Secret says where."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!(has(self.cephStorageRef) && has(self.cephSecretRef))",
            "a CephStorage and a Secret may name two clusters; keep one of cephStorageRef and cephSecretRef",
            ".cephSecretRef",
        ),
        rule(
            "!has(self.cephClientRef) || has(self.cephSecretRef) || has(self.cephStorageRef)",
            "the Secret of a CephClient lies in Rook's namespace; name a copy of it in cephSecretRef, or in "
            "cephStorageRef a CephStorage with mode rook",
            ".cephClientRef",
        ),
        settled("pool", "the pool"),
    )

    ceph_storage_ref: CephStorageRef | None = None
    """CephStorage to use; without it and cephSecretRef, the one called `ceph`."""
    ceph_secret_ref: SecretRef | None = None
    """Secret with `ceph.conf`, which must say `fsid` and `mon host`, and `keyring`, which holds the key of one client
    with the caps this use needs; or with single values as Rook keeps them: `mon_host`, `fsid`, `userID` and `userKey`.
    Pools are not made then. Whoever rotates the key puts the new one here."""
    ceph_client_ref: CephClientRef | None = None
    """CephClient the Secret was made of: it names the user, whose key may stand in the Secret under that name. Nothing
    is read of the CephClient itself, which lies in Rook's namespace."""
    pool: PoolName | None = None
    """Pool of the data; unset takes the one the CephStorage has for this use, with a Secret `volumes`, `images`, `vms`
    or `backups`. Cannot be changed, since data does not move by itself."""

    @property
    def storage(self) -> CephStorageRef | None:
        """The CephStorage in use; None where a Secret says where."""
        return None if self.ceph_secret_ref else self.ceph_storage_ref or CEPH

    def implied(self) -> Mapping[str, Any]:
        """The CephStorage that is meant where nobody names one."""
        return {"cephStorageRef": self.storage} if self.storage and not self.ceph_storage_ref else {}
