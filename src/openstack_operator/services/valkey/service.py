"""Valkey: servers on a volume each, and a sentinel beside each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ... import kube, parts
from ...plan import Context, Plan, Step
from . import sentinel
from .config import PORT, STATE, valkey_conf
from .model import ValkeySpec


def plan(ctx: Context[ValkeySpec]) -> Plan:
    """Everything a Valkey is made of; published: host, port, adminSecret (key `password`), sentinels (`host:port,…`,
    empty without them; the set they watch over is called `mymaster`). With sentinels, host is any of the servers.
    """
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    watched = spec.sentinel.enabled
    hosts = parts.hosts(ctx, "server", ctx.name("members"), spec.replicas)
    # Sentinels remember it on their volumes.
    creds = parts.credentials(ctx, "password", retain=spec.retention == "Retain")
    text = valkey_conf(spec.config, creds["password"], spec.memory_mb, sentinels=watched)
    conf = parts.written(ctx, {"valkey.conf": text}, directory="/etc/valkey")
    ports = {"valkey": PORT, **({"sentinel": sentinel.SENTINEL} if watched else {})}
    address = kube.service(ctx, name, ports, kube.selector(ctx, "server"))
    host = ctx.host(name)
    return Plan(
        creds,
        conf,
        _server(ctx, creds, conf, hosts, ports),
        Step(name="Endpoint", objects=(address,)),
        endpoint=f"{host}:{sentinel.SENTINEL if watched else PORT}",
        published={
            "host": host,
            "port": str(PORT),
            "adminSecret": creds.secret,
            "sentinels": ",".join(f"{member}:{sentinel.SENTINEL}" for member in hosts) if watched else "",
        },
    )


def _server(
    ctx: Context[ValkeySpec],
    creds: parts.Credentials,
    conf: parts.Config,
    hosts: Sequence[str],
    ports: dict[str, int],
) -> parts.Members:
    """StatefulSet `<owner>-server`."""
    own = (parts.volume(STATE, "valkey"), kube.folder("credentials", creds.secret, "/etc/valkey/secret"))
    template = kube.pod(
        ctx,
        "server",
        *_containers(ctx, own, conf.mounts, hosts),
        wanted=kube.settings(ctx.spec),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        grace=30,
    )
    return parts.members(
        ctx,
        "server",
        template,
        service=ctx.name("members"),
        ports=ports,
        replicas=len(hosts),
        storage=ctx.spec,
        after=(creds, conf),
    )


def _containers(
    ctx: Context[ValkeySpec], own: Sequence[kube.Mount], conf: Sequence[kube.Mount], hosts: Sequence[str]
) -> Sequence[kube.Container]:
    """The server, and the sentinel beside it where there are several."""
    program, watcher = ctx.release["valkey"], ctx.release["valkey-sentinel"]
    server = kube.Container(
        component=program,
        command=["sh", "-c", sentinel.ALONE, "sh", *program.command],
        ports={"valkey": PORT},
        mounts=(*own, *conf, *kube.scratch("/run", "/tmp")),  # noqa: S108
        ready=kube.Probe(command=["sh", "-c", sentinel.READY], period=5),
        alive=kube.Probe(tcp=PORT),
        # Besides what it holds: its tables, and what clients wait for.
        memory=f"{ctx.spec.memory_mb + 16}Mi",
        cpu="20m",
    )
    if len(hosts) == 1:
        return (server,)
    env = {
        **parts.POD_NAME,
        "HOST": f"$(POD_NAME).{ctx.host(kube.fitting(ctx.name('members')))}",
        "VALKEY_HOSTS": " ".join(hosts),
        "VALKEY_QUORUM": str(len(hosts) // 2 + 1),
    }
    watched = replace(
        server,
        command=["sh", "-c", sentinel.SERVER, "sh", *program.command],
        env=env,
        lifecycle={"preStop": {"exec": {"command": ["sh", "-c", sentinel.STOP]}}},
    )
    beside = kube.Container(
        component=watcher,
        name="sentinel",
        command=["sh", "-c", sentinel.WATCH, "sh", *watcher.command],
        env=env,
        ports={"sentinel": sentinel.SENTINEL},
        mounts=(*own, *kube.scratch("/tmp")),  # noqa: S108
        ready=kube.Probe(tcp=sentinel.SENTINEL),
        alive=kube.Probe(tcp=sentinel.SENTINEL),
        memory="16Mi",
    )
    return (watched, beside)
