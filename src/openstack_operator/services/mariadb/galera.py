"""A Galera cluster: the status of its members, its record, and the member that takes the clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ... import agents, kube, parts
from ...agents.mariadb import galera, role
from ...parts.members import POD_NAME
from ...plan import Context, Object, State, Step, Verdict, progressing, recovering
from . import roles
from .config import RECORD_DIRECTORY
from .lasting_state import ClusterRecord, cluster_record
from .model import MariaDBSpec

REPLICATION = {
    "replication": 4567,
    "increments": 4568,
    "snapshots": 4444,
    "facts": galera.PORT,
    "secure": galera.TLS_PORT,
}
RECORD_DIGEST = "openstack.k8s.io/record-digest"
"""Annotation of members: a kubelet brings a changed Secret to a pod at once when the pod itself changes."""
POD_ANNOTATIONS = (RECORD_DIGEST, roles.TERM)
"""Annotations that a plan may give to members; a policy refuses others."""
_PROGRAM = "/opt/mariadb"
_MODULES = ("disk.py", "fence.py", "galera.py", "member.py", "role.py", "sql.py", "tables.py", "wire.py")
_ROLE_DIRECTORY = "/etc/mysql/role"


@dataclass(frozen=True)
class Galera:
    """Members as one pass observes them, and what it does about them."""

    record: ClusterRecord
    roles: Step
    primary_labels: Mapping[str, str]
    """Further labels of the pod that takes the clients."""
    verdict: Verdict | None
    member_status: Sequence[Mapping[str, str]]
    missing: Sequence[str]
    """Names of the members that do not serve."""
    all_serving: bool
    """True if every member serves."""


def observed(
    ctx: Context[MariaDBSpec], cluster: parts.Cluster, certificate: parts.Certified, *, is_upgrading: bool
) -> Galera:
    """Return state and objects of a cluster whose members show `certificate`. Raises SpecError as `cluster_record`."""
    names = cluster.pod_names(ctx.spec.replicas)
    pods = [pod for pod in ctx.pods if pod["metadata"]["name"] in names]
    record = cluster_record(ctx, cluster, roles.members(ctx.facts), certificate, may_grow=not is_upgrading)
    ready = roles.ready_members(pods, ctx.facts)
    primary = roles.primary(pods, ready)
    member_status = roles.member_status(record.members, pods, ctx.facts, primary, ready)
    terms = roles.terms(pods, primary)
    labeled_pods = tuple(_with_role(pod, primary, terms, record) for pod in pods)
    verdict = None if ready or not pods else recovering("no member can take clients")
    return Galera(
        record=record,
        roles=Step(name="Roles", objects=labeled_pods, after=(record,), verdict=verdict),
        primary_labels=_primary_labels(ctx, primary),
        verdict=_verdict(record, member_status, _volume_warning(ctx, names)) if pods else None,
        member_status=member_status,
        missing=[name for name in record.members if name not in ready],
        all_serving=len(ready) == ctx.spec.replicas,
    )


def files() -> dict[str, str]:
    """Return the files of a member's program, which decides by the very module by which the operator judges."""
    return {name: agents.text(f"mariadb/{name}") for name in _MODULES}


def container(
    cluster: parts.Cluster, single: kube.Container, conf: parts.Config, record: ClusterRecord
) -> kube.Container:
    """Return the container of a member, made from that of a single server."""
    config_mounts = {mount.name for mount in conf.mounts}
    mounts = [mount for mount in single.mounts if mount.name not in config_mounts]
    return replace(
        single,
        command=["tini", "--", "python3", "-B", "-m", "members.member", *single.entry.command],
        env={
            **single.env,
            **POD_NAME,
            "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
            "GALERA_NAME": cluster.host,
            "GALERA_DOMAIN": cluster.domain,
            "GALERA_RECORD": RECORD_DIRECTORY,
            "GALERA_ROLE": _ROLE_DIRECTORY,
            "PYTHONPATH": _PROGRAM,
            # A member asks again soon for a name that does not resolve; waiting for it gains nothing.
            "RES_OPTIONS": "timeout:1 attempts:2",
        },
        ports={**single.ports, **REPLICATION},
        mounts=(
            *mounts,
            *kube.files("config", conf.secret, conf.directory, *(file for file in conf.files if file not in _MODULES)),
            *kube.files("config", conf.secret, f"{_PROGRAM}/members", *_MODULES),
            kube.folder("record", record.secret, RECORD_DIRECTORY),
            _role_file(),
        ),
        started=kube.Probe(http=("/alive", galera.PORT)),  # The first copy of a large database takes its time.
        ready=kube.Probe(http=("/ready", galera.PORT), period=2, failures=2),
        alive=kube.Probe(http=("/alive", galera.PORT)),
        memory="224Mi",
        # Members that hear each other late lose their cluster; after a power cut all others retry until members serve.
        cpu="250m",
    )


def _role_file() -> kube.Mount:
    """Return the folder of the files with a member's role and its term. The role is the very label by which the Service
    finds the primary: no other record of it could go ahead, and have members end the clients of the one that the
    Service leads to.
    """
    paths = {role.FILE: f"metadata.labels['{roles.ROLE}']", role.TERM: f"metadata.annotations['{roles.TERM}']"}
    items = [{"path": name, "fieldRef": {"fieldPath": path}} for name, path in paths.items()]
    volume = {"downwardAPI": {"items": items}}
    return kube.Mount(name="role", path=_ROLE_DIRECTORY, volume=volume, read_only=True)


def _with_role(pod: Object, primary: str, terms: Mapping[str, str], record: ClusterRecord) -> Object:
    name = pod["metadata"]["name"]
    value = role.PRIMARY if name == primary else role.BACKUP
    term = {roles.TERM: terms[name]} if name in terms else {}
    return kube.labeled_pod(pod, {roles.ROLE: value}, {RECORD_DIGEST: record.digest, **term})


def _primary_labels(ctx: Context[MariaDBSpec], primary: str) -> dict[str, str]:
    """Return labels of the primary; none while a single server has no role yet, since it would lose its clients."""
    live = ctx.live("Service")
    selects_by_role = live is None or roles.ROLE in live["spec"]["selector"]
    return {roles.ROLE: role.PRIMARY} if selects_by_role or primary else {}


def _volume_warning(ctx: Context[MariaDBSpec], names: Sequence[str]) -> str:
    """Return a warning about members whose volumes fill up; empty if there are none."""
    warnings = {name: roles.volume_warning(answer) for name in names if (answer := ctx.facts.get(name))}
    text = "; ".join(f"{name}: {warning}" for name, warning in warnings.items() if warning)
    return f"spec.storageSize: enlarge the volume, or delete data. {text}" if text else ""


def _verdict(record: ClusterRecord, member_status: Sequence[Mapping[str, str]], warning: str) -> Verdict | None:
    """Return what keeps members from serving, or else a warning about full volumes; None without either."""
    missing = [f"{entry['name']}: {entry['message']}" for entry in member_status if entry["message"]]
    if missing and record.has_pending_order:
        missing = [
            f"{record.content.force} is to start the cluster; data that only other members have are lost",
            *missing,
        ]
    if not missing:
        return Verdict(State.READY, warning) if warning else None
    text = "; ".join([warning, *missing] if warning else missing)
    return progressing(text) if record.content.seed else recovering(text)
