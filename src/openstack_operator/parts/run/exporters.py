"""Containers that serve metrics of the server beside them, and pods that serve those of the programs of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import agents, kube, pki
from ...api import PodSettings
from ...plan import Context, Object, ReleaseEntry, Step
from ..expose.monitoring import METRICS, monitor, monitored
from ..expose.policies import IngressRule, ingress_policies
from ..secrets.authorities import own_authority
from ..secrets.tls import Certified

SERVER = ("metrics/connections.py", "metrics/answers.py", "metrics/serve.py")
"""Modules of each exporter, before its own ones."""
_UPSTREAM_MEMORY = 24
"""MiB of another project's exporter, which runs in the same container."""
_TLS = "/etc/exporter/tls"


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """A program that serves metrics of a server."""

    entry: ReleaseEntry
    """Image and user."""
    port: int
    modules: Sequence[str] = ()
    """Its modules after those of `SERVER`."""
    words: Sequence[str] = ()
    """Its arguments."""
    env: Mapping[str, str]
    mounts: Sequence[kube.Mount] = ()
    memory: int = 24
    """MiB that it takes."""
    root: bool = False

    def container(self, settings: PodSettings, tls_folder: str = "", *, name: str = "exporter") -> kube.Container:
        """Return its container; TLS if there is a folder of a certificate.

        It has no probe: a container that is not ready, or starts again and again, makes its pod not ready, and so the
        member of the server that works. Prometheus notices that the metrics are gone.
        """
        return kube.Container(
            entry=self.entry,
            name=name,
            command=agents.python(*SERVER, *self.modules, words=self.words),
            env={**self.env, "METRICS_PORT": str(self.port), **({"TLS_FOLDER": tls_folder} if tls_folder else {})},
            ports={METRICS: self.port},
            mounts=self.mounts,
            memory=f"{self.memory}Mi",
            root=self.root,
            settings=settings,
        )


def beside(ctx: Context[Any], exporter: Exporter, certificate: Certified, tls_folder: str) -> kube.Container:
    """Return the container of an exporter beside a server, whose certificate it shows. Image and resources of the spec
    are those of the server.
    """
    exporter = replace(exporter, mounts=(*exporter.mounts, *certificate.mounts(tls_folder)))
    settings = kube.settings(ctx.spec.model_copy(update={"image": None, "resources": None}))
    return exporter.container(settings, tls_folder if certificate else "")


def upstream(
    entry: ReleaseEntry, port: int, command: Sequence[str], env: Mapping[str, str], *mounts: kube.Mount
) -> Exporter:
    """Return a program that runs another one's exporter by a command and serves its metrics, without the other paths
    of the exporter. That one listens at the next port of the pod's own address.
    """
    return Exporter(
        entry=entry,
        port=port,
        modules=("metrics/upstream.py",),
        words=command,
        # The exporter collects garbage before it needs more, and uses one thread.
        env={"UPSTREAM_PORT": str(port + 1), "GOMEMLIMIT": f"{_UPSTREAM_MEMORY}MiB", "GOMAXPROCS": "1", **env},
        mounts=mounts,
        memory=24 + _UPSTREAM_MEMORY,
    )


def on_nodes(
    ctx: Context[Any],
    component: str,
    exporter: Exporter,
    *,
    settings: PodSettings,
    node_selector: Mapping[str, str],
    field: str,
    encrypted: bool,
) -> list[Step]:
    """Return the steps of DaemonSet `<owner>-<component>`, which serves metrics of the programs of each node, with what
    a Prometheus needs; none if metrics are off.

    Its pods have the network of pods, whose policies protect them, and to turn it on restarts no program of a node. A
    certificate is by an authority that serves nothing else: nodes have no certificate of the cloud's PKI.
    """
    if not monitored(ctx):
        return []
    steps, certificate = _certificate(ctx, component) if encrypted else ((), Certified())
    exporter = replace(exporter, mounts=(*exporter.mounts, *certificate.mounts(_TLS)))
    container = exporter.container(settings, _TLS if certificate else "", name="main")
    template = kube.pod(ctx, component, container, settings=settings, node_selector=node_selector)
    # Its resource is ready without it.
    daemons = kube.annotated(kube.agents(ctx, component, template, field), {kube.BESIDE: "true"})
    ingress = ingress_policies(ctx, IngressRule(component, [exporter.port], "monitoring"))
    labels = kube.selector(ctx, component)
    monitors = monitor(ctx, ctx.name(component), labels, METRICS, certificate, ctx.name(component), by_node=True)
    return [*steps, Step(name="Metrics", objects=(daemons, *ingress, *monitors), after=steps)]


def _certificate(ctx: Context[Any], component: str) -> tuple[tuple[Step, ...], Certified]:
    """Return Secret `<owner>-<component>-tls`, and the steps that make it."""
    authority = own_authority(ctx, "metrics", "metrics of nodes")
    stored = ctx.secret(f"{component}-tls")
    pair = pki.Pair(stored["tls.key"], stored["tls.crt"]) if {"tls.key", "tls.crt"} <= stored.keys() else None
    request = pki.Request(common="metrics", names=frozenset({ctx.host(ctx.name(component))}))
    new_pair = pki.certificate(pair, request, authority.signer, ctx.draw, ctx.now)
    files = {"ca.crt": authority.bundle, "tls.crt": new_pair.cert, "tls.key": new_pair.key}
    secret: Object = kube.secret(ctx, ctx.name(f"{component}-tls"), files)
    wake = pki.change(new_pair, ctx.now)
    step = Step(name="Metrics", objects=(secret,), after=(authority.step,), guarded=True, wake=wake)
    return (authority.step, step), Certified(secret=secret["metadata"]["name"])
