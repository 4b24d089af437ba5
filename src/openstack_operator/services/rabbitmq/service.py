"""RabbitMQ: brokers on a volume each, named so that a single one can become the first member of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ... import agents, kube, parts
from ...parts.expose.monitoring import METRICS, watched
from ...parts.members import POD_NAME, volume
from ...plan import Context, Group, Plan, Step
from .config import ADVANCED, AMQP, AMQPS, DISTRIBUTION, EPMD, MANAGEMENT, MANAGEMENT_TLS, TLS, Listeners, rabbitmq_conf
from .distribution import Distribution, distribution
from .members import Orders, member_status, orders, verdict
from .model import RabbitMQSpec
from .providers import provided
from .remote import remote_entrance
from .version import gate, is_quorum_only, version_entry

_STATE, _SECRET = "/var/lib/rabbitmq", "/etc/rabbitmq/secret"
_LISTENS = "rabbitmq/listens.sh"
_FEATURES = "rabbitmq/enable_features.sh"
_DRAIN = agents.shell(_LISTENS, _FEATURES, "rabbitmq/drain.sh", options="-c")


def plan(ctx: Context[RabbitMQSpec]) -> Plan:
    """Return everything that a RabbitMQ consists of; published: host, port, managementURL, adminSecret (keys
    `default_user`, `default_pass`), clustered (`true`) if there are several members, and trustSecret (key `ca.crt`) if
    clients are to check the certificate: port and managementURL speak TLS then.
    """
    spec = ctx.spec
    if plan_of_provider := provided(ctx):
        return plan_of_provider
    name, cluster, is_single = ctx.name(), parts.cluster(ctx), spec.replicas == 1
    remote = remote_entrance(ctx)
    # Only a server without any data makes its first user; the account belongs to the volume.
    creds = parts.credentials(
        ctx,
        "default_pass",
        "erlang-cookie",
        extra_values={"default_user": "admin"},
        retain=spec.retention == "Retain",
        of_data=True,
    )
    certificate = parts.certified(
        ctx, name, workloads=[cluster.key], members=cluster.service, also=[cluster.wildcard, *remote.names], calls=True
    )
    inter_node = distribution(cluster, certificate, is_single=is_single)
    listeners = Listeners(plain=not certificate.required, tls=bool(certificate), monitored=spec.monitoring.enabled)
    conf_text = rabbitmq_conf(spec.config, cluster.hosts(spec.replicas), listeners=listeners)
    files = {"rabbitmq.conf": conf_text, "enabled_plugins": listeners.plugins, **inter_node.files}
    if not is_single:
        files["advanced.config"] = ADVANCED
    conf = parts.written(ctx, files, directory="/etc/rabbitmq")
    order = None if is_single else orders(ctx, cluster)
    status = member_status(cluster.pod_names(spec.replicas), ctx.pods) if order else []
    upgrade = gate(ctx, cluster, status)
    gates = (upgrade,) if upgrade else ()
    server = _server(ctx, cluster, creds, conf, order, certificate, listeners, inter_node)
    server = replace(server, after=(*server.after, *gates))
    if order:
        server = inter_node.apply(replace(server, verdict=verdict(cluster, status, order.member)))
    monitors = watched(ctx, "server", listeners.metrics, certificate, name) if listeners.monitored else ()
    host, is_tls = cluster.host, bool(certificate.published)
    port = AMQPS if is_tls else AMQP
    return Plan(
        *parts.policies(ctx, parts.IngressRule("server", [EPMD, DISTRIBUTION], "members"), *remote.rules),
        creds,
        *certificate.steps,
        conf,
        *gates,
        Group(server.name, [order, server] if order else [server]),
        cluster.endpoint(listeners.ports, extra_objects=(*monitors, *remote.objects)),
        endpoint=f"{host}:{port}",
        published={
            "host": host,
            "port": str(port),
            "managementURL": f"https://{host}:{MANAGEMENT_TLS}" if is_tls else f"http://{host}:{MANAGEMENT}",
            "adminSecret": creds.secret,
            # Clients of several members have more to do than wait for a single one.
            **({"clustered": "true"} if spec.replicas > 1 else {}),
            **({"quorumOnly": "true"} if is_quorum_only(ctx) else {}),
            **certificate.published,
            **(remote.published if is_tls else {}),
        },
        members=status,
    )


def _server(
    ctx: Context[RabbitMQSpec],
    cluster: parts.Cluster,
    creds: parts.Credentials,
    conf: parts.Config,
    order: Orders | None,
    certificate: parts.Certified,
    listeners: Listeners,
    inter_node: Distribution,
) -> Step:
    """Return StatefulSet `<owner>-server`."""
    clustered, entry = order is not None, version_entry(ctx)
    main = kube.Container(
        entry=entry,
        command=agents.shell(_LISTENS, "rabbitmq/start.sh", words=entry.command, options="-ec") if clustered else (),
        # The node's name is part of its data and of every other member's; it must be right from the first start.
        env={
            **POD_NAME,
            "RABBITMQ_NODENAME": f"rabbit@{cluster.own_host}",
            "RABBITMQ_USE_LONGNAME": "true",
            **inter_node.env,
            **(_member_env(cluster.hosts(ctx.spec.replicas), listeners, order) if order else {}),
        },
        ports={**listeners.ports, **({METRICS: listeners.metrics} if listeners.monitored else {})},
        mounts=(
            volume(_STATE, "rabbitmq"),
            *conf.mounts,
            kube.folder("credentials", creds.secret, _SECRET),
            *certificate.mounts(TLS),
            *kube.scratch("/var/log/rabbitmq", "/tmp"),  # noqa: S108
        ),
        ready=listeners.readiness if clustered else kube.Probe(tcp=listeners.client_port),
        # Open as long as the node lives, whether it serves clients or waits for other members.
        alive=kube.Probe(tcp=DISTRIBUTION),
        lifecycle={"preStop": {"exec": {"command": _DRAIN if clustered else agents.shell(_FEATURES)}}},
        memory="128Mi",
        peak=kube.peak(ctx.spec.config.get("vm_memory_high_watermark.absolute"), 2),
        cpu="400m" if clustered else "100m",
    )
    return cluster.step(
        cluster.template(main, config=conf, grace=60, watched=clustered),
        ports={**listeners.ports, "epmd": EPMD, "distribution": DISTRIBUTION},
        replicas=ctx.spec.replicas,
        after=(creds, conf, *certificate.steps),
    )


def _member_env(hosts: Sequence[str], listeners: Listeners, order: Orders) -> dict[str, Any]:
    """Return the environment of a cluster's members. None of the names is one of RabbitMQ's own without its prefix."""
    ports = {"EPMD": EPMD, "DISTRIBUTION": DISTRIBUTION, "CLIENT": listeners.client_port}
    return {
        "RABBITMQ_MEMBERS": " ".join(hosts),
        **{f"{name}_PORT": str(port) for name, port in ports.items()},
        "STATE_FOLDER": _STATE,
        "SECRET_FOLDER": _SECRET,
        "ORDERED_MEMBER": order.env("member"),
        "ORDER": order.env("token"),
    }
