"""Images in files on a volume in a backup: where each Glance stores them, and the volume they are restored into."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ... import kube
from ...api import PodSettings
from ...plan import Context, Object, ReleaseEntry
from . import record
from .pods import Image, Run
from .report import listed, number

_GLANCE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Names that Kubernetes gives."""
KIND = "Glance"
BEFORE, AFTER = "imagesBefore", "images"
"""Fields of the record: results of the runs before and after those of the databases."""
_COMPONENT = "api"
_VOLUME = "images"
"""Name of the volume in the pods of a Glance."""
_FOLDER = "/var/lib/glance"
_SEVERAL_NODES = "ReadWriteMany"
_MEMORY = "512Mi"
"""restic has an index of all data in memory: some 70 MiB for 500 GiB of images."""


@dataclass(frozen=True, kw_only=True)
class Images:
    """The images that a Glance has in files on a volume."""

    name: str
    image: Image
    """Image of the Glance, whose user reads the files, and where its pods may run."""
    claim: Object
    """Its volume claim, as another cluster can take it."""
    beside: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of its pods if one node alone can mount the volume, and a pod may have it."""

    def run(self, ctx: Context[Any], storage: Image, *, is_last: bool) -> Run:
        """Return a run that stores the images, with restic in the image `storage`; the last one is after the databases
        were read, the other one before.
        """
        claim = {"persistentVolumeClaim": {"claimName": self.claim["metadata"]["name"], "readOnly": True}}
        return Run(
            component=f"images-{self.name}" if is_last else f"images-before-{self.name}",
            program="images",
            parameters={"backup": ctx.owner, "cloud": ctx.namespace, "name": self.name, "folder": _FOLDER},
            image=_with_restic(self.image, storage),
            mounts=(kube.Mount(name=_VOLUME, path=_FOLDER, volume=claim, read_only=True),),
            beside=self.beside,
            memory=_MEMORY,
        )

    def entry(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return its entry in the manifest, with the results of its runs in a record."""
        results = [stored[each][self.name] for each in (BEFORE, AFTER)]
        # There is none of a volume without a folder of images.
        snapshots = [result["snapshot"] for result in results if result["snapshot"]]
        counts = {each: results[-1][each] for each in ("images", "bytes")}
        return {**counts, "name": self.name, "claim": self.claim, "image": self.image.dump(), "snapshots": snapshots}

    def dump(self) -> dict[str, Any]:
        """Return JSON for `load`."""
        return {**vars(self), "image": self.image.dump(), "beside": dict(self.beside)}

    @classmethod
    def load(cls, values: Mapping[str, Any]) -> Images:
        """Return what `dump` returned. Raises KeyError or TypeError for other values."""
        fields: dict[str, Any] = {**values, "image": Image.load(values["image"])}
        return cls(**fields)


def observed(facts: Sequence[Mapping[str, Any]], *, is_included: bool) -> tuple[list[Images], list[str]]:
    """Return the images on volumes, and what the backup does not hold, as the status has it."""
    sources: list[Images] = []
    for fact in facts:
        if not (deployment := _deployment(fact)):
            continue
        pod_spec: Object = deployment["spec"]["template"]["spec"]
        claims = {each["metadata"]["name"]: each for each in fact["claims"]}
        if not (claim := claims.get(_claim_name(pod_spec))):
            continue
        is_shared, has_pods = _SEVERAL_NODES in claim["spec"]["accessModes"], deployment["spec"].get("replicas") != 0
        beside = dict(deployment["spec"]["selector"]["matchLabels"]) if has_pods and not is_shared else {}
        sources.append(Images(name=fact["name"], image=Image.of(pod_spec), claim=claim, beside=beside))
    if is_included:
        return sources, []
    return [], [f"{KIND}/{each.name}: images on its volume, since spec.include.images is false" for each in sources]


