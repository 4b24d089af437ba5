"""cinder-backup: reads volumes of every backend and takes them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, oslo, parts
from ...api import Sections
from ...plan import Context, SpecError, Step
from . import config, volume
from .backend_model import Backup
from .model import CinderSpec

FILES = "/var/lib/openstack-backup"
DEFAULTS: Sections = {
    # The scheduler takes it for down until it says otherwise, and it says so for the first time before it is up.
    "DEFAULT": {"backup_driver_stats_polling_interval": 10, "periodic_interval": 10, "periodic_fuzzy_delay": 5}
}
CEPH = "/etc/ceph-backup"
"""Where ceph.conf of the backups lies: their cluster need not be that of the volumes."""

_DRIVERS = {
    "ceph": "cinder.backup.drivers.ceph.CephBackupDriver",
    # Kubernetes mounts the share, so that the program need not be root to.
    "nfs": "cinder.backup.drivers.posix.PosixBackupDriver",
    "posix": "cinder.backup.drivers.posix.PosixBackupDriver",
    "s3": "cinder.backup.drivers.s3.S3BackupDriver",
    "swift": "cinder.backup.drivers.swift.SwiftBackupDriver",
}


def backup(
    ctx: Context[CinderSpec],
    common: Sections,
    backends: Sequence[volume.Built],
    sudo: parts.Config,
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> tuple[Step, ...]:
    """What takes backups; nothing where nobody says where to. `common` is what all programs share.

    Raises SpecError where several pods would share a volume that only one node can have.
    """
    wanted = ctx.spec.backup
    if wanted.type is None:
        return ()
    ceph = (
        parts.ceph(ctx, "backups", wanted.source, path="spec.backup.ceph", name="ceph-backup", folder=CEPH)
        if wanted.source
        else None
    )
    trust = str(common["keystone_authtoken"].get("cafile", ""))
    rootless = {} if any(built.as_root for built in backends) else config.ROOTLESS
    wired = oslo.merge(common, rootless, {"DEFAULT": _driver(ctx, wanted, ceph, trust)})
    options = parts.options(ctx, wired, defaults=DEFAULTS)
    own = parts.written(ctx, {config.FILE: oslo.render(options)}, suffix="backup-config", directory=config.DIRECTORY)
    clients = [client for client in (*(built.ceph for built in backends), ceph) if client]
    conf = parts.on_ceph(own, *clients) if clients else own
    storage, files = _storage(ctx, wanted)
    steps = tuple(step for step in (ceph, storage, own, conf) if step)
    return (*steps, _pods(ctx, conf, backends, sudo, files, ready=ready, after=(*clients, *steps, *after)))


def _storage(ctx: Context[CinderSpec], wanted: Backup) -> tuple[Step | None, Sequence[kube.Mount]]:
    """What is made for the backups, and what Kubernetes mounts for them."""
    if wanted.type == "nfs" and wanted.share:
        server, _, path = wanted.share.partition(":")
        return None, [kube.Mount(name="backups", path=FILES, volume={"nfs": {"server": server, "path": path}})]
    if wanted.type == "posix":
        claim = parts.claim(ctx, "backups", wanted.files, "spec.backup.files")
        mount = kube.Mount(name="backups", path=FILES, volume=parts.claimed(claim))
        return Step(name="BackupStorage", objects=(claim,)), [mount]
    return None, []


def _pods(
    ctx: Context[CinderSpec],
    conf: parts.Config,
    backends: Sequence[volume.Built],
    sudo: parts.Config,
    files: Sequence[kube.Mount],
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> Step:
    """Pods with stable names, since each is a host in Cinder's list of services."""
    wanted = ctx.spec.backup
    as_root, on_node = any(each.as_root for each in backends), any(each.on_node for each in backends)
    main = kube.Container(
        component=parts.program(ctx, "backup"),
        env=volume.environment(),
        mounts=(
            *conf.mounts,
            *(() if as_root else (volume.instead_of_sudo(sudo),)),
            *(parts.DEVICES if on_node else ()),
            *files,
            *kube.scratch("/tmp", "/run", parts.state(ctx), large=True),  # noqa: S108
        ),
        ready=ready,
        memory="256Mi",
        privileged=as_root,
    )
    size = kube.replicas(ctx.spec.replicas, wanted)
    if size > 1 and wanted.type == "posix" and wanted.files.access_mode == "ReadWriteOnce":
        message = (
            "pods on several nodes cannot share a ReadWriteOnce volume; use one, or files.accessMode ReadWriteMany"
        )
        raise SpecError("spec.backup.replicas", message)
    settings, target = kube.settings(ctx.spec, wanted), kube.selector(ctx, "backup")
    template = kube.pod(
        ctx,
        "backup",
        main,
        *((parts.iscsid(ctx),) if on_node else ()),
        wanted=settings,
        annotations={kube.CONFIG_DIGEST: conf.digest},
        # A backup that is cut off has failed, and is made again from the beginning.
        grace=120,
        hostNetwork=on_node or None,
        securityContext={"fsGroup": main.component.gid, "fsGroupChangePolicy": "OnRootMismatch"},
    )
    pods = kube.workload(
        ctx,
        "StatefulSet",
        "backup",
        kube.placed(template, settings, target, several=size > 1, replaceable=False),
        replicas=size,
        serviceName=ctx.name("backup"),
        podManagementPolicy="Parallel",
    )
    budget = (kube.disruption_budget(ctx, ctx.name("backup"), target),) if size > 1 else ()
    return Step(name="Backup", objects=(pods, *budget), after=tuple(after) if as_root else (sudo, *after))


def _driver(ctx: Context[CinderSpec], wanted: Backup, ceph: parts.Ceph | None, trust: str) -> dict[str, object]:
    """The options of [DEFAULT] that say where backups go."""
    assert wanted.type is not None
    found: dict[str, object] = {"backup_driver": _DRIVERS[wanted.type]}
    if ceph:
        found |= {"backup_ceph_conf": ceph.conf, "backup_ceph_user": ceph.id, "backup_ceph_pool": ceph.pool}
    if wanted.type in ("nfs", "posix"):
        found["backup_posix_path"] = FILES
    if wanted.type == "s3" and wanted.s3:
        keys = {"access": wanted.s3.access_key_ref, "secret": wanted.s3.secret_key_ref}
        found |= {f"backup_s3_store_{name}_key": ctx.secrets[ref.name][ref.key] for name, ref in keys.items()}
        found |= {"backup_s3_endpoint_url": wanted.s3.endpoint, "backup_s3_store_bucket": wanted.s3.bucket}
    if wanted.type == "swift":
        found |= {"backup_swift_container": wanted.swift.container, "backup_swift_auth": "per_user"}
        if wanted.swift.url:
            found["backup_swift_url"] = wanted.swift.url
        else:
            found["swift_catalog_info"] = "object-store:swift:internalURL"
            found |= {"backup_swift_ca_cert_file": trust} if trust else {}
    return found
