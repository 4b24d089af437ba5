"""MariaDB: one server on a volume, or a cluster; all else in the cloud can be made again, its data cannot."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ... import agents, kube, parts
from ...parts.members import volume
from ...plan import Context, Plan, Step, UnsupportedError
from . import exporter, roles
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
    """Return everything that a MariaDB consists of; published: host, port, adminSecret (key `root`), and trustSecret
    (key `ca.crt`) if clients are to check its certificate.
    """
    spec = ctx.spec
    if plan_of_provider := provided(ctx):
        return plan_of_provider
    is_cluster = spec.replicas > 1
    if is_cluster and spec.image_profile == "kolla":
        raise UnsupportedError(
            "spec.replicas", f"a cluster of {spec.replicas} members is not supported for kolla yet; use 1"
        )
    # MariaDB sets the password when it makes the data directory.
    creds = parts.credentials(ctx, "root", retain=spec.retention == "Retain", of_data=True)
    cluster = parts.cluster(ctx)
    certificate = parts.certified(ctx, ctx.name(), workloads=[cluster.key], members=cluster.service, calls=is_cluster)
    target = version(ctx, cluster, roles.members(ctx.facts) if is_cluster else {})
    members = observed(ctx, cluster, certificate, is_upgrading=target.is_changing) if is_cluster else None
    gate = target.gate(members.missing) if members else None
    peer_tls = ""
    if members and certificate.calls:
        # While they roll for the first time, members with and without a certificate are one cluster.
        peer_tls = TLS_ONLY if members.record.content.encrypted else TLS_OR_PLAIN
    text = my_cnf(
        spec.config, clustered=is_cluster, encrypted=bool(certificate), required=certificate.required, peer_tls=peer_tls
    )
    cnf = {"99-openstack.cnf": text}
    conf = parts.written(ctx, {**cnf, **files()} if is_cluster else cnf, directory="/etc/mysql/mariadb.conf.d")
    server = _server(ctx, cluster, creds, conf, members, certificate, target)
    if gate:
        server = replace(server, after=(*server.after, gate))
    endpoint = cluster.endpoint(
        {"mysql": PORT},
        labels=members.primary_labels if members else {},
        extra_objects=exporter.monitors(ctx, certificate),
    )
    clustered = (members.record, *([gate] if gate else []), server, members.roles) if members else (server,)
    upgrade = target.step(spec.replicas)
    return Plan(
        *parts.policies(
            ctx, *([parts.IngressRule("server", [*REPLICATION.values()], "members")] if is_cluster else [])
        ),
        creds,
        *certificate.steps,
        conf,
        *clustered,
        endpoint,
        *([upgrade] if upgrade else []),
        endpoint=f"{cluster.host}:{PORT}",
        published={
            "host": cluster.host,
            "port": str(PORT),
            "adminSecret": creds.secret,
            **certificate.published,
        },
        members=members.member_status if members else (),
        wake=ctx.now + timedelta(seconds=5 if members.all_serving else 1) if members else None,
    )


def _server(
    ctx: Context[MariaDBSpec],
    cluster: parts.Cluster,
    creds: parts.Credentials,
    conf: parts.Config,
    members: Galera | None,
    certificate: parts.Certified,
    target: Version,
) -> Step:
    """Return StatefulSet `<owner>-server`."""
    entry = target.entry
    main = kube.Container(
        entry=entry,
        # One malloc arena instead of eight a core halves its memory.
        env={"MARIADB_ROOT_PASSWORD_FILE": f"{SECRET_DIRECTORY}/root", "MALLOC_ARENA_MAX": "2"},
        ports={"mysql": PORT},
        mounts=(
            volume(_DATA, "mysql"),
            *conf.mounts,
            kube.folder("credentials", creds.secret, SECRET_DIRECTORY),
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
    main = container(cluster, main, conf, members.record) if members else main
    main = _with_programs(main, ctx, certificate, is_single=members is None)
    sidecars = [exporter.exporter(ctx, certificate)] if exporter.has_exporter(ctx) else []
    # It writes what it holds in memory before it ends; killed, it would have to recover.
    template = cluster.template(main, *sidecars, config=conf, grace=120, watched=members is not None)
    server = cluster.step(
        template,
        ports={"mysql": PORT, **(REPLICATION if members else {})},
        replicas=len(members.record.members) if members else 1,
        after=(creds, conf, *certificate.steps, *((members.record,) if members else ())),
    )
    return replace(server, verdict=members.verdict) if members else target.noted(server)


def _with_programs(
    main: kube.Container, ctx: Context[MariaDBSpec], certificate: parts.Certified, *, is_single: bool
) -> kube.Container:
    """Return the container of a server with what it does besides."""
    programs: list[str] = []
    env: dict[str, str] = {}
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
    elif programs:
        programs.append("mariadb/run.sh")
    if not programs:
        return main
    # `::` would be IPv6 alone.
    family = ["--bind-address=*"] if ctx.is_ipv6 and is_single else []
    command = agents.shell(*programs, words=[*(main.command or main.entry.command), *family], options="-c")
    return replace(main, command=command, env={**main.env, **env})
