"""RabbitMQ: one broker on a volume, named so that it can become the first member of a cluster."""

from __future__ import annotations

from ... import kube, parts
from ...plan import Context, NotBuilt, Plan, Step
from .config import AMQP, DISTRIBUTION, MANAGEMENT, rabbitmq_conf
from .model import RabbitMQSpec

PORTS = {"amqp": AMQP, "management": MANAGEMENT}


def plan(ctx: Context[RabbitMQSpec]) -> Plan:
    """Everything a RabbitMQ is made of; published: host, port, managementURL, adminSecret (keys `default_user`,
    `default_pass`).
    """
    spec = ctx.spec
    if spec.replicas != 1:
        raise NotBuilt("spec.replicas", f"a cluster of {spec.replicas} members is not built yet; use 1")
    # Only a server without any data makes its first user; the account belongs to the volume.
    creds = parts.credentials(
        ctx, "default_pass", "erlang-cookie", given={"default_user": "admin"}, retain=spec.retention == "Retain"
    )
    files = {"rabbitmq.conf": rabbitmq_conf(spec.config), "enabled_plugins": "[rabbitmq_management].\n"}
    conf = parts.written(ctx, files, directory="/etc/rabbitmq")
    server = _server(ctx, creds, conf)
    name = kube.fitting(ctx.owner)
    address = kube.service(ctx, name, PORTS, kube.selector(ctx, "server"))
    host = ctx.host(name)
    return Plan(
        creds,
        conf,
        server,
        Step(name="Endpoint", objects=(address,)),
        endpoint=f"{host}:{AMQP}",
        published={
            "host": host,
            "port": str(AMQP),
            "managementURL": f"http://{host}:{MANAGEMENT}",
            "adminSecret": creds.secret,
        },
    )


def _server(ctx: Context[RabbitMQSpec], creds: parts.Credentials, conf: parts.Config) -> parts.Members:
    """StatefulSet `<owner>-server`."""
    members = kube.fitting(ctx.name("members"))
    main = kube.Container(
        component=ctx.release["rabbitmq"],
        # The node's name is part of its data and of every other member's; it must be right from the first start.
        env={
            **parts.POD_NAME,
            "RABBITMQ_NODENAME": f"rabbit@$(POD_NAME).{ctx.host(members)}",
            "RABBITMQ_USE_LONGNAME": "true",
        },
        ports=PORTS,
        mounts=(
            parts.volume("/var/lib/rabbitmq", "rabbitmq"),
            *conf.mounts,
            kube.folder("credentials", creds.secret, "/etc/rabbitmq/secret"),
            *kube.scratch("/var/log/rabbitmq", "/tmp"),  # noqa: S108
        ),
        # The last thing it opens, and the first it closes when it pauses.
        ready=kube.Probe(tcp=AMQP),
        # Open as long as the node lives, whether it serves clients or waits for other members.
        alive=kube.Probe(tcp=DISTRIBUTION),
        memory="128Mi",
        cpu="50m",
    )
    template = kube.pod(
        ctx,
        "server",
        main,
        wanted=kube.settings(ctx.spec),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        grace=60,
    )
    return parts.members(
        ctx,
        "server",
        template,
        service=ctx.name("members"),
        ports={**PORTS, "epmd": 4369, "distribution": DISTRIBUTION},
        replicas=ctx.spec.replicas,
        storage=ctx.spec,
        after=(creds, conf),
    )
