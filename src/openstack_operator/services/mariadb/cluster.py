"""Several servers that hold the same: what is known of them, what is written down, and who takes the clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from ... import kube, parts
from ...plan import Context, Object, State, Step, Verdict, progressing, recovering
from . import galera, roles
from .config import INCLUDED
from .model import MariaDBSpec
from .record import Kept, record

REPLICATION = {
    "replication": 4567,
    "increments": 4568,
    "snapshots": 4444,
    "facts": galera.PORT,
    "secure": galera.SECURE,
}
RECORD_DIGEST = "openstack.k8s.io/record-digest"
"""Annotation of members: a kubelet brings a changed Secret to a pod at once when the pod itself changes."""
_PROGRAM = "/opt/mariadb"
_MODULES = ("disk.py", "galera.py", "member.py", "wire.py")


@dataclass(frozen=True)
class Cluster:
    """What one pass knows of the members, and does about them."""

    record: Kept
    roles: Step
    target: Mapping[str, str]
    """Further labels of the pod that takes the clients."""
    verdict: Verdict | None
    told: Sequence[Mapping[str, str]]
    calm: bool
    """Every member serves."""


def cluster(ctx: Context[MariaDBSpec], shown: parts.Certified) -> Cluster:
    """What there is and should be of a cluster whose members show that certificate. Raises SpecError as `record`."""
    name = kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT)
    names = [f"{name}-{ordinal}" for ordinal in range(ctx.spec.replicas)]
    pods = [pod for pod in ctx.pods if pod["metadata"]["name"] in names]
    live = ctx.children.get(("StatefulSet", name))
    kept = record(ctx, names, roles.members(ctx.facts), live, shown)
    able = roles.ready(pods, ctx.facts)
    chosen = roles.primary(pods, able)
    told = roles.told(kept.members, pods, ctx.facts, chosen, able)
    labeled = tuple(_labeled(pod, chosen, kept) for pod in pods)
    nobody = None if able or not pods else recovering("no member can take clients")
    return Cluster(
        record=kept,
        roles=Step(name="Roles", objects=labeled, after=(kept,), verdict=nobody),
        target=_target(ctx, chosen),
        verdict=_verdict(kept, told, _scarce(ctx, names)) if pods else None,
        told=told,
        calm=len(able) == ctx.spec.replicas,
    )


def files() -> dict[str, str]:
    """The program of a member, which decides by the very module the operator judges by."""
    package = resources.files(__package__ or "")
    return {name: package.joinpath(name).read_text(encoding="utf-8") for name in _MODULES}


def container(ctx: Context[MariaDBSpec], alone: kube.Container, conf: parts.Config, kept: Kept) -> kube.Container:
    """A member, from the container of a single server."""
    known = {mount.name for mount in conf.mounts}
    mounts = [mount for mount in alone.mounts if mount.name not in known]
    return replace(
        alone,
        command=["tini", "--", "python3", "-B", "-m", "members.member", *alone.component.command],
        env={
            **alone.env,
            **parts.POD_NAME,
            "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
            "GALERA_NAME": ctx.host(kube.fitting(ctx.owner)),
            "GALERA_DOMAIN": ctx.host(kube.fitting(ctx.name("members"))),
            "GALERA_RECORD": INCLUDED,
            "PYTHONPATH": _PROGRAM,
            # A name that does not resolve is asked for again soon; nothing is gained by waiting for it.
            "RES_OPTIONS": "timeout:1 attempts:2",
        },
        ports={**alone.ports, **REPLICATION},
        mounts=(
            *mounts,
            *kube.files("config", conf.secret, conf.directory, *(file for file in conf.files if file not in _MODULES)),
            *kube.files("config", conf.secret, f"{_PROGRAM}/members", *_MODULES),
            kube.folder("record", kept.secret, INCLUDED),
        ),
        # The first copy of a large database takes as long as it takes.
        started=kube.Probe(http=("/alive", galera.PORT)),
        ready=kube.Probe(http=("/ready", galera.PORT), period=2, failures=2),
        alive=kube.Probe(http=("/alive", galera.PORT)),
        memory="224Mi",
        # Members that do not hear of each other in time lose their cluster, and after a power cut all others try again
        # and again until they serve: they come first.
        cpu="250m",
    )


def _labeled(pod: Object, chosen: str, kept: Kept) -> Object:
    role = roles.PRIMARY if pod["metadata"]["name"] == chosen else roles.BACKUP
    return kube.labeled_pod(pod, {roles.ROLE: role}, {RECORD_DIGEST: kept.digest})


def _target(ctx: Context[MariaDBSpec], chosen: str) -> dict[str, str]:
    """A single server that becomes the first member has no role yet, and must not lose its clients for it."""
    live = ctx.children.get(("Service", kube.fitting(ctx.owner)))
    settled = live is None or roles.ROLE in live["spec"]["selector"]
    return {roles.ROLE: roles.PRIMARY} if settled or chosen else {}


def _scarce(ctx: Context[MariaDBSpec], names: Sequence[str]) -> str:
    """What is to be said of members whose volumes fill up; empty where none do."""
    found = {name: roles.scarce(answer) for name in names if (answer := ctx.facts.get(name))}
    text = "; ".join(f"{name}: {words}" for name, words in found.items() if words)
    return f"spec.storageSize: enlarge it, or remove data. {text}" if text else ""


def _verdict(kept: Kept, told: Sequence[Mapping[str, str]], scarce: str) -> Verdict | None:
    """What goes on, as long as not every member serves; what is to come, where one has no room."""
    missing = [f"{entry['name']}: {entry['message']}" for entry in told if entry["message"]]
    if missing and kept.pending:
        missing = [f"{kept.known.force} is to start the cluster; what only the others hold is lost then", *missing]
    if not missing:
        return Verdict(State.READY, scarce) if scarce else None
    text = "; ".join([scarce, *missing] if scarce else missing)
    return progressing(text) if kept.known.seed else recovering(text)
