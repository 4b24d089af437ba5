"""A RabbitMQ that the cluster operator of RabbitMQ runs, or an external one."""

from __future__ import annotations

from typing import Any

from ... import kube, parts
from ...parts import delegate
from ...parts.connect.remote import RABBITMQ, RABBITMQ_KINDS
from ...parts.expose.monitoring import monitor
from ...plan import Context, IgnoredFields, Kind, Plan, Step, UnsupportedError, ignored_verdict, url_host
from .config import ADVANCED, AMQP, AMQPS, MANAGEMENT, MANAGEMENT_TLS, provided_conf
from .model import RabbitMQSpec

API, KIND = "rabbitmq.com/v1beta1", "RabbitmqCluster.rabbitmq.com"
OPERATOR = "rabbitmq-cluster-operator"
_CLUSTER = Kind(API, "RabbitmqCluster", "rabbitmqclusters", project="rabbitmq-operators", operator=OPERATOR)
KINDS = (_CLUSTER, *RABBITMQ_KINDS)
_TOPOLOGY = {kind.handle for kind in RABBITMQ_KINDS}
_LEGACY = "rabbitmq.com/legacy-startup-probe"
"""Annotation: the cluster operator does not ask servers that start by HTTP for what RabbitMQ knows since 4.1 only.
Without it 2.22 kills an older one every five minutes."""

_LOST_VOLUMES = "spec.retention: RabbitMQ's cluster operator always deletes the volumes; set Delete"
"""A default that does not hold has to be said, too: messages that a user believes to be kept would be lost."""


def ordered_teardown(spec: RabbitMQSpec) -> bool:
    """Return True if deletion has to wait for the cluster: the cluster operator makes one again that is deleted while
    the operator still looks at it, unless that stays until all that belongs to it is gone.
    """
    return spec.provider in {OPERATOR, delegate.AUTO}


def _delegated(ctx: Context[RabbitMQSpec]) -> Plan:
    """Return the plan of a RabbitmqCluster; published as of a builtin one, and its name if the messaging topology
    operator makes virtual hosts and users, which cannot check a certificate of ours: with TLS our actuators make them.
    """
    spec, name = ctx.spec, ctx.name()
    if spec.remote_access:
        text = f"only provider builtin supports it; create your own Service for the broker of {OPERATOR}"
        raise UnsupportedError("spec.remoteAccess", text)
    certificate = parts.certified(ctx, name, workloads=[(KIND, name)], members=f"{name}-nodes")
    resource = delegate.resource(ctx, "RabbitmqCluster", name, API, _spec(ctx, certificate))
    server = Step(name="Server", objects=(kube.annotated(resource, {_LEGACY: "true"}),), after=certificate.steps)
    host, is_tls = ctx.host(name), bool(certificate.published)
    port = AMQPS if is_tls else AMQP
    pod_labels = {"app.kubernetes.io/name": name}  # It serves metrics in any case.
    port_name = "prometheus-tls" if certificate else "prometheus"
    monitors = monitor(ctx, ctx.name("server"), pod_labels, port_name, certificate, name)
    ctx.installed_kinds.check_permitted(f"spec.provider {OPERATOR}", *_TOPOLOGY)
    topology = not spec.tls and not ctx.installed_kinds.missing(*_TOPOLOGY)
    return Plan(
        *certificate.steps,
        server,
        *([Step(name="Endpoint", objects=monitors)] if monitors else []),
        endpoint=f"{host}:{port}",
        published={
            "host": host,
            "port": str(port),
            "managementURL": f"https://{host}:{MANAGEMENT_TLS}" if is_tls else f"http://{host}:{MANAGEMENT}",
            "adminSecret": f"{name}-default-user",
            **({"clustered": "true"} if spec.replicas > 1 else {}),
            **({RABBITMQ: name} if topology else {}),
            **certificate.published,
        },
        extra_conditions=ignored_verdict(_LOST_VOLUMES if spec.retention == "Retain" else ""),
    )


def _spec(ctx: Context[RabbitMQSpec], certificate: parts.Certified) -> dict[str, Any]:
    spec, several = ctx.spec, ctx.spec.replicas > 1
    pods = {"app.kubernetes.io/name": ctx.name()}
    fields = delegate.placement(ctx, pods, several=several)
    placement = {name: fields.pop(name, None) for name in ("affinity", "tolerations")}
    tls = {"secretName": certificate.secret, "disableNonTLSListeners": certificate.required}
    rabbitmq = {"additionalConfig": provided_conf(spec.config, spec.replicas)}
    return {
        "replicas": spec.replicas,
        "image": delegate.image(ctx, "rabbitmq", spec.version or ""),
        "persistence": {"storage": spec.storage_size, "storageClassName": spec.storage_class_name},
        "resources": delegate.resources(ctx, cpu="100m", memory="512Mi"),
        "rabbitmq": rabbitmq | ({"advancedConfig": ADVANCED} if several else {}),
        "tls": tls if certificate else None,
        "delayStartSeconds": 0,  # Its defaults are half a minute before each start, and a week for each end.
        "terminationGracePeriodSeconds": 60,
        **placement,
        "override": {"statefulSet": {"spec": {"template": {"spec": {"containers": [], **fields}}}}} if fields else None,
    }


def _external(ctx: Context[RabbitMQSpec]) -> Plan:
    """Return the plan of an external RabbitMQ, with whose administrator our actuators make virtual hosts and users."""
    server = delegate.declared_server(ctx.spec.external)
    admin = delegate.external(ctx, server, "default_user", "default_pass")
    port = server.port or (AMQPS if admin.at.trust else AMQP)
    published = {"host": server.host, "port": str(port), "managementURL": server.management_url, **admin.published}
    return Plan(*admin.steps, endpoint=f"{url_host(server.host)}:{port}", published=published)


def provided(ctx: Context[RabbitMQSpec]) -> Plan | None:
    """Return the plan of a RabbitMQ that another provider runs; None for a builtin one. Raises SpecError if another
    provider has run it before.
    """
    return delegate.plan(ctx, OPERATOR, KIND, _delegated, _external)


def ignored(ctx: Context[RabbitMQSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the provider leaves without effect."""
    return delegate.ignored_elsewhere(ctx) | delegate.ignored_when_delegated(plan, OPERATOR, KIND)