def not_ready(facts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield names of Glances with a volume whose pods are not known yet."""
    for fact in facts:
        if fact["claims"] and not _deployment(fact):
            yield f"{KIND}/{fact['name']}"


def dump(sources: Sequence[Images]) -> str:
    """Return JSON for `load`."""
    return json.dumps([each.dump() for each in sources], sort_keys=True)


def load(text: str) -> list[Images]:
    """Return what `dump` returned."""
    return [Images.load(values) for values in json.loads(text)]


def backup_rows(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the status says of the images in a backup."""
    before, after = stored.get(BEFORE, {}), stored.get(AFTER, {})
    return [
        {
            "name": name,
            "images": result.get("images"),
            "size": record.quantity(result.get("bytes")),
            "stored": record.quantity((result.get("stored") or 0) + (before.get(name, {}).get("stored") or 0)),
        }
        for name, result in after.items()
    ]


def restore_run(ctx: Context[Any], entry: Mapping[str, Any], settings: PodSettings) -> Run:
    """Return the run that fills a volume from its entry in a manifest, as the user of the release's Glance."""
    claim = {"persistentVolumeClaim": {"claimName": entry["claim"]["metadata"]["name"]}}
    scheduling = {name: entry[name] for name in ("nodeSelector", "tolerations") if entry[name]}
    glance = Image(entry=ctx.release["glance-api"], scheduling=scheduling)
    return Run(
        component=f"restore-images-{entry['name']}",
        program="images_restore",
        parameters={"folder": _FOLDER, "snapshots": entry["snapshots"]},
        image=_with_restic(glance, Image(entry=ctx.release["mariadb"])),
        settings=settings,
        mounts=(kube.Mount(name=_VOLUME, path=_FOLDER, volume=claim),),
        memory=_MEMORY,
    )


def restored_status(namespace: str, stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the status of a restore says of images: those restored, and rows and data that do not fit; None
    before anything is known.
    """
    results: Mapping[str, Mapping[str, Any]] = stored.get(AFTER, {})
    databases: Mapping[str, Mapping[str, Any]] = stored.get("databases", {})
    reports = [report for each in databases.values() if isinstance(report := each.get("images"), dict)]
    if not results and not reports:
        return None
    # Only the rows of the one Glance say which files have none.
    report = reports[0] if len(reports) == 1 else {}
    name = next(iter(results)) if len(results) == 1 else ""
    # A user may have written the record.
    name = name if _GLANCE.fullmatch(name) else "NAME"
    api = f"deploy/{name}-{_COMPONENT}"
    removal = f"kubectl exec -n {namespace} {api} -- rm"
    return {
        "restored": sum(number(each.get("images")) for each in results.values()),
        "size": record.quantity(sum(number(each.get("bytes")) for each in results.values())),
        "elsewhere": sum(number(each.get("elsewhere")) for each in reports),
        "withoutData": listed(report.get("withoutData"), lambda names: f"openstack image delete {' '.join(names)}"),
        "withoutRow": listed(
            report.get("withoutRow"), lambda names: " ".join([removal, *(f"{_FOLDER}/images/{name}" for name in names)])
        ),
    }


def _with_restic(glance: Image, storage: Image) -> Image:
    """Return the image of a database's server, as the user of a Glance and where its pods may run."""
    entry = ReleaseEntry(storage.entry.image, glance.entry.uid, glance.entry.gid)
    secrets = {name: storage.scheduling[name] for name in ("imagePullSecrets",) if name in storage.scheduling}
    return replace(glance, entry=entry, scheduling={**glance.scheduling, **secrets})


def _deployment(fact: Mapping[str, Any]) -> Object | None:
    """Return the Deployment of the API."""
    labelled = ((each, each["metadata"].get("labels") or {}) for each in fact["deployments"])
    return next((each for each, labels in labelled if labels.get(kube.COMPONENT) == _COMPONENT), None)


def _claim_name(pod_spec: Object) -> str:
    """Return the name of the claim of the volume with images; empty if pods have none."""
    volumes: Sequence[Object] = pod_spec.get("volumes") or ()
    sources = [each.get("persistentVolumeClaim") or {} for each in volumes if each["name"] == _VOLUME]
    return str(sources[0].get("claimName", "")) if sources else ""
