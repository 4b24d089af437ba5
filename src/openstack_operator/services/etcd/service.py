"""etcd: members that form a cluster once, and are taken back into it with an empty disk."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, parts
from ...plan import Context, Plan, Step
from .model import EtcdSpec

CLIENT, PEER = 2379, 2380
STATE = "/var/lib/etcd"
RECORD = "/etc/etcd/record"

START = f"""\
until getent hosts "$HOST" > /dev/null; do sleep 0.5; done
holds() {{ ls "$ETCD_DATA_DIR"/member/wal/*.wal > /dev/null 2>&1; }}
ask() {{ peer=$1; shift; etcdctl --endpoints="http://$peer:{CLIENT}" --command-timeout=5s "$@"; }}
join() {{
  for peer in $ETCD_HOSTS; do
    [ "$peer" != "$HOST" ] && list=$(ask "$peer" member list) || continue
    id=$(echo "$list" | grep -F "http://$HOST:{PEER}" | cut -d, -f1)
    [ -z "$id" ] || ask "$peer" member remove "$id" || continue
    added=$(ask "$peer" member add "$ETCD_NAME" --peer-urls="http://$HOST:{PEER}") || continue
    ETCD_INITIAL_CLUSTER=$(echo "$added" | sed -n 's/^ETCD_INITIAL_CLUSTER="\\(.*\\)"$/\\1/p')
    return 0
  done
  return 1
}}
holds || rm -rf "$ETCD_DATA_DIR"
until holds; do
  ETCD_INITIAL_CLUSTER=$(cat {RECORD}/founders)
  if [ "$(cat {RECORD}/state)" = new ] && echo ",$ETCD_INITIAL_CLUSTER" | grep -qF ",$ETCD_NAME="; then
    export ETCD_INITIAL_CLUSTER ETCD_INITIAL_CLUSTER_STATE=new
    break
  elif join; then
    export ETCD_INITIAL_CLUSTER ETCD_INITIAL_CLUSTER_STATE=existing
    break
  fi
  sleep 1
done
exec "$@"
"""
"""What a member does before it starts. Founders begin the cluster together, until the record says that there is one;
from then on whoever has no data has lost it, or is new. The others would wait for the one they remember, so they are
asked to forget it, and told of this one: to etcd a member with an empty disk is another one.
"""


def plan(ctx: Context[EtcdSpec]) -> Plan:
    """Everything an Etcd is made of; published: endpoints (`http://host:port,…`), coordinationURL (tooz)."""
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    hosts = parts.hosts(ctx, "server", ctx.name("members"), spec.replicas)
    record = _record(ctx, hosts)
    address = kube.service(ctx, name, {"client": CLIENT}, kube.selector(ctx, "server"))
    host = ctx.host(name)
    return Plan(
        record,
        _server(ctx, record.objects[0]["metadata"]["name"], hosts, after=record),
        Step(name="Endpoint", objects=(address,)),
        endpoint=f"{host}:{CLIENT}",
        published={
            "endpoints": ",".join(f"http://{member}:{CLIENT}" for member in hosts),
            # The driver knows one address; behind it are the members that take part. It waits for an answer as long
            # as an election takes, while what it locks stays locked for longer than one.
            "coordinationURL": f"etcd3+http://{host}:{CLIENT}?timeout=10&lock_timeout=30&membership_timeout=30",
        },
    )


def _record(ctx: Context[EtcdSpec], hosts: Sequence[str]) -> Step:
    """Secret `<owner>-record`: who begins the cluster, and whether there is one; as long as the volumes."""
    name = ctx.name("record")
    held = kube.secret_data(ctx.children.get(("Secret", kube.fitting(name))))
    live = ctx.children.get(("StatefulSet", kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT)))
    # Whoever is ready has a cluster.
    formed = held.get("state") == "existing" or bool(((live or {}).get("status") or {}).get("readyReplicas"))
    founders = ",".join(f"{host.partition('.')[0]}=http://{host}:{PEER}" for host in hosts)
    data = {"state": "existing" if formed else "new", "founders": held.get("founders") or founders}
    wanted = kube.secret(ctx, name, data)
    retained = kube.retained(wanted) if ctx.spec.retention == "Retain" else wanted
    return Step(name="Record", objects=(retained,), guarded=True)


def _server(ctx: Context[EtcdSpec], record: str, hosts: Sequence[str], *, after: Step) -> parts.Members:
    """StatefulSet `<owner>-server`."""
    program = ctx.release["etcd"]
    service = kube.fitting(ctx.name("members"))
    own = f"$(POD_NAME).{ctx.host(service)}"
    everywhere = "http://0.0.0.0"
    main = kube.Container(
        component=program,
        command=["sh", "-uc", START, "sh", *program.command],
        env={
            **parts.POD_NAME,
            "HOST": own,
            "ETCD_HOSTS": " ".join(hosts),
            "ETCD_NAME": "$(POD_NAME)",
            "ETCD_DATA_DIR": f"{STATE}/data",
            "ETCD_LISTEN_CLIENT_URLS": f"{everywhere}:{CLIENT}",
            "ETCD_LISTEN_PEER_URLS": f"{everywhere}:{PEER}",
            "ETCD_ADVERTISE_CLIENT_URLS": f"http://{own}:{CLIENT}",
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": f"http://{own}:{PEER}",
            "ETCD_INITIAL_CLUSTER_TOKEN": f"{ctx.namespace}-{ctx.owner}",
            # Locks are no history.
            "ETCD_AUTO_COMPACTION_MODE": "periodic",
            "ETCD_AUTO_COMPACTION_RETENTION": "1h",
            "ETCD_QUOTA_BACKEND_BYTES": str(ctx.spec.quota_mb * 1024**2),
            # With etcd's own 100 and 1000 a node that is only busy loses an election.
            "ETCD_HEARTBEAT_INTERVAL": "250",
            "ETCD_ELECTION_TIMEOUT": "2500",
            "ETCD_LOGGER": "zap",
            "ETCD_LOG_LEVEL": "warn",
        },
        ports={"client": CLIENT, "peer": PEER},
        mounts=(parts.volume(STATE, "etcd"), kube.folder("record", record, RECORD), *kube.scratch("/tmp")),  # noqa: S108
        # It answers for the whole: a member on the smaller side of a partition is not healthy.
        ready=kube.Probe(http=("/health", CLIENT), period=5),
        alive=kube.Probe(tcp=CLIENT),
        memory="64Mi",
        cpu="20m",
    )
    template = kube.pod(ctx, "server", main, wanted=kube.settings(ctx.spec), grace=30)
    return parts.members(
        ctx,
        "server",
        template,
        service=service,
        ports={"client": CLIENT, "peer": PEER},
        replicas=len(hosts),
        storage=ctx.spec,
        after=(after,),
    )
