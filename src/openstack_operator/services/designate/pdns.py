"""PowerDNS: servers that have all zones in a schema of MariaDB, and add and remove zones by an API over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ... import agents, kube, parts
from ...parts.connect.coordinates import schema_of
from ...parts.connect.sources import Database, database, sql_name
from ...parts.expose.front import Front, front
from ...parts.secrets.tls import TRUSTED
from ...plan import Context, Object, Step
from . import config
from .config import SERVER_PORT, ServerPool, Tsig
from .model import DesignateSpec
from .servers import Addresses, Backend, service

COMPONENT = "pdns"
API = "api"
"""The key of its API."""
PASSWORD = "pdns-database"  # noqa: S105
API_PORT = 8081

_FOLDER = "/etc/pdns"
TRUST = "/etc/designate-"
"""Begin of the folders with authorities of APIs."""
_RUN = "/run/pdns"


def keys(pool: ServerPool) -> Sequence[str]:
    """Return the names of the keys of its servers."""
    return (pool.prefixed(API), pool.transfer)


def passwords(spec: DesignateSpec, pool: ServerPool) -> Sequence[str]:
    """Return the names of the passwords of its accounts."""
    return () if spec.database.secret_ref else (pool.prefixed(PASSWORD),)


def services(ctx: Context[DesignateSpec], pool: ServerPool) -> Sequence[Object]:
    """Return one Service for all servers: what one of them writes to the database, all answer with."""
    component = pool.prefixed(COMPONENT)
    return [service(ctx, ctx.name(component), kube.selector(ctx, component), SERVER_PORT, further={API: API_PORT})]


def backend(
    ctx: Context[DesignateSpec],
    pool: ServerPool,
    base: parts.Foundation,
    credentials: parts.Credentials,
    tsig: Tsig,
    addresses: Addresses,
) -> Backend:
    """Return Deployment `<owner>-pdns` with its schema and configuration."""
    component, token = pool.prefixed(COMPONENT), credentials[pool.prefixed(API)]
    own_schema = schema_of(ctx, ctx.spec.database, sql_name(ctx.owner))
    db = database(
        ctx,
        base.credentials,
        pool.prefixed(PASSWORD),
        sql_name(f"{own_schema}_{component}"),
        source=ctx.spec.database,
        name=f"{component}-db",
    )
    schema = _schema(ctx, component, tsig, db, after=(credentials, db))
    tls = front(ctx, component, API_PORT, parts.release_entry(ctx, COMPONENT), lifecycle=_ENDS_LATER)
    files = {"pdns.conf": _pdns_conf(db, token, tls.listens), "my.cnf": _my_cnf(db)}
    conf = parts.written(ctx, files, suffix=f"{component}-config", directory=_FOLDER)
    after = (credentials, db, *schema, *tls.certificate.pending)
    servers = _servers(ctx, pool, conf, tls, after=after)
    trust, folder = tls.certificate.published.get(TRUSTED), f"{TRUST}{component}"
    verifies: dict[str, Any] = {"api_ca_cert": f"{folder}/ca.crt"} if trust else {}
    hosts = addresses.servers.get(pool.name, ())
    return Backend(
        component=component,
        control=API_PORT,
        steps=(db, *schema, *tls.certificate.steps, conf, servers),
        servers=config.endpoints(hosts, SERVER_PORT),
        targets=[
            config.target(
                "pdns4",
                "PowerDNS",
                addresses.masters,
                address,
                api_endpoint=f"{tls.scheme}://{ctx.host(ctx.name(component))}:{API_PORT}",
                api_token=token,
                tsigkey_name=tsig.name,
                **verifies,
            )
            for address in hosts
        ],
        prerequisites=(servers,),
        authorities={folder: trust} if trust else {},
    )


def _schema(
    ctx: Context[DesignateSpec], component: str, tsig: Tsig, db: Database, *, after: Sequence[Step]
) -> tuple[Step, ...]:
    """Return the job that loads the schema, and the key of transfers into it, again with another key."""
    # A key of base64 has no quotes.
    values = f"('{tsig.name}', '{tsig.algorithm}', '{tsig.secret}')"
    text = f"REPLACE INTO tsigkeys (name, algorithm, secret) VALUES {values};\n"  # noqa: S608
    files = {"my.cnf": _my_cnf(db), "transfer.sql": text}
    conf = parts.written(ctx, files, suffix=f"{component}-schema", directory=_FOLDER)
    job = parts.job(
        ctx,
        f"{component}-schema",
        agents.shell("designate/load_schema.sh", options="-ec"),
        conf,
        after=after,
        condition="ServerSchema",
        program=parts.ProgramSettings(release_component=COMPONENT, env={"TRANSFER_DIGEST": kube.digest(text)}),
    )
    return conf, job


# Until no node sends it new questions, and it has answered the last ones.
_ENDS_LATER = {"preStop": {"sleep": {"seconds": 3}}}


def _servers(
    ctx: Context[DesignateSpec], pool: ServerPool, conf: parts.Config, tls: Front, *, after: Sequence[Step]
) -> Step:
    component, settings = pool.prefixed(COMPONENT), pool.spec.pdns4.settings
    pod_settings, replicas = kube.settings(ctx.spec, settings), kube.replicas(ctx.spec.replicas, settings)
    target = kube.selector(ctx, component)
    main = kube.Container(
        entry=parts.release_entry(ctx, COMPONENT),
        # libmariadb reads my.cnf there.
        env={"MARIADB_HOME": _FOLDER},
        ports={"dns": SERVER_PORT, **({} if tls else {API: API_PORT})},
        mounts=(*conf.mounts, *kube.scratch(_RUN, "/tmp")),  # noqa: S108
        ready=kube.Probe(tcp=SERVER_PORT),
        alive=kube.Probe(tcp=SERVER_PORT),
        lifecycle=_ENDS_LATER,
        memory="64Mi",
    )
    template = kube.pod(
        ctx, component, main, *tls.containers, settings=pod_settings, annotations={kube.CONFIG_DIGEST: conf.digest}
    )
    pods = kube.workload(
        ctx,
        "Deployment",
        component,
        kube.placed(template, pod_settings, target, several=replicas > 1, replaceable=True),
        replicas=replicas,
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
    )
    budget = kube.disruption_budget(ctx, ctx.name(component), target)
    return Step(name="Servers", objects=(pods, budget, *tls.watched), after=(conf, *after))


def _my_cnf(db: Database) -> str:
    """Return the file with which clients of MariaDB find the schema of that URL, and verify the server."""
    at, (trust,) = urlsplit(db.url), parse_qs(urlsplit(db.url).query).get("ssl_ca", [""])
    tls = [f"ssl-ca={trust}", "ssl-verify-server-cert"] if trust else ["ssl-verify-server-cert=0"]
    password = unquote(at.password or "").replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        f"host={at.hostname}",
        f"port={at.port}",
        f"user={unquote(at.username or '')}",
        f'password="{password}"',
        *tls,
    ]
    # PowerDNS reads the first group, and has the schema in its own file.
    return "\n".join(["[client]", *lines, "[mariadb-client]", f"database={at.path[1:]}", ""])


def _pdns_conf(db: Database, token: str, listens: str) -> str:
    """Return pdns.conf: servers that only answer for the zones that their API adds, and transfer them by a signed
    request. The API is at the address `listens`. The password is in my.cnf alone, whose quotes take every character.
    """
    at = urlsplit(db.url)
    return f"""\
launch=gmysql
# It ends without the database, and is back a second later.
guardian=yes
gmysql-host={at.hostname}
gmysql-port={at.port}
gmysql-user={unquote(at.username or "")}
gmysql-dbname={at.path[1:]}
gmysql-group=client
local-address=0.0.0.0, ::
local-port={SERVER_PORT}
secondary=yes
# Workers send it, which have no fixed address and sign nothing. It only makes the server ask mdns, with its key.
allow-notify-from=0.0.0.0/0, ::/0
trusted-notification-proxy=0.0.0.0/0, ::/0
# Seconds between looks at zones whose transfer failed; a zone's own are minutes.
xfr-cycle-interval=5
disable-axfr=yes
# Another server may have written a zone or a record: none is remembered for longer than a second.
cache-ttl=1
query-cache-ttl=1
negquery-cache-ttl=1
zone-cache-refresh-interval=0
api=yes
api-key={token}
webserver-address={listens}
webserver-port={API_PORT}
webserver-allow-from=0.0.0.0/0, ::/0
webserver-loglevel=none
socket-dir={_RUN}
version-string=anonymous
security-poll-suffix=
disable-syslog=yes
log-timestamp=no
"""
