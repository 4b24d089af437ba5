"""The major version of MariaDB: which one a spec asks for, and the way to it from the one that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import kube, parts
from ...agents.mariadb.galera import Member
from ...plan import (
    READY,
    Context,
    Object,
    ReleaseEntry,
    SpecError,
    Step,
    changing,
    check_version,
    major,
    progressing,
    waiting,
)
from .model import MariaDBSpec

_SERVED = "openstack.k8s.io/served-version"
"""Annotation of a single server's StatefulSet: the version with which the server was ready last."""
_WAY_BACK = "set the old version again, or restore a backup into a new MariaDB"


@dataclass(frozen=True)
class Version:
    """The version of a spec, and whether members still have to change to it."""

    entry: ReleaseEntry
    is_new: bool
    """True if the pod template has another one, so that the upgrade has not begun."""
    members: Mapping[str, str]
    """By pod, what keeps a member from having it; empty in a single server, of which only the template is known."""
    served_version: str = ""
    """Of a single server, the version with which it was ready last; empty in a cluster."""
    template_version: str = ""
    """The version of the live pod template."""

    @property
    def is_changing(self) -> bool:
        """True until all members have it."""
        return self.is_new or bool(self.members)

    def gate(self, missing: Sequence[str]) -> Sequence[Step]:
        """Return the step that holds members back from another version, as long as some are `missing`: each of them
        receives from the others what it misses meanwhile. Empty if there is no other version.
        """
        if not self.is_new:
            return ()
        message = (
            f"the upgrade to MariaDB {self.entry.version} waits until all members serve; not ready:"
            f" {', '.join(missing)}. Repair them, or set the old version again"
        )
        return (Step(name="Version", barrier=True, verdict=waiting(message) if missing else READY),)

    def noted(self, server: Step) -> Step:
        """Return the step of the servers, whose StatefulSet notes with which version a single one was ready last."""
        if not self.served_version:
            return server
        note = {_SERVED: self.served_version}
        objects = (kube.annotated(obj, note) if obj["kind"] == "StatefulSet" else obj for obj in server.objects)
        return replace(server, objects=tuple(objects))

    def progress(self, replicas: int) -> Sequence[Step]:
        """Return the step that reports an upgrade that has begun; empty once it is done."""
        if replicas == 1 and major(self.served_version) < major(self.template_version) and not self.is_new:
            message = (
                f"the server upgrades its system tables from MariaDB {self.served_version}"
                f" to {self.template_version}, and accepts clients afterwards; see its log"
            )
            return (Step(name="Version", verdict=progressing(message)),)
        if self.is_new or not self.members:
            return ()
        count = replicas - len(self.members)
        rest = "; ".join(f"{name} {text}" for name, text in self.members.items())
        message = f"{count} of {replicas} members have MariaDB {self.entry.version}; {rest}"
        return (Step(name="Version", verdict=changing(message)),)


def version(ctx: Context[MariaDBSpec], cluster: parts.Cluster, reports: Mapping[str, Member]) -> Version:
    """Return the version of the spec. Raises SpecError for one that there is not, to which MariaDB has no way from the
    one that runs, or with which the data would not be complete.
    """
    spec = ctx.spec
    entry = ctx.release.in_version("mariadb", spec.version or "")
    label = kube.version_label(entry, kube.settings(spec)) or ""
    path = "spec.version" if spec.version else "spec.image" if spec.image else "spec.release"
    pods = [pod for pod in ctx.pods if pod["metadata"]["name"] in cluster.pod_names(spec.replicas)]
    running_version = template_version = kube.running_version(cluster.live)
    if not any(major(template_version) in {major(each.tables), major(each.version)} for each in reports.values()):
        # A version that no member has yet, such as one of an image that does not exist, can be taken back.
        running_version = kube.started_version(ctx, cluster.live)
    is_new = check_version(entry, running_version, label, path, _WAY_BACK)
    if is_new:
        _check_shutdown(spec.config)
    # The member without an image would never serve: it is replaced at once.
    is_new = is_new and running_version == template_version
    names = cluster.pod_names(spec.replicas) if spec.replicas > 1 else []
    members = _outdated(names, pods, reports, label) if major(label) else {}
    served_version = _served_version(cluster.live, label) if spec.replicas == 1 else ""
    return Version(entry, is_new, members, served_version, template_version)


def _served_version(live: Object | None, label: str) -> str:
    """Return the version with which a single server was ready last; that of the spec for one that was never made."""
    if live is None:
        return label
    noted = (live["metadata"].get("annotations") or {}).get(_SERVED, "")
    return kube.running_version(live) if kube.Rollout(live).is_complete or not noted else str(noted)


def _check_shutdown(config: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise SpecError if servers leave a part of what they end with to their next start: only the same version reads
    the logs of that.
    """
    for group, options in config.items():
        for name, value in options.items():
            if name.replace("-", "_") == "innodb_fast_shutdown" and str(value) not in {"0", "1"}:
                message = "a version change needs a clean shutdown; set 0 or 1, and change the version"
                raise SpecError(f"spec.config.{group}.{name}", f"{message} then")


def _outdated(
    names: Sequence[str], pods: Sequence[Object], reports: Mapping[str, Member], label: str
) -> dict[str, str]:
    """Return what keeps members from having a version, by pod: the program, or the system tables. While any has another
    version, one without a pod is being replaced.
    """
    outdated: dict[str, str] = {}
    versions = {pod["metadata"]["name"]: _label(pod) for pod in pods if not kube.lacks_image(pod)}
    for name in names:
        program, tables = versions.get(name, ""), reports[name].tables if name in reports else ""
        if major(program) and major(program) != major(label):
            outdated[name] = f"runs {program}"
        elif major(tables) and major(tables) != major(label):
            outdated[name] = f"has system tables of {tables}"
        elif name not in versions:
            outdated[name] = "is being replaced"
    return outdated if any(text != "is being replaced" for text in outdated.values()) else {}


def _label(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(kube.VERSION, ""))
