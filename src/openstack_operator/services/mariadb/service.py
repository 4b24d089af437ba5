"""MariaDB: one server on a volume; everything else in the cloud can be made again, this cannot."""

from __future__ import annotations

from ... import kube, parts
from ...plan import Context, NotBuilt, Plan, Step
from .config import PORT, my_cnf
from .model import MariaDBSpec

SECRET_DIRECTORY = "/etc/mysql/credentials"  # noqa: S105  (a path)


def plan(ctx: Context[MariaDBSpec]) -> Plan:
    """Everything a MariaDB is made of; published: host, port, adminSecret (key `root`)."""
    spec = ctx.spec
    if spec.replicas != 1:
        raise NotBuilt("spec.replicas", f"a cluster of {spec.replicas} members is not built yet; use 1")
    # The password of a data directory is set when it is made.
    creds = parts.credentials(ctx, "root", retain=spec.retention == "Retain")
    conf = parts.written(ctx, {"99-openstack.cnf": my_cnf(spec.config)}, directory="/etc/mysql/mariadb.conf.d")
    server = _server(ctx, creds, conf)
    name = kube.fitting(ctx.owner)
    address = kube.service(ctx, name, {"mysql": PORT}, kube.selector(ctx, "server"))
    return Plan(
        creds,
        conf,
        server,
        Step(name="Endpoint", objects=(address,)),
        endpoint=f"{ctx.host(name)}:{PORT}",
        published={"host": ctx.host(name), "port": str(PORT), "adminSecret": creds.secret},
    )


def _server(ctx: Context[MariaDBSpec], creds: parts.Credentials, conf: parts.Config) -> parts.Members:
    """StatefulSet `<owner>-server`."""
    program = ctx.release["mariadb"]
    main = kube.Container(
        component=program,
        # One malloc arena instead of eight a core halves its memory.
        env={"MARIADB_ROOT_PASSWORD_FILE": f"{SECRET_DIRECTORY}/root", "MALLOC_ARENA_MAX": "2"},
        ports={"mysql": PORT},
        mounts=(
            parts.volume("/var/lib/mysql", "mysql"),
            *conf.mounts,
            kube.folder("credentials", creds.secret, SECRET_DIRECTORY),
            *kube.scratch("/run/mysqld", "/tmp"),  # noqa: S108
        ),
        ready=kube.Probe(command=program.commands["ready"]),
        # A connection is accepted by the kernel even while every thread is busy.
        alive=kube.Probe(tcp=PORT),
        memory="192Mi",
        cpu="50m",
    )
    template = kube.pod(
        ctx,
        "server",
        main,
        wanted=kube.settings(ctx.spec),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        # It writes what it holds in memory before it ends; killed, it would have to recover.
        grace=120,
    )
    return parts.members(
        ctx,
        "server",
        template,
        service=ctx.name("members"),
        ports={"mysql": PORT},
        replicas=ctx.spec.replicas,
        storage=ctx.spec,
        after=(creds, conf),
    )
