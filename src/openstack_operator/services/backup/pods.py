"""Jobs of backups and restores: programs in the image of a database's server, and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ... import agents, kube
from ...api import PodSettings
from ...plan import READY, Context, Object, ReleaseEntry, Step, digest, key
from .record import stamp
from .repository import REPOSITORY, mounts

RUN_FOLDER = "/etc/backup/run"
DATA_FOLDER = "/var/lib/mysql"
_MODULES = ("run",)
"""Modules that all programs import."""
_REPOSITORY_MODULES = (*_MODULES, "bucket", "repository")
"""Modules that programs of the repository import, those that others import first."""
_ARCHIVE_MODULES = ("sql", "sealed", "binlog", "objects", "chain")
_RESTORE_MODULES = (
    "schemas",
    "image_data",
    "allocation_rows",
    "ovn_rows",
    "rbd_stream",
    "rbd_connections",
    "rbd_rows",
)
_ALSO: Mapping[str, Sequence[str]] = {
    "contents": ("dual_stack",),
    "physical_backup": ("database",),
    "images": ("schemas", "image_data"),
    "images_restore": ("schemas", "image_data"),
    "pool": ("rbd_stream", "rbd_door"),
    "pool_restore": ("rbd_stream", "rbd_door"),
    "rbd": ("rbd_stream", "rbd_door"),
    "restore": _RESTORE_MODULES,
    "verify": ("dual_stack", "contents", *_RESTORE_MODULES, "restore", "sealed_rows"),
    "archive": (*_ARCHIVE_MODULES, "archive_status", "database", "dual_stack", "stream"),
    "retention": ("sealed", "binlog", "objects", "chain", "compaction"),
    "replay": (*_ARCHIVE_MODULES, *_RESTORE_MODULES, "restore"),
    "schema_restore": (*_ARCHIVE_MODULES, *_RESTORE_MODULES, "restore", "replay", "database"),
}
"""Further modules that a program imports."""
_MAIN = "main"
"""Name of the container whose message is the result."""
SCHEDULING = ("nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets")
"""Fields of a pod that say where it may run."""


def modules(program: str, *, uses_repository: bool = True) -> list[str]:
    """Return the files of a program, those that others import first."""
    shared = _REPOSITORY_MODULES if uses_repository else _MODULES
    return [f"backup/{module}.py" for module in (*shared, *_ALSO.get(program, ()), program)]


@dataclass(frozen=True, kw_only=True)
class Image:
    """The image of a database's server, and where its pods may run."""

    entry: ReleaseEntry
    scheduling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of a pod spec."""

    @classmethod
    def of(cls, pod_spec: Mapping[str, Any]) -> Image:
        """Return the image of the first container of a pod."""
        container: Object = pod_spec["containers"][0]
        security: Object = container.get("securityContext") or {}
        entry = ReleaseEntry(container["image"], security["runAsUser"], security["runAsGroup"])
        return cls(entry=entry, scheduling={name: pod_spec[name] for name in SCHEDULING if pod_spec.get(name)})

    def dump(self) -> dict[str, Any]:
        """Return JSON for `load`."""
        return {"image": self.entry.image, "uid": self.entry.uid, "gid": self.entry.gid, **self.scheduling}

    @classmethod
    def load(cls, values: Mapping[str, Any]) -> Image:
        """Return what `dump` returned. Raises KeyError for other values."""
        entry = ReleaseEntry(values["image"], values["uid"], values["gid"])
        return cls(entry=entry, scheduling={name: values[name] for name in SCHEDULING if values.get(name)})


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program in another image than that of the main one, without the repository unless it says so."""

    name: str
    entry: ReleaseEntry
    mounts: Sequence[kube.Mount] = ()
    uses_repository: bool = False
    login_secret: str = REPOSITORY
    """End of the name of the Secret with the login to the repository."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a program."""

    component: str
    program: str
    parameters: Mapping[str, Any]
    """Content of run.json."""
    image: Image
    settings: PodSettings = field(default_factory=PodSettings)
    mounts: Sequence[kube.Mount] = ()
    memory: str = "256Mi"
    ports: Mapping[str, int] | None = None
    before: Program | None = None
    """Program that runs first, in the same pod."""
    companion: Program | None = None
    """Program that runs at the same time, in the same pod, as the user of the main one."""
    uses_repository: bool = True
    login_secret: str = REPOSITORY
    """End of the name of the Secret with the login to the repository."""
    beside: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of a pod on whose node it runs; empty for any node."""
    deadline: int | None = None
    """Seconds after which Kubernetes ends it."""
    attempt: int = 0
    """Number of earlier runs whose result was lost."""

    @property
    def file(self) -> str:
        """Key of its parameters in the Secret of all runs."""
        return f"{self.component}.json"

    def job(self, ctx: Context[Any]) -> Object:
        """Return the Job `<owner>-<component>-<digest>`."""
        return kube.job(ctx, self.component, self._template(ctx), retries=3)

    def deployment(self, ctx: Context[Any]) -> Object:
        """Return Deployment `<owner>-<component>` of one pod, for a program that does not end."""
        template = self._template(ctx)
        strategy = {"strategy": {"type": "Recreate"}}
        return kube.workload(ctx, "Deployment", self.component, template, replicas=1, **strategy)

    def _template(self, ctx: Context[Any]) -> Object:
        main_program = Program(
            name=self.program,
            entry=self.image.entry,
            mounts=self.mounts,
            uses_repository=self.uses_repository,
            login_secret=self.login_secret,
        )
        main = self._container(ctx, main_program, ports=self.ports or {})
        init = [self._container(ctx, self.before, name=self.before.name)] if self.before else []
        companions = [self._container(ctx, self.companion, name=self.companion.name)] if self.companion else []
        notes = {kube.CONFIG_DIGEST: self._digest}
        template = kube.pod(
            ctx, self.component, main, *companions, settings=self.settings, init=init, annotations=notes, grace=10
        )
        template["metadata"]["labels"][kube.WATCHED] = "true"
        placed = {**self.image.scheduling, **({"affinity": _beside(self.beside)} if self.beside else {})}
        limits = {"activeDeadlineSeconds": self.deadline} if self.deadline else {}
        spec = {**template["spec"], **placed, **limits}
        return {**template, "spec": spec}

    def _container(self, ctx: Context[Any], program: Program, **fields: Any) -> kube.Container:
        cache = {"RESTIC_CACHE_DIR": "/tmp/cache"} if program.uses_repository else {}  # noqa: S108
        return kube.Container(
            entry=program.entry,
            command=agents.python(*modules(program.name, uses_repository=program.uses_repository)),
            env={"HOME": "/tmp", **cache},  # noqa: S108
            mounts=(
                *(mounts(ctx, program.login_secret) if program.uses_repository else ()),
                kube.folder("run", runs_secret(ctx), RUN_FOLDER, files={"run.json": self.file}),
                *kube.scratch("/tmp", large=True),  # noqa: S108
                *program.mounts,
            ),
            memory=self.memory,
            cpu="50m",
            **fields,
        )

    @property
    def _digest(self) -> str:
        return digest([self.parameters, self.attempt])

    def result(self, ctx: Context[Any]) -> Mapping[str, Any] | None:
        """Return the result of a pod of it that succeeded; None before."""
        return next((result for pod in ctx.pods if (result := self._result(pod))), None)

    def is_lost(self, ctx: Context[Any]) -> bool:
        """Return True if it has succeeded, and no pod tells its result."""
        live = ctx.children.get(key(self.job(ctx)))
        return live is not None and kube.has_succeeded(live) and self.result(ctx) is None

    def _result(self, pod: Object) -> Mapping[str, Any] | None:
        labels, notes = pod["metadata"].get("labels") or {}, pod["metadata"].get("annotations") or {}
        if (labels.get(kube.COMPONENT), notes.get(kube.CONFIG_DIGEST)) != (
            kube.fitting(self.component),
            self._digest,
        ):
            return None
        statuses: Sequence[Object] = pod["status"].get("containerStatuses") or ()
        for status in (each for each in statuses if each["name"] == _MAIN):
            ended = (status.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode") == 0:
                return _read(ended.get("message") or "")
        return None


def with_results(
    ctx: Context[Any], stored: Mapping[str, Any], runs: Mapping[str, Run], field: str = "databases"
) -> tuple[dict[str, Any], dict[str, Run]]:
    """Return the record with the results of all runs that have ended, in its `field`, and the runs that have not. One
    whose pod was gone before its result was read runs again.
    """
    earlier: Mapping[str, Any] = stored.get(field, {})
    attempts: dict[str, Any] = dict(stored.get("attempts", {}))
    results: dict[str, Any] = {}
    unfinished: dict[str, Run] = {}
    for name, run in runs.items():
        tried = replace(run, attempt=attempts.get(run.component, 0))
        if result := earlier.get(name) or tried.result(ctx):
            results[name] = dict(result)
        elif tried.is_lost(ctx):
            attempts[run.component] = tried.attempt + 1
            unfinished[name] = replace(run, attempt=tried.attempt + 1)
        else:
            unfinished[name] = tried
    return {"began": stamp(ctx.now), **stored, "attempts": attempts, field: results}, unfinished


def job_steps(
    ctx: Context[Any], label: str, runs: Mapping[str, Run], unfinished: Mapping[str, Run], after: Sequence[Step]
) -> list[Step]:
    """Return a step for each run; one that has ended is ready, without its job."""
    return [
        Step(
            name=f"{label} {name}",
            objects=(kube.reporting(unfinished[name].job(ctx)),) if name in unfinished else (),
            after=tuple(after),
            verdict=None if name in unfinished else READY,
        )
        for name in runs
    ]


def runs_secret(ctx: Context[Any]) -> str:
    """Return the name of the Secret with the parameters of all runs."""
    return ctx.name("runs")


def parameters(ctx: Context[Any], runs: Sequence[Run]) -> Step:
    """Return Secret `<owner>-runs`: the parameters of each run."""
    data = {run.file: json.dumps(run.parameters, sort_keys=True) for run in runs}
    return Step(name="Parameters", objects=(kube.secret(ctx, runs_secret(ctx), data),))


def _beside(labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the affinity to the node of a pod, whose volume one node alone can mount."""
    term = {
        "labelSelector": {"matchLabels": dict(labels)},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _read(text: str) -> Mapping[str, Any]:
    try:
        result: Any = json.loads(text)
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}
