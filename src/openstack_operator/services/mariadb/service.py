"""MariaDB: one server on a volume, or a cluster; all else in the cloud can be made again, its data cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ... import agents, kube, parts
from ...parts.members import volume
from ...plan import Context, Group, Plan, Step, UnsupportedError
from . import exporter, roles
from .backup_account import PROGRAMS, BackupAccount, backup_account
from .binary_log import ANNOTATION, binary_log
from .config import PORT, TLS, TLS_ONLY, TLS_OR_PLAIN, my_cnf, pool_size
from .galera import REPLICATION, Galera, container, files, observed
from .model import MariaDBSpec
from .providers import provided
from .version import Version, version

SECRET_DIRECTORY = "/etc/mysql/credentials"  # noqa: S105  (a path)
_DATA = "/var/lib/mysql"
_UPGRADE_MARK = "/run/mysqld/upgrading"
"""File that is there while a single server of a new version has system tables of an older one."""
_READY = f'[ ! -e {_UPGRADE_MARK} ] && exec "$@"'


def plan(ctx: Context[MariaDBSpec]) -> Plan:
    """Return everything that a MariaDB consists of; published: host, port, adminSecret (key `root`), backupSecret (keys
    `user` and `password`), and trustSecret (key `ca.crt`) if clients are to check its certificate.
    """
    if plan_of_provider := provided(ctx):
        return plan_of_provider
    is_cluster = ctx.spec.replicas > 1
    _refuse_unsupported(ctx.spec)
    # MariaDB sets the password when it makes the data directory.
    creds = parts.credentials(ctx, "root", retain=ctx.spec.retention == "Retain", of_data=True)
    cluster = parts.cluster(ctx)
    certificate = parts.certified(ctx, ctx.name(), workloads=[cluster.key], members=cluster.service, calls=is_cluster)
    account = backup_account(ctx, certificate)
    desired_version = version(ctx, cluster, roles.members(ctx.facts) if is_cluster else {})
    galera = observed(ctx, cluster, certificate, is_upgrading=desired_version.is_changing) if is_cluster else None
    conf = _config(ctx, certificate, galera)
    server = _server(ctx, cluster, creds, account, conf, galera, certificate, desired_version)
    endpoint = cluster.endpoint(
        {"mysql": PORT},
        labels=galera.primary_labels if galera else {},
        extra_objects=exporter.monitors(ctx, certificate),
    )
    return Plan(
        *_policies(ctx),
        Group("Credentials", [creds, account.credentials]),
        *certificate.steps,
        conf,
        *(_cluster_steps(galera, desired_version, server) if galera else [server]),
        endpoint,
        *desired_version.progress(ctx.spec.replicas),
        endpoint=f"{cluster.host}:{PORT}",
        published={
            "host": cluster.host,
            "port": str(PORT),
            "adminSecret": creds.secret,
            **account.published,
            **certificate.published,
        },
        members=galera.member_status if galera else (),
        wake=ctx.now + timedelta(seconds=5 if galera.all_serving else 1) if galera else None,
    )


def _refuse_unsupported(spec: MariaDBSpec) -> None:
    if spec.replicas > 1 and spec.image_profile == "kolla":
        raise UnsupportedError("spec.replicas", f"kolla images do not support {spec.replicas} members; use 1")


def _policies(ctx: Context[MariaDBSpec]) -> Sequence[Step]:
    if ctx.spec.replicas == 1:
        return parts.policies(ctx)
    return parts.policies(ctx, parts.IngressRule("server", [*REPLICATION.values()], "members"))


def _config(ctx: Context[MariaDBSpec], certificate: parts.Certified, galera: Galera | None) -> parts.Config:
    """Return the server's options, and beside them the program of a member of a cluster."""
    peer_tls = ""
    if galera and certificate.calls:
        # While they roll for the first time, members with and without a certificate are one cluster.
        peer_tls = TLS_ONLY if galera.record.content.encrypted else TLS_OR_PLAIN
    options = my_cnf(
        ctx.spec.config,
        clustered=galera is not None,
        encrypted=bool(certificate),
        required=certificate.required,
        peer_tls=peer_tls,
        binary_log=binary_log(ctx),
    )
    program = files() if galera else {}
    return parts.written(ctx, {"99-openstack.cnf": options, **program}, directory="/etc/mysql/mariadb.conf.d")


