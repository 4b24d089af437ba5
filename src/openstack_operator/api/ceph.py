"""Ceph cluster, client and pool of a service's data."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from .fields import Name, immutable_optional
from .model import Model, Rule, rule
from .refs import CephStorageRef, OptionalCephStorageRef, SecretRef

PoolName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]*$")]
"""Name of a pool in Ceph."""

CEPH = CephStorageRef(name="ceph")
"""The CephStorage of a control plane."""

CEPH_BESIDE = OptionalCephStorageRef(name=CEPH.name)
"""The same for a Secret of a client that does not say where the cluster is."""


class CephClientRef(Model):
    """A CephClient of Rook."""

    name: Name
    """Name of the CephClient."""
    namespace: Name = "rook-ceph"
    """Namespace of the CephClient. The operator reads nothing there."""


class CephSource(Model):
    """Ceph cluster and pool of a service's data: a CephStorage of this namespace, unless a Secret names a cluster."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!(has(self.cephStorageRef) && has(self.cephSecretRef))",
            "cephStorageRef and cephSecretRef exclude each other; remove one",
            ".cephSecretRef",
        ),
        rule(
            "!has(self.cephClientRef) || has(self.cephSecretRef) || has(self.cephStorageRef)",
            "cephClientRef needs a source; set cephSecretRef to a copy of Rook's Secret, or "
            "cephStorageRef to a CephStorage with mode rook",
            ".cephClientRef",
        ),
        immutable_optional("pool", "the pool"),
    )

    ceph_storage_ref: CephStorageRef | None = None
    """CephStorage to use, `ceph` if cephSecretRef is unset, too."""
    ceph_secret_ref: SecretRef | None = None
    """Secret with the address of a Ceph cluster and a login. It has `ceph.conf`, which must set `fsid` and `mon host`,
    and `keyring`, which holds the key of one client with the caps this use needs; or single values as Rook keeps them:
    `mon_host`, `fsid`, `userID` and `userKey`. A Secret with the key alone is for the cluster of the CephStorage `ceph`
    of this namespace. The operator creates no pools then. After a rotation of the key, put the new one here."""
    ceph_client_ref: CephClientRef | None = None
    """CephClient from which the Secret was made. It names the user, whose key may be in the Secret under that name. The
    operator does not read the CephClient itself, which is in Rook's namespace."""
    pool: PoolName | None = None
    """Pool of the data, the CephStorage's pool for this use if unset. With cephSecretRef, unset is `volumes`, `images`,
    `vms` or `backups`. Cannot be changed, since data does not move by itself."""

    @property
    def storage(self) -> CephStorageRef | None:
        """CephStorage in use; None if a Secret names the cluster."""
        return None if self.ceph_secret_ref else self.ceph_storage_ref or CEPH

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default CephStorage if the spec names none; beside a Secret, nothing waits for it."""
        return {} if self.ceph_storage_ref else {"cephStorageRef": self.storage or CEPH_BESIDE}
