"""Databases that mariadb-operator runs: it copies one to a volume, and a program stores the copy in the repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import kube
from ...plan import Context, Kind, Object, ReleaseEntry, Step, fitting
from .pods import SCHEDULING, Image, Run

OPERATOR = "mariadb-operator"
_API = "k8s.mariadb.com/v1alpha1"
PHYSICAL_BACKUP = Kind(_API, "PhysicalBackup", "physicalbackups", project=OPERATOR)
_USER = 999
"""User and group of the pods of mariadb-operator."""
_OWN_FOLDER, _FOLDER, _SHARED_FOLDER = "mysql", "", "storage"
"""Folder of the data in a volume: in that of a MariaDB that this operator runs; in that of a single server of
mariadb-operator; and in that of a Galera member whose volume has Galera's configuration, too."""
_COPIES = "/var/lib/backup"
_NAME_LIMIT = 40
"""mariadb-operator adds a time to the name, for a Job."""
_DEADLINE = "24h"


@dataclass(frozen=True, kw_only=True)
class DelegatedDatabase:
    """A MariaDB of mariadb-operator that is backed up."""

    name: str
    resource: str
    """Name of its MariaDB of k8s.mariadb.com."""
    image: Image
    claim: Object
    """Volume claim of the first member, as another cluster can take it."""
    folder: str
    """Folder of the data in the volume."""

    def copy(self, ctx: Context[Any], stored: Mapping[str, Any], after: Sequence[Step]) -> Step:
        """Return the step in which mariadb-operator copies the data to a volume of the same size. One that failed is
        made again, with another volume.
        """
        spec = {**self.claim["spec"], "accessModes": ["ReadWriteOnce"]}
        claim = kube.obj(ctx, "PersistentVolumeClaim", self._copy_name(ctx, stored), spec=spec)
        volume = {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        physical_backup = kube.obj(
            ctx,
            PHYSICAL_BACKUP.kind,
            self._copy_name(ctx, stored),
            PHYSICAL_BACKUP.api_version,
            spec={
                "mariaDbRef": {"name": self.resource},
                "target": "PreferReplica",
                "storage": {"volume": volume},
                # restic finds what is equal in it, and compresses it.
                "compression": "none",
                "timeout": _DEADLINE,
                "backoffLimit": 5,
                "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
                "restartPolicy": "Never",
                **{name: value for name, value in self.image.scheduling.items() if name in _OF_PHYSICAL_BACKUP},
            },
        )
        return Step(name=f"Copy {self.name}", objects=(claim, physical_backup), after=tuple(after))

    @property
    def _attempts(self) -> str:
        """Key in the record of the number of copies that failed."""
        return f"copy-{self.name}"

    def _copy_name(self, ctx: Context[Any], stored: Mapping[str, Any]) -> str:
        number = stored.get("attempts", {}).get(self._attempts, 0)
        return fitting(ctx.name("copy", self.name, *([str(number)] if number else [])), _NAME_LIMIT)

    def attempted(self, ctx: Context[Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record, with one more attempt if the present copy failed: mariadb-operator does not repeat one."""
        live = ctx.children.get((PHYSICAL_BACKUP.handle, self._copy_name(ctx, stored)))
        if live is None or kube.conditions(live).get("Complete", {}).get("reason") != "JobFailed":
            return dict(stored)
        attempts: Mapping[str, int] = stored.get("attempts", {})
        return {**stored, "attempts": {**attempts, self._attempts: attempts.get(self._attempts, 0) + 1}}

    def door(self, ctx: Context[Any]) -> Object | None:
        """Return None: policies of this operator do not apply to its pods."""

    def run(self, ctx: Context[Any], stored: Mapping[str, Any]) -> Run:
        """Return the run that stores the copy."""
        volume = {"persistentVolumeClaim": {"claimName": self._copy_name(ctx, stored), "readOnly": True}}
        return Run(
            component=f"database-{self.name}",
            program="physical_backup",
            parameters={"cloud": ctx.namespace, "database": self.name, "backup": ctx.owner, "folder": _COPIES},
            image=self.image,
            mounts=(kube.Mount(name="copy", path=_COPIES, volume=volume, read_only=True),),
        )

    def entry(self) -> dict[str, Any]:
        """Return its entry in a manifest, without results."""
        where = {"operator": OPERATOR, "folder": self.folder}
        return {"name": self.name, "claim": self.claim, "image": self.image.dump(), **where}

    def dump(self) -> dict[str, Any]:
        """Return JSON for `load`."""
        return {**vars(self), "image": self.image.dump()}

    @classmethod
    def load(cls, values: Mapping[str, Any]) -> DelegatedDatabase:
        """Return what `dump` returned. Raises KeyError or TypeError for other values."""
        fields: dict[str, Any] = {**values, "image": Image.load(values["image"])}
        return cls(**fields)


_OF_PHYSICAL_BACKUP = ("tolerations", "priorityClassName", "imagePullSecrets")
"""Fields of a pod that a PhysicalBackup takes; mariadb-operator places the pod beside the server."""


def resource_of(fact: Mapping[str, Any]) -> Object | None:
    """Return the MariaDB of mariadb-operator that serves; None for another server."""
    return next((live for live in fact["delegated"] if (live["apiVersion"], live["kind"]) == (_API, "MariaDB")), None)


def is_ready(live: Object) -> bool:
    """Return True if mariadb-operator can copy the data of its MariaDB now, whose image it has filled in."""
    is_known = bool(live["spec"].get("image"))
    return is_known and kube.conditions(live).get("Ready", {}).get("status") == "True"


def image_of(live: Object) -> Image:
    """Return the image of the server of a MariaDB of mariadb-operator."""
    spec: Mapping[str, Any] = live["spec"]
    entry = ReleaseEntry(spec["image"], _USER, _USER)
    return Image(entry=entry, scheduling={name: spec[name] for name in SCHEDULING if spec.get(name)})


def observed(name: str, live: Object) -> DelegatedDatabase:
    """Return the database of a MariaDB of mariadb-operator that is ready."""
    spec, resource = live["spec"], live["metadata"]["name"]
    storage, galera = spec["storage"], spec.get("galera") or {}
    size = {"requests": {"storage": storage["size"]}}
    classes = {"storageClassName": storage["storageClassName"]} if storage.get("storageClassName") else {}
    labels = {
        "app.kubernetes.io/name": "mariadb",
        "app.kubernetes.io/instance": resource,
        "pvc.k8s.mariadb.com/role": "storage",
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        # With its labels, it takes the volume of a member for that of a cluster that broke, and enlarges that of a
        # single server.
        "metadata": {"name": f"storage-{resource}-0", **({} if galera.get("enabled") else {"labels": labels})},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": size, **classes},
    }
    is_shared = galera.get("enabled") and (galera.get("config") or {}).get("reuseStorageVolume")
    return DelegatedDatabase(
        name=name,
        resource=resource,
        image=image_of(live),
        claim=claim,
        folder=_SHARED_FOLDER if is_shared else _FOLDER,
    )


def location_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return who runs the server of an entry of a manifest, and the folder of its data. Raise ValueError for what no
    backup says.
    """
    operator = entry.get("operator", "")
    folder = entry["folder"] if operator else _OWN_FOLDER
    folders: Sequence[object] = (_FOLDER, _SHARED_FOLDER) if operator else (_OWN_FOLDER,)
    if operator not in ("", OPERATOR) or folder not in folders:
        raise ValueError(f"MariaDB/{entry['name']} of {operator!r} in {folder!r}")
    return {"operator": operator, "folder": folder}


def as_its_user(entry: Mapping[str, Any], image: Image) -> Image:
    """Return an image as the user who owns the data of an entry with what `location_of` returned."""
    return replace(image, entry=ReleaseEntry(image.entry.image, _USER, _USER)) if entry["operator"] else image
