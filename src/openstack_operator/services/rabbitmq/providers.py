"""A RabbitMQ that the cluster operator of RabbitMQ runs, or that is not looked after here."""

from __future__ import annotations

from typing import Any

from ... import kube, parts
from ...plan import Context, Plan, Step
from .config import ADVANCED, AMQP, AMQPS, MANAGEMENT, MANAGEMENT_TLS, provided_conf
from .model import RabbitMQSpec

API, THEIRS = "rabbitmq.com/v1beta1", "RabbitmqCluster.rabbitmq.com"
OPERATOR = "rabbitmq-cluster-operator"
_TOPOLOGY = {f"{kind}.rabbitmq.com" for kind in ("Vhost", "User", "Permission", "Policy")}
_LEGACY = "rabbitmq.com/legacy-startup-probe"
"""Annotation: servers that start are not asked by HTTP for what RabbitMQ knows since 4.1 only. Without it 2.22 kills an
older one every five minutes."""


def provider(ctx: Context[RabbitMQSpec]) -> str:
    """Who runs it. Raises SpecError where that was somebody else before."""
    return parts.provider(
        ctx,
        OPERATOR,
        THEIRS,
        builtin=("Secret", kube.fitting(ctx.name("credentials"))) in ctx.children,
        rabbitmq_cluster_operator=(THEIRS, kube.fitting(ctx.owner)) in ctx.children,
        external=("Secret", kube.fitting(ctx.name("admin"))) in ctx.children,
    )


def ordered(spec: RabbitMQSpec) -> bool:
    """Whether deletion has to wait for it: the cluster operator makes a cluster anew that goes while it still looks at
    it, unless that stays until all that belongs to it is gone.
    """
    return spec.provider in {OPERATOR, parts.AUTO}


def delegated(ctx: Context[RabbitMQSpec]) -> Plan:
    """RabbitmqCluster; published as of a builtin one, and its name where the messaging topology operator makes virtual
    hosts and users. That one cannot check a certificate of ours: with TLS our actuators make them.
    """
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    shown = parts.certified(ctx, name, workloads=[(THEIRS, name)], members=f"{name}-nodes")
    wanted = parts.served_by(ctx, "RabbitmqCluster", name, API, _spec(ctx, shown))
    server = Step(name="Server", objects=(kube.annotated(wanted, {_LEGACY: "true"}),), after=shown.steps)
    host = ctx.host(name)
    port = AMQPS if shown.published else AMQP
    # It tells of itself in any case.
    tells = {"app.kubernetes.io/name": name}
    watched = parts.monitor(ctx, ctx.name("server"), tells, "prometheus-tls" if shown else "prometheus", shown, name)
    ctx.installed_kinds.check_permitted(f"spec.provider {OPERATOR}", *_TOPOLOGY)
    topology = not spec.tls and not ctx.installed_kinds.missing(*_TOPOLOGY)
    return Plan(
        *shown.steps,
        server,
        *([Step(name="Endpoint", objects=watched)] if watched else []),
        endpoint=f"{host}:{port}",
        published={
            "host": host,
            "port": str(port),
            "managementURL": f"https://{host}:{MANAGEMENT_TLS}" if shown.published else f"http://{host}:{MANAGEMENT}",
            "adminSecret": f"{name}-default-user",
            **({"clustered": "true"} if spec.replicas > 1 else {}),
            **({parts.RABBITMQ: name} if topology else {}),
            **shown.published,
        },
    )


def _spec(ctx: Context[RabbitMQSpec], shown: parts.Certified) -> dict[str, Any]:
    spec, several = ctx.spec, ctx.spec.replicas > 1
    pods = {"app.kubernetes.io/name": kube.fitting(ctx.owner)}
    placed = parts.placed_by_others(ctx, pods, several=several)
    own = {name: placed.pop(name, None) for name in ("affinity", "tolerations")}
    rabbitmq = {"additionalConfig": provided_conf(spec.config, spec.replicas)}
    return {
        "replicas": spec.replicas,
        "image": parts.image(ctx, "rabbitmq"),
        "persistence": {"storage": spec.storage_size, "storageClassName": spec.storage_class_name},
        "resources": parts.sized(ctx, cpu="100m", memory="512Mi"),
        "rabbitmq": rabbitmq | ({"advancedConfig": ADVANCED} if several else {}),
        "tls": {"secretName": shown.secret, "disableNonTLSListeners": shown.required} if shown else None,
        # Its defaults are half a minute before each start, and a week for each end.
        "delayStartSeconds": 0,
        "terminationGracePeriodSeconds": 60,
        **own,
        "override": {"statefulSet": {"spec": {"template": {"spec": {"containers": [], **placed}}}}} if placed else None,
    }


def external(ctx: Context[RabbitMQSpec]) -> Plan:
    """The address of a RabbitMQ and its administrator, by whom our actuators make virtual hosts and users."""
    server = parts.declared_server(ctx.spec.external)
    found = parts.external(ctx, server, "default_user", "default_pass")
    port = server.port or (AMQPS if found.at.trust else AMQP)
    published = {"host": server.host, "port": str(port), "managementURL": server.management_url, **found.published}
    return Plan(*found.steps, endpoint=f"{server.host}:{port}", published=published)