def _cluster_steps(galera: Galera, desired_version: Version, server: Step) -> Sequence[Step]:
    """Return the steps of a cluster: what members read, what holds an upgrade back, the members, and their roles."""
    upgrade_gate = desired_version.gate(galera.missing)
    gated_server = replace(server, after=(*server.after, *upgrade_gate))
    return [galera.record, *upgrade_gate, gated_server, galera.roles]


def _server(
    ctx: Context[MariaDBSpec],
    cluster: parts.Cluster,
    creds: parts.Credentials,
    account: BackupAccount,
    conf: parts.Config,
    galera: Galera | None,
    certificate: parts.Certified,
    desired_version: Version,
) -> Step:
    """Return StatefulSet `<owner>-server`."""
    entry = desired_version.entry
    main = kube.Container(
        entry=entry,
        # One malloc arena instead of eight a core halves its memory.
        env={"MARIADB_ROOT_PASSWORD_FILE": f"{SECRET_DIRECTORY}/root", "MALLOC_ARENA_MAX": "2"},
        ports={"mysql": PORT},
        mounts=(
            volume(_DATA, "mysql"),
            *conf.mounts,
            kube.folder("credentials", creds.secret, SECRET_DIRECTORY),
            account.mount,
            *certificate.mounts(TLS),
            *kube.scratch("/run/mysqld", "/tmp", large=True),  # noqa: S108
        ),
        ready=kube.Probe(command=["sh", "-c", _READY, "ready", *entry.commands["ready"]]),
        # A connection is accepted by the kernel even while every thread is busy.
        alive=kube.Probe(tcp=PORT),
        memory="192Mi",
        peak=kube.peak(pool_size(ctx.spec.config), 1.2),
        cpu="100m",
    )
    main = container(cluster, main, conf, galera.record) if galera else main
    main = _with_programs(main, ctx, account, certificate, is_single=galera is None)
    sidecars = [exporter.exporter(ctx, certificate)] if exporter.has_exporter(ctx) else []
    # It writes what it holds in memory before it ends; killed, it would have to recover.
    template = cluster.template(
        main,
        *sidecars,
        config=conf,
        annotations={ANNOTATION: "true"} if binary_log(ctx) else {},
        grace=120,
        watched=galera is not None,
    )
    server = cluster.step(
        template,
        ports={"mysql": PORT, **(REPLICATION if galera else {})},
        replicas=len(galera.record.members) if galera else 1,
        after=(creds, account.credentials, conf, *certificate.steps, *((galera.record,) if galera else ())),
    )
    return replace(server, verdict=galera.verdict) if galera else desired_version.noted(server)


def _with_programs(
    main: kube.Container,
    ctx: Context[MariaDBSpec],
    account: BackupAccount,
    certificate: parts.Certified,
    *,
    is_single: bool,
) -> kube.Container:
    """Return the container of a server with what it does besides."""
    programs = [*PROGRAMS]
    env: dict[str, Any] = account.env
    if is_single:
        # A member of a cluster does that itself.
        programs.append("mariadb/upgrade_tables.sh")
        env |= {"DATA_FOLDER": _DATA, "UPGRADE_MARK": _UPGRADE_MARK}
    if exporter.has_exporter(ctx):
        programs.append("mariadb/metrics_account.sh")
        env |= {"METRICS_USER": exporter.ACCOUNT}
    if certificate:
        programs += ["tls/reload_on_change.sh", "mariadb/start.sh"]
        env |= {"TLS_FOLDER": TLS}
    else:
        programs.append("mariadb/run.sh")
    # `::` would be IPv6 alone.
    family = ["--bind-address=*"] if ctx.is_ipv6 and is_single else []
    command = agents.shell(*programs, words=[*(main.command or main.entry.command), *family], options="-c")
    return replace(main, command=command, env={**main.env, **env})
