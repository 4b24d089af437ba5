"""PowerDNS: servers that have all zones in a schema of MariaDB, and add and remove zones by an API over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, unquote, urlsplit

from ... import agents, kube, parts
from ...parts.coordinates import schema_of
from ...parts.front import Front, front
from ...parts.sources import Database, database, sql_name
from ...parts.tls import TRUSTED
from ...plan import Context, Object, Step
from . import config
from .config import ALGORITHM, SERVER_PORT, TRANSFER
from .model import DesignateSpec
from .servers import Addresses, Backend, service

COMPONENT = "pdns"
API = "api"
"""The key of its API."""
KEYS = (API, TRANSFER)
PASSWORD = "pdns-database"  # noqa: S105
API_PORT = 8081

_FOLDER = "/etc/pdns"
_TRUST = "/etc/designate-pdns"
_RUN = "/run/pdns"


def passwords(spec: DesignateSpec) -> Sequence[str]:
    """Return the names of the passwords of its accounts."""
    return () if spec.database.secret_ref else (PASSWORD,)


def services(ctx: Context[DesignateSpec]) -> Sequence[Object]:
    """Return one Service for all servers: what one of them writes to the database, all answer with."""
    target = kube.selector(ctx, COMPONENT)
    return [service(ctx, ctx.name(COMPONENT), target, SERVER_PORT, further={API: API_PORT})]


def backend(
    ctx: Context[DesignateSpec], base: parts.Foundation, keys: parts.Credentials, addresses: Addresses
) -> Backend:
    """Return Deployment `<owner>-pdns` with its schema and configuration."""
    schema_name = sql_name(f"{schema_of(ctx, ctx.spec.database, sql_name(ctx.owner))}_{COMPONENT}")
    db = database(ctx, base.credentials, PASSWORD, schema_name, source=ctx.spec.database, name=f"{COMPONENT}-db")
    schema = _schema(ctx, keys, db)
    component = parts.program(ctx, COMPONENT)
    tls = front(ctx, COMPONENT, API_PORT, component, lifecycle=_ENDS_LATER)
    files = {"pdns.conf": _pdns_conf(db, keys, tls.listens), "my.cnf": _my_cnf(db)}
    conf = parts.written(ctx, files, suffix="pdns-config", directory=_FOLDER)
    servers = _servers(ctx, conf, tls, after=(keys, db, *schema, *tls.certificate.pending))
    trust = tls.certificate.published.get(TRUSTED)
    verifies = {"api_ca_cert": f"{_TRUST}/ca.crt"} if trust else {}
    return Backend(
        component=COMPONENT,
        control=API_PORT,
        steps=(db, *schema, *tls.certificate.steps, conf, servers),
        targets=[
            config.target(
                "pdns4",
                "PowerDNS",
                addresses.mdns,
                address,
                api_endpoint=f"{tls.scheme}://{ctx.host(ctx.name(COMPONENT))}:{API_PORT}",
                api_token=keys[API],
                tsigkey_name=TRANSFER,
                **verifies,
            )
            for address in addresses.servers
        ],
        needs=(servers,),
        trust=[kube.folder("pdns-trust", trust, _TRUST, files={"ca.crt": "ca.crt"})] if trust else (),
        # Designate's driver gives its authorities to the request that creates a zone only.
        env={"REQUESTS_CA_BUNDLE": f"{_TRUST}/ca.crt"} if trust else {},
    )


def _schema(ctx: Context[DesignateSpec], keys: parts.Credentials, db: Database) -> tuple[Step, ...]:
    """Return the job that loads the schema, and the key of transfers into it, again with another key."""
    # A key of base64 has no quotes.
    values = f"('{TRANSFER}', '{ALGORITHM}', '{config.secret(keys[TRANSFER])}')"
    text = f"REPLACE INTO tsigkeys (name, algorithm, secret) VALUES {values};\n"  # noqa: S608
    files = {"my.cnf": _my_cnf(db), "transfer.sql": text}
    conf = parts.written(ctx, files, suffix="pdns-schema", directory=_FOLDER)
    job = parts.job(
        ctx,
        "pdns-schema",
        agents.shell("designate/load_schema.sh", options="-ec"),
        conf,
        after=(keys, db),
        condition="ServerSchema",
        program=parts.Program(release_component=COMPONENT, env={"TRANSFER_DIGEST": kube.digest(text)}),
    )
    return conf, job


# Until no node sends it new questions, and it has answered the last ones.
_ENDS_LATER = {"preStop": {"sleep": {"seconds": 3}}}


def _servers(ctx: Context[DesignateSpec], conf: parts.Config, tls: Front, *, after: Sequence[Step]) -> Step:
    settings = ctx.spec.pdns4.component
    pod_settings, replicas = kube.settings(ctx.spec, settings), kube.replicas(ctx.spec.replicas, settings)
    target = kube.selector(ctx, COMPONENT)
    main = kube.Container(
        component=parts.program(ctx, COMPONENT),
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
        ctx, COMPONENT, main, *tls.containers, settings=pod_settings, annotations={kube.CONFIG_DIGEST: conf.digest}
    )
    pods = kube.workload(
        ctx,
        "Deployment",
        COMPONENT,
        kube.placed(template, pod_settings, target, several=replicas > 1, replaceable=True),
        replicas=replicas,
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
    )
    budget = kube.disruption_budget(ctx, ctx.name(COMPONENT), target)
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


def _pdns_conf(db: Database, keys: parts.Credentials, listens: str) -> str:
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
api-key={keys[API]}
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
