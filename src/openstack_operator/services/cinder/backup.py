"""cinder-backup: reads volumes of every backend and copies them to other storage."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, oslo, parts
from ...api import Sections
from ...parts.connect.ceph import Ceph, ceph_client, on_ceph
from ...parts.run.devices import DEVICES, iscsid
from ...parts.run.files import volume_claim, volume_source
from ...plan import HOSTS, Context, SpecError, Step
from . import config, volume
from .backend_model import Backup
from .model import CinderSpec

FILES = "/var/lib/openstack-backup"
DEFAULTS: Sections = {
    # The scheduler treats it as down until it reports that it is up, and its first report comes before it is up.
    "DEFAULT": {"backup_driver_stats_polling_interval": 10, "periodic_interval": 10, "periodic_fuzzy_delay": 5}
}
CEPH = "/etc/ceph-backup"
"""Folder of the backups' ceph.conf: their cluster need not be that of the volumes."""

_DRIVERS = {
    "ceph": "cinder.backup.drivers.ceph.CephBackupDriver",
    # Kubernetes mounts the share, so that the program need not be root for that.
    "nfs": "cinder.backup.drivers.posix.PosixBackupDriver",
    "posix": "cinder.backup.drivers.posix.PosixBackupDriver",
    "s3": "cinder.backup.drivers.s3.S3BackupDriver",
    "swift": "cinder.backup.drivers.swift.SwiftBackupDriver",
}


def backup(
    ctx: Context[CinderSpec],
    common: Sections,
    backends: Sequence[volume.BackendPlan],
    sudo: parts.Config,
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> tuple[Step, ...]:
    """Return the steps of cinder-backup; none if the spec has no backup storage. All programs share `common`.

    Raise SpecError if several pods would share a volume that only one node can have.
    """
    spec = ctx.spec.backup
    if spec.type is None:
        return ()
    ceph = (
        ceph_client(ctx, "backups", spec.source, path="spec.backup.ceph", name="ceph-backup", folder=CEPH)
        if spec.source
        else None
    )
    trust = str(common["keystone_authtoken"].get("cafile", ""))
    rootless = {} if any(each.needs_root for each in backends) else config.ROOTLESS
    fixed_options = oslo.merge(common, rootless, {"DEFAULT": _driver(ctx, spec, ceph, trust)})
    options = parts.options(ctx, fixed_options, defaults=DEFAULTS)
    base = parts.written(ctx, {config.FILE: oslo.render(options)}, suffix="backup-config", directory=config.DIRECTORY)
    clients = [client for client in (*(each.ceph for each in backends), ceph) if client]
    conf = on_ceph(base, *clients) if clients else base
    storage, files = _storage(ctx, spec)
    steps = tuple(step for step in (ceph, storage, base, conf) if step)
    return (*steps, _pods(ctx, conf, backends, sudo, files, ready=ready, after=(*clients, *steps, *after)))


def _storage(ctx: Context[CinderSpec], spec: Backup) -> tuple[Step | None, Sequence[kube.Mount]]:
    """Return the step with the backups' volume, if they have one, and the mounts for them."""
    if spec.type == "nfs" and spec.share:
        server, _, path = spec.share.partition(":")
        return None, [kube.Mount(name="backups", path=FILES, volume={"nfs": {"server": server, "path": path}})]
    if spec.type == "posix":
        files = volume_claim(ctx, "backups", spec.files, "spec.backup.files")
        mount = kube.Mount(name="backups", path=FILES, volume=volume_source(files))
        return Step(name="BackupStorage", objects=(files,)), [mount]
    return None, []


def _pods(
    ctx: Context[CinderSpec],
    conf: parts.Config,
    backends: Sequence[volume.BackendPlan],
    sudo: parts.Config,
    files: Sequence[kube.Mount],
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> Step:
    """Return a step with pods of stable names, since each is a host in Cinder's list of services."""
    spec = ctx.spec.backup
    as_root, on_node = any(each.needs_root for each in backends), any(each.uses_node_devices for each in backends)
    main = kube.Container(
        entry=parts.release_entry(ctx, "backup"),
        env=volume.environment(),
        mounts=(
            *conf.mounts,
            *(() if as_root else (volume.sudo_mount(sudo),)),
            *(DEVICES if on_node else ()),
            *files,
            *kube.scratch("/tmp", "/run", parts.state(ctx), large=True),  # noqa: S108
        ),
        ready=ready,
        memory="256Mi",
        privileged=as_root,
    )
    size = kube.replicas(ctx.spec.replicas, spec)
    if size > 1 and spec.type == "posix" and spec.files.access_mode == "ReadWriteOnce":
        message = "several pods cannot share a ReadWriteOnce volume; use 1, or files.accessMode ReadWriteMany"
        raise SpecError("spec.backup.replicas", message)
    settings, target = kube.settings(ctx.spec, spec), kube.selector(ctx, "backup")
    template = kube.pod(
        ctx,
        "backup",
        main,
        *((iscsid(ctx),) if on_node else ()),
        settings=settings,
        annotations={kube.CONFIG_DIGEST: conf.digest},
        # A backup that is cut off has failed, and starts again from the beginning.
        grace=120,
        hostNetwork=on_node or None,
        securityContext={"fsGroup": main.entry.gid, "fsGroupChangePolicy": "OnRootMismatch"},
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
    return Step(name="Backup", objects=(pods, *budget), after=tuple(after) if as_root else (sudo, *after), turn=HOSTS)


def _driver(ctx: Context[CinderSpec], spec: Backup, ceph: Ceph | None, trust: str) -> dict[str, object]:
    """Return the options of [DEFAULT] that set the storage of backups."""
    assert spec.type is not None
    options: dict[str, object] = {"backup_driver": _DRIVERS[spec.type]}
    if ceph:
        options |= {"backup_ceph_conf": ceph.conf, "backup_ceph_user": ceph.id, "backup_ceph_pool": ceph.pool}
    if spec.type in ("nfs", "posix"):
        options["backup_posix_path"] = FILES
    if spec.type == "s3" and spec.s3:
        keys = {"access": spec.s3.access_key_ref, "secret": spec.s3.secret_key_ref}
        options |= {
            f"backup_s3_store_{name}_key": oslo.Verbatim(ctx.secrets[ref.name][ref.key]) for name, ref in keys.items()
        }
        options |= {"backup_s3_endpoint_url": spec.s3.endpoint, "backup_s3_store_bucket": spec.s3.bucket}
    if spec.type == "swift":
        options |= {"backup_swift_container": spec.swift.container, "backup_swift_auth": "per_user"}
        if spec.swift.url:
            options["backup_swift_url"] = spec.swift.url
        else:
            options["swift_catalog_info"] = "object-store:swift:internalURL"
            options |= {"backup_swift_ca_cert_file": trust} if trust else {}
    return options
