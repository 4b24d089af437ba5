"""Valkey: servers on a volume each, and a sentinel beside each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import kube, parts
from ...api import mebibytes
from ...plan import Context, Plan, Step
from . import sentinel
from .config import ENCRYPTED, PORT, STATE, TLS, encrypted, valkey_conf
from .model import ValkeySpec
from .providers import OPERATOR, delegated, external, provider


@dataclass(frozen=True)
class Ways:
    """How servers and sentinels take clients and each other."""

    shown: parts.Certified
    among: str
    """As `parts.among` says."""
    watched: bool

    def options(self, port: int) -> dict[str, Any]:
        """Of a server, or of a sentinel, that takes TLS on a port."""
        return encrypted(port, self.among) if self.shown else {}

    def _open(self, name: str, plain: int, port: int) -> dict[str, int]:
        both = {} if self.among == "only" else {name: plain}
        return {**both, **({f"{name}-tls": port} if self.shown else {})}

    @property
    def served(self) -> dict[str, int]:
        """Ports of a server."""
        return self._open("valkey", PORT, ENCRYPTED)

    @property
    def asked(self) -> dict[str, int]:
        """Ports of a sentinel."""
        return self._open("sentinel", sentinel.SENTINEL, sentinel.ENCRYPTED)

    @property
    def ports(self) -> dict[str, int]:
        return {**self.served, **(self.asked if self.watched else {})}

    @property
    def sentinel_conf(self) -> str:
        """Lines of sentinel.conf that are not the sentinel's own to change."""
        lines = {"port": sentinel.SENTINEL, **self.options(sentinel.ENCRYPTED)}
        return "".join(f"{name} {value}\n" for name, value in lines.items())


def plan(ctx: Context[ValkeySpec]) -> Plan:
    """Everything a Valkey is made of; published: host, port, adminSecret (key `password`), sentinels (`host:port,…`,
    empty without them; the set they watch over is called `mymaster`), and trustSecret (key `ca.crt`) where clients are
    to check certificates: the ports speak TLS then. With sentinels, host is any of the servers.
    """
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    if (by := provider(ctx)) != parts.BUILTIN:
        return delegated(ctx) if by == OPERATOR else external(ctx)
    watched = spec.sentinel.enabled
    hosts = parts.hosts(ctx, "server", ctx.name("members"), spec.replicas)
    # Sentinels remember it on their volumes.
    creds = parts.credentials(ctx, "password", retain=spec.retention == "Retain")
    server = ("StatefulSet", kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT))
    # Who asks sentinels is given the name of a server.
    members = f"*.{ctx.host(kube.fitting(ctx.name('members')))}"
    shown = parts.certified(ctx, name, workloads=[server], also=[members])
    ways = Ways(shown, parts.among(ctx, shown, server, closes=shown.required), watched)
    text = valkey_conf(spec.config, creds["password"], spec.memory, sentinels=watched, tls=ways.options(ENCRYPTED))
    conf = parts.written(ctx, {"valkey.conf": text}, directory="/etc/valkey")
    address = kube.service(ctx, name, ways.ports, kube.selector(ctx, "server"))
    told = bool(shown.published)
    port, asked = (ENCRYPTED, sentinel.ENCRYPTED) if told else (PORT, sentinel.SENTINEL)
    host = ctx.host(name)
    return Plan(
        # No service of the cloud uses it: it is for others.
        *parts.policies(ctx, parts.Way("server", [*ways.ports.values()], "namespace")),
        creds,
        *shown.steps,
        conf,
        _server(ctx, creds, conf, hosts, ways),
        Step(name="Endpoint", objects=(address,)),
        endpoint=f"{host}:{asked if watched else port}",
        published={
            "host": host,
            "port": str(port),
            "adminSecret": creds.secret,
            "sentinels": ",".join(f"{member}:{asked}" for member in hosts) if watched else "",
            **shown.published,
        },
    )


def _server(
    ctx: Context[ValkeySpec],
    creds: parts.Credentials,
    conf: parts.Config,
    hosts: Sequence[str],
    ways: Ways,
) -> parts.Members:
    """StatefulSet `<owner>-server`."""
    own = (
        parts.volume(STATE, "valkey"),
        kube.folder("credentials", creds.secret, "/etc/valkey/secret"),
        *ways.shown.mounts(TLS),
    )
    template = kube.pod(
        ctx,
        "server",
        *_containers(ctx, own, conf.mounts, hosts, ways),
        wanted=kube.settings(ctx.spec),
        annotations={kube.CONFIG_DIGEST: conf.digest, **({parts.AMONG: ways.among} if ways.among else {})},
        grace=30,
    )
    return parts.members(
        ctx,
        "server",
        template,
        service=ctx.name("members"),
        ports=ways.ports,
        replicas=len(hosts),
        storage=ctx.spec,
        after=(creds, *ways.shown.steps, conf),
    )


def _containers(
    ctx: Context[ValkeySpec], own: Sequence[kube.Mount], conf: Sequence[kube.Mount], hosts: Sequence[str], ways: Ways
) -> Sequence[kube.Container]:
    """The server, and the sentinel beside it where there are several."""
    follows = parts.followed(TLS, sentinel.RELOADS) if ways.shown else ""
    spoken = sentinel.AMONG if ways.among else {}
    program, watcher = ctx.release["valkey"], ctx.release["valkey-sentinel"]
    server = kube.Container(
        component=program,
        command=["sh", "-c", follows + sentinel.ALONE, "sh", *program.command],
        env=spoken,
        ports=ways.served,
        mounts=(*own, *conf, *kube.scratch("/run", "/tmp")),  # noqa: S108
        ready=kube.Probe(command=["sh", "-c", sentinel.READY], period=5),
        alive=kube.Probe.of_connection(ways.served.get("valkey", 0), program.commands["alive"]),
        # Besides what it holds: its tables, and what clients wait for.
        memory=f"{mebibytes(ctx.spec.memory) + 16}Mi",
        cpu="20m",
    )
    if len(hosts) == 1:
        return (server,)
    env = {
        **parts.POD_NAME,
        **spoken,
        "HOST": f"$(POD_NAME).{ctx.host(kube.fitting(ctx.name('members')))}",
        "VALKEY_HOSTS": " ".join(hosts),
        "VALKEY_QUORUM": str(len(hosts) // 2 + 1),
    }
    watched = replace(
        server,
        command=["sh", "-c", follows + sentinel.SERVER, "sh", *program.command],
        env=env,
        lifecycle={"preStop": {"exec": {"command": ["sh", "-c", sentinel.STOP]}}},
    )
    alive = kube.Probe.of_connection(ways.asked.get("sentinel", 0), watcher.commands["alive"])
    beside = kube.Container(
        component=watcher,
        name="sentinel",
        command=["sh", "-c", sentinel.WATCH, "sh", *watcher.command],
        env={**env, "SENTINEL_CONF": ways.sentinel_conf},
        ports=ways.asked,
        mounts=(*own, *kube.scratch("/tmp")),  # noqa: S108
        ready=kube.Probe.of_worker(alive.command) if alive.command else alive,
        alive=alive,
        memory="16Mi",
    )
    return (watched, beside)
