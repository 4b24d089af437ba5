"""Memcached: servers that know nothing of each other; clients find each by its own name."""

from __future__ import annotations

from ... import kube, parts
from ...api import mebibytes
from ...plan import Context, Plan
from .clients import DEMANDS, client_certificate, progress, server_name, without_certificate
from .model import MemcachedSpec
from .providers import OPERATOR, delegated, external, provider

PORT, ENCRYPTED = 11211, 11212
TLS = "/etc/memcached/tls"
"""Folder of the certificate and its key."""

_RELOADS = f"""bash -c 'exec 3<>/dev/tcp/127.0.0.1/{PORT} && printf "refresh_certs\\r\\n" >&3 && \
read -rt 5 said <&3 && [[ $said == OK* ]]'"""
_FOLLOWS = parts.followed(TLS, _RELOADS) + 'exec "$@"\n'


def plan(ctx: Context[MemcachedSpec]) -> Plan:
    """Everything a Memcached is made of; published: servers (`host:port,host:port`), trustSecret (key `ca.crt`) where
    clients are to check their certificate: the ports speak TLS then; and clientSecret where they are to show one.
    """
    spec, service = ctx.spec, kube.fitting(ctx.owner)
    if (by := provider(ctx)) != parts.BUILTIN:
        return delegated(ctx) if by == OPERATOR else external(ctx)
    shown = parts.certified(
        ctx,
        service,
        workloads=[("StatefulSet", server_name(ctx))],
        # Each server is called by its own name.
        also=[f"*.{ctx.host(service)}"],
    )
    client = client_certificate(ctx)
    demands = shown.required and bool(client)
    waits = without_certificate(ctx, client.secret) if demands else []
    open_ = {
        **({} if shown.required else {"memcached": PORT}),
        **({"memcached-tls": ENCRYPTED} if shown else {}),
    }
    main = _server(ctx, shown, open_, demands=demands and not waits)
    template = kube.pod(ctx, "server", main, wanted=kube.settings(spec), grace=5)
    server = parts.members(
        ctx,
        "server",
        template,
        service=ctx.owner,
        ports=open_,
        replicas=spec.replicas,
        after=shown.steps,
    )
    port = ENCRYPTED if shown.published else PORT
    servers = ",".join(f"{host}:{port}" for host in server.hosts)
    shows = {parts.CACHE_CLIENT: client.secret} if shown.published and client else {}
    published = {"servers": servers, **shown.published, **shows}
    steps = (*shown.steps, *client.steps, *parts.policies(ctx), server, *((progress(ctx, waits),) if demands else ()))
    return Plan(*steps, endpoint=servers or None, published=published)


def _server(
    ctx: Context[MemcachedSpec], shown: parts.Certified, open_: dict[str, int], *, demands: bool
) -> kube.Container:
    spec, program = ctx.spec, ctx.release["memcached"]
    # From itself a server takes plain text in any case: that is how it is told of a new certificate.
    plain = "127.0.0.1" if shown.required else "0.0.0.0"  # noqa: S104
    listen = f"notls:{plain}:{PORT},0.0.0.0:{ENCRYPTED}" if shown else plain
    command = [
        *(word.format(listen=listen, port=PORT) for word in program.command),
        *("-m", str(mebibytes(spec.memory))),
        *("-c", str(spec.max_connections)),
    ]
    if shown:
        files = f"ssl_chain_cert={TLS}/tls.crt,ssl_key={TLS}/tls.key"
        files += f",ssl_ca_cert={TLS}/ca.crt,{DEMANDS}" if demands else ""
        command = ["sh", "-c", _FOLLOWS, "sh", *command, "-Z", "-o", files]
    # From itself it takes plain text in any case.
    alive = kube.Probe.of_connection(open_.get("memcached", 0), ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{PORT}"])
    return kube.Container(
        component=program,
        command=command,
        ports=open_,
        mounts=shown.mounts(TLS),
        ready=kube.Probe.of_worker(alive.command) if alive.command else alive,
        alive=alive,
        # Besides what it remembers: its threads, its hash table, and what some hundred connections take to encrypt.
        memory=f"{mebibytes(spec.memory) + (24 if shown else 16)}Mi",
        # Where its answer is late, Keystone is asked instead, which takes far more.
        cpu="20m",
    )
