"""RabbitMQ: brokers on a volume each, named so that a single one can become the first member of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, parts
from ...api import PodSettings
from ...plan import Context, Plan, Step
from .config import ADVANCED, AMQP, DISTRIBUTION, EPMD, MANAGEMENT, rabbitmq_conf
from .model import RabbitMQSpec

PORTS = {"amqp": AMQP, "management": MANAGEMENT}

REJOIN = f"""\
listens() {{ timeout 2 bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null; }}
if [ ! -e "/var/lib/rabbitmq/mnesia/$RABBITMQ_NODENAME/schema.DAT" ]; then
  cookie=/var/lib/rabbitmq/.erlang.cookie
  rm -f "$cookie"
  (umask 077; cat /etc/rabbitmq/secret/erlang-cookie > "$cookie")
  epmd -daemon
  calm=0
  while :; do
    started= absent=
    for host in $RABBITMQ_MEMBERS; do
      [ "rabbit@$host" != "$RABBITMQ_NODENAME" ] || continue
      listens "$host" {EPMD} || absent=yes
      ! listens "$host" {DISTRIBUTION} || started="$started $host"
    done
    [ -z "$started" ] || break
    if [ "rabbit@${{RABBITMQ_MEMBERS%% *}}" = "$RABBITMQ_NODENAME" ] && [ -z "$absent" ]; then
      calm=$((calm + 1))
      [ "$calm" -lt 3 ] || break
    else
      calm=0
    fi
    sleep 1
  done
  for host in $started; do
    ! timeout 20 rabbitmqctl -n "rabbit@$host" forget_cluster_node "$RABBITMQ_NODENAME" || break
  done
fi
exec "$@"
"""
"""What a member of a cluster does before it starts. One without data is refused by others who remember it, so they are
told to forget it. Left to RabbitMQ, members without data form a new cluster and shut out one with data that comes
later; so the first one alone begins, once it has seen that every other is there (its epmd listens) without data
(nothing else listens, for three seconds: one with data starts at once). The others wait for somebody to have started.
"""


def plan(ctx: Context[RabbitMQSpec]) -> Plan:
    """Everything a RabbitMQ is made of; published: host, port, managementURL, adminSecret (keys `default_user`,
    `default_pass`), and clustered (`true`) where there are several members.
    """
    spec = ctx.spec
    hosts = parts.hosts(ctx, "server", ctx.name("members"), spec.replicas)
    # Only a server without any data makes its first user; the account belongs to the volume.
    creds = parts.credentials(
        ctx, "default_pass", "erlang-cookie", given={"default_user": "admin"}, retain=spec.retention == "Retain"
    )
    files = {"rabbitmq.conf": rabbitmq_conf(spec.config, hosts), "enabled_plugins": "[rabbitmq_management].\n"}
    if spec.replicas > 1:
        files["advanced.config"] = ADVANCED
    conf = parts.written(ctx, files, directory="/etc/rabbitmq")
    server = _server(ctx, creds, conf, hosts)
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
            # Clients of several members have more to do than wait for the one.
            **({"clustered": "true"} if spec.replicas > 1 else {}),
        },
    )


def _server(
    ctx: Context[RabbitMQSpec], creds: parts.Credentials, conf: parts.Config, hosts: Sequence[str]
) -> parts.Members:
    """StatefulSet `<owner>-server`."""
    members = kube.fitting(ctx.name("members"))
    program = ctx.release["rabbitmq"]
    clustered = len(hosts) > 1
    main = kube.Container(
        component=program,
        command=["sh", "-ec", REJOIN, "sh", *program.command] if clustered else (),
        # The node's name is part of its data and of every other member's; it must be right from the first start.
        env={
            **parts.POD_NAME,
            "RABBITMQ_NODENAME": f"rabbit@$(POD_NAME).{ctx.host(members)}",
            "RABBITMQ_USE_LONGNAME": "true",
            **({"RABBITMQ_MEMBERS": " ".join(hosts)} if clustered else {}),
        },
        ports=PORTS,
        mounts=(
            parts.volume("/var/lib/rabbitmq", "rabbitmq"),
            *conf.mounts,
            kube.folder("credentials", creds.secret, "/etc/rabbitmq/secret"),
            *kube.scratch("/var/log/rabbitmq", "/tmp"),  # noqa: S108
        ),
        ready=_ANSWERS if clustered else kube.Probe(tcp=AMQP),
        # Open as long as the node lives, whether it serves clients or waits for other members.
        alive=kube.Probe(tcp=DISTRIBUTION),
        memory="128Mi",
        cpu="50m",
    )
    template = kube.pod(
        ctx,
        "server",
        main,
        wanted=_apart(ctx, kube.settings(ctx.spec)) if clustered else kube.settings(ctx.spec),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        grace=60,
    )
    return parts.members(
        ctx,
        "server",
        template,
        service=ctx.name("members"),
        ports={**PORTS, "epmd": EPMD, "distribution": DISTRIBUTION},
        replicas=ctx.spec.replicas,
        storage=ctx.spec,
        after=(creds, conf),
    )


# Both ports open when it starts to serve clients and close when it pauses. The kernel would accept connections for one
# that is frozen; only the program itself answers requests. Asked often, as another member could answer instead.
_ANSWERS = kube.Probe(http=("/", MANAGEMENT), period=3, timeout=2, failures=2)


def _apart(ctx: Context[RabbitMQSpec], wanted: PodSettings) -> PodSettings:
    """Members on different nodes where there are enough of them, unless the user says how they are placed."""
    if wanted.affinity is not None:
        return wanted
    others = {"labelSelector": {"matchLabels": kube.selector(ctx, "server")}, "topologyKey": "kubernetes.io/hostname"}
    soft = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": others}]}
    return wanted.model_copy(update={"affinity": {"podAntiAffinity": soft}})
