"""Northbound databases of OVN in a backup: where each is read, and the volume it is restored into."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...api import PodSettings
from ...plan import Context, Object
from .databases import first_claim
from .pods import Image, Program, Run
from .report import names, number

KIND = "OVNNetwork"
_MEMBER = "nb"
"""Component of the members of a northbound database."""
_SCHEMA = "OVN_Northbound"
_PORTS = (6641, 16641)
_FOLDER = "/var/lib/ovn"
_SHARED = "/var/lib/backup"
"""Folder in which the programs of a pod pass on the database."""
RESTORED = "nb-restored"
"""End of the name of the Secret that says which cluster was restored."""
_VOLUME_FOLDER = "ovn"
"""Folder of the volume with the database."""


@dataclass(frozen=True, kw_only=True)
class Northbound:
    """The northbound database of an OVN that is backed up."""

    name: str
    connection: str
    """Addresses of its members, as OVN's programs read them."""
    client_secret: str
    """Secret with a certificate for clients; empty without TLS."""
    image: Image
    claim: Object
    """Volume claim of the first member, as another cluster can take it."""
    labels: Mapping[str, str]
    """Labels of the objects of this OVN."""

    def run(self, ctx: Context[Any], storage: Image) -> Run:
        """Return the run that backs it up, with restic in the image `storage`."""
        parameters = {
            "backup": ctx.owner,
            "cloud": ctx.namespace,
            "kind": "northbound",
            "name": self.name,
            "connection": self.connection,
            "database": _SCHEMA,
            "folder": _SHARED,
            "file": _file(self.name),
            "tls": bool(self.client_secret),
        }
        shared = kube.scratch(_SHARED, large=True)
        tls = [kube.folder("tls", self.client_secret, "/etc/backup/tls")] if self.client_secret else []
        return Run(
            component=f"northbound-{self.name}",
            program="store",
            parameters=parameters,
            image=storage,
            mounts=shared,
            before=Program(name="northbound", entry=self.image.entry, mounts=(*shared, *tls)),
        )

    def door(self, ctx: Context[Any], sources: Sequence[Object]) -> Object:
        """Return the NetworkPolicy by which its members accept connections of `sources`."""
        rule = {"from": list(sources), "ports": [{"port": port, "protocol": "TCP"} for port in _PORTS]}
        pods = {name: self.labels[name] for name in (kube.KIND, kube.INSTANCE)}
        return kube.network_policy(ctx, ctx.name("uses", self.name, _MEMBER), pods | {kube.COMPONENT: _MEMBER}, [rule])

    def entry(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return its entry in the manifest, with the result of its run."""
        fields = {"claim": self.claim, "image": self.image.dump(), "labels": dict(self.labels)}
        return {**result, "name": self.name, **fields}

    def dump(self) -> dict[str, Any]:
        """Return JSON for `load`."""
        return {**vars(self), "image": self.image.dump(), "labels": dict(self.labels)}

    @classmethod
    def load(cls, values: Mapping[str, Any]) -> Northbound:
        """Return what `dump` returned. Raises KeyError or TypeError for other values."""
        fields: dict[str, Any] = {**values, "image": Image.load(values["image"])}
        return cls(**fields)


def observed(facts: Sequence[Mapping[str, Any]]) -> tuple[list[Northbound], list[str]]:
    """Return the northbound databases that this operator runs, and what it cannot back up, as the status has it."""
    sources: list[Northbound] = []
    foreign: list[str] = []
    for fact in facts:
        if not (members := _members(fact)):
            foreign.append(f"{KIND}/{fact['name']}: this operator does not run its databases")
            continue
        claims = [claim for claim in fact["claims"] if claim["metadata"]["labels"].get(kube.COMPONENT) == _MEMBER]
        sources.append(
            Northbound(
                name=fact["name"],
                connection=fact["published"]["northbound"],
                client_secret=fact["published"].get("clientSecret", ""),
                image=Image.of(members["spec"]["template"]["spec"]),
                claim=first_claim(claims, members),
                labels={name: text for name, text in members["metadata"]["labels"].items() if name != kube.COMPONENT},
            )
        )
    return sources, foreign


def not_ready(facts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield names of databases that cannot be read now."""
    for fact in facts:
        if (members := _members(fact)) and not (fact["published"].get("northbound") and kube.judge(members).ready):
            yield f"{KIND}/{fact['name']}"


def dump(sources: Sequence[Northbound]) -> str:
    """Return JSON for `load`."""
    return json.dumps([each.dump() for each in sources], sort_keys=True)


def load(text: str) -> list[Northbound]:
    """Return what `dump` returned."""
    return [Northbound.load(values) for values in json.loads(text)]


def restore_run(ctx: Context[Any], entry: Mapping[str, Any], settings: PodSettings) -> Run:
    """Return the run that fills the volume of a first member from its entry in a manifest."""
    name = entry["name"]
    claim = {"persistentVolumeClaim": {"claimName": entry["claim"]["metadata"]["name"]}}
    shared = kube.scratch(_SHARED, large=True)
    return Run(
        component=f"restore-northbound-{name}",
        program="northbound_restore",
        parameters={
            "snapshot": entry["snapshot"],
            "schema": entry["schema"],
            "folder": _SHARED,
            "file": _file(name),
            "datadir": _FOLDER,
        },
        image=Image(
            entry=ctx.release["ovn-nb"],
            scheduling={field: entry[field] for field in ("nodeSelector", "tolerations") if entry[field]},
        ),
        settings=settings,
        mounts=(kube.Mount(name="data", path=_FOLDER, volume=claim, sub_path=_VOLUME_FOLDER), *shared),
        before=Program(name="fetch", entry=ctx.release["mariadb"], mounts=shared, uses_repository=True),
        uses_repository=False,
    )


def stored_files(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return where the repository has the northbound databases of a manifest."""
    return [{"snapshot": entry["snapshot"], "file": _file(entry["name"])} for entry in entries]


def restored_status(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the status of a restore says of Neutron and OVN; None if no database, or several, have a Neutron."""
    databases: Mapping[str, Mapping[str, Any]] = stored.get("databases", {})
    reports = [report for each in databases.values() if isinstance(report := each.get("networks"), dict)]
    if len(reports) != 1:
        return None
    [report] = reports
    return {
        "rows": number(report.get("rows")),
        "withoutRow": names(report.get("withoutRow"), "names"),
        "withoutOVN": names(report.get("withoutOVN"), "names"),
    }


def mark(entry: Mapping[str, Any], result: Mapping[str, Any]) -> Object:
    """Return the Secret by which an OVN knows that its northbound database was restored: Neutron writes into it what
    the database lacks.
    """
    encoded = base64.b64encode(str(result["cluster"]).encode()).decode()
    metadata = {"name": f"{entry['name']}-{RESTORED}", "labels": dict(entry["labels"])}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"cluster": encoded}}


def _file(name: str) -> str:
    return f"{name}.ovsdb"


def _members(fact: Mapping[str, Any]) -> Object | None:
    """Return the StatefulSet of the members."""
    labelled = ((each, each["metadata"].get("labels") or {}) for each in fact["workloads"])
    return next((each for each, labels in labelled if labels.get(kube.COMPONENT) == _MEMBER), None)
