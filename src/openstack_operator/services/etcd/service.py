"""etcd: members that form a cluster once, which takes them back with an empty disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ... import kube, parts
from ...api import mebibytes
from ...plan import Context, Plan, Step
from .model import EtcdSpec

CLIENT, PEER, PEER_TLS = 2379, 2380, 2382
STATE = "/var/lib/etcd"
RECORD, TLS = "/etc/etcd/record", "/etc/etcd/tls"

START = f"""\
until getent hosts "$HOST" > /dev/null; do sleep 0.5; done
url=$ETCD_INITIAL_ADVERTISE_PEER_URLS known={STATE}/peer-url
holds() {{ ls "$ETCD_DATA_DIR"/member/wal/*.wal > /dev/null 2>&1; }}
ask() {{
  peer=$1; shift
  etcdctl --endpoints="${{ETCD_ADVERTISE_CLIENT_URLS%%:*}}://$peer:{CLIENT}" --command-timeout=5s "$@"
}}
join() {{
  for peer in $ETCD_HOSTS; do
    [ "$peer" != "$HOST" ] && list=$(ask "$peer" member list) || continue
    id=$(echo "$list" | grep -F "//$HOST:" | cut -d, -f1)
    [ -z "$id" ] || ask "$peer" member remove "$id" || continue
    added=$(ask "$peer" member add "$ETCD_NAME" --peer-urls="$url") || continue
    ETCD_INITIAL_CLUSTER=$(echo "$added" | sed -n 's/^ETCD_INITIAL_CLUSTER="\\(.*\\)"$/\\1/p')
    return 0
  done
  return 1
}}
move() {{
  id=$(ask "$1" member list | grep -F "//$HOST:" | cut -d, -f1) && [ -n "$id" ] || return 1
  ask "$1" member update "$id" --peer-urls="$url" && echo "$url" > $known
}}
settled() {{ [ "$(cat $known 2> /dev/null || echo "http://$HOST:{PEER}")" = "$url" ]; }}
if ! holds; then
  rm -rf "$ETCD_DATA_DIR"
  echo "$url" > $known
elif ! settled; then
  for peer in $ETCD_HOSTS; do
    [ "$peer" = "$HOST" ] || ! move "$peer" || break
  done
  settled || (until move "$HOST"; do sleep 2; done) &
fi
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
"""Script that starts a member. Founders begin the cluster together, until the record says that there is one; from then
on a member without data has lost it, or is new. The others would wait for the one they remember, so it makes them
forget that, and add this one: to etcd a member with an empty disk is another one. If its URL has changed, since members
speak TLS now, it first updates it at the others, so that all they say goes that way once each of them has started
since; if none of them answers, it updates it at itself."""


@dataclass(frozen=True)
class Listeners:
    """Listeners of members, for clients and for each other."""

    certificate: parts.Certified
    peer_tls: str
    """As `parts.among` says."""

    @property
    def requires_tls(self) -> bool:
        """True if members refuse clients without TLS."""
        return self.certificate.required and self.peer_tls == "only"

    @property
    def scheme(self) -> str:
        return "https" if self.certificate.published else "http"

    def peer_url(self, host: str) -> str:
        """Return the URL by which the others know a member."""
        return f"https://{host}:{PEER_TLS}" if self.peer_tls else f"http://{host}:{PEER}"

    @property
    def ports(self) -> dict[str, int]:
        plain = {} if self.peer_tls == "only" else {"peer": PEER}
        return {"client": CLIENT, **plain, **({"peer-tls": PEER_TLS} if self.certificate else {})}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of pods. Members read which peers to trust when they start."""
        if not self.peer_tls:
            return {}
        return {parts.AMONG: self.peer_tls, **self.certificate.trusts}

    @property
    def env(self) -> dict[str, str]:
        """Environment for TLS: etcd tells it from plain text on the port for clients; peers need a port for each."""
        anywhere, tls = "//0.0.0.0", bool(self.certificate)
        clients = {f"http:{anywhere}:{CLIENT}": not self.requires_tls, f"https:{anywhere}:{CLIENT}": tls}
        # Not both for longer than it takes: a member that starts calls the others as it did first, if they listen.
        peers = {f"http:{anywhere}:{PEER}": self.peer_tls != "only", f"https:{anywhere}:{PEER_TLS}": tls}
        urls = {"ETCD_LISTEN_CLIENT_URLS": clients, "ETCD_LISTEN_PEER_URLS": peers}
        listens = {name: ",".join(url for url, is_open in each.items() if is_open) for name, each in urls.items()}
        return listens | (_TLS_ENV if tls else {})


_PAIR = {"CERT_FILE": f"{TLS}/tls.crt", "KEY_FILE": f"{TLS}/tls.key"}
# etcd reads the pair again for each handshake.
_TLS_ENV = {
    **{f"ETCD_{name}": path for name, path in _PAIR.items()},
    **{f"ETCD_PEER_{name}": path for name, path in _PAIR.items()},
    "ETCD_PEER_TRUSTED_CA_FILE": f"{TLS}/ca.crt",
    "ETCD_PEER_CLIENT_CERT_AUTH": "true",
    # By default a peer needs an address that one of its names has, and etcd asks the DNS for that of a wildcard.
    "ETCD_EXPERIMENTAL_PEER_SKIP_CLIENT_SAN_VERIFICATION": "true",
    "ETCDCTL_CACERT": f"{TLS}/ca.crt",
}


def plan(ctx: Context[EtcdSpec]) -> Plan:
    """Return everything that an Etcd consists of; published: endpoints (`http://host:port,…`), coordinationURL (tooz),
    and trustSecret (key `ca.crt`) if clients are to check its certificate: both say https then.
    """
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    hosts = parts.hosts(ctx, "server", ctx.name("members"), spec.replicas)
    server = ("StatefulSet", kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT))
    # Peers call each other by name, and their certificates have it.
    members = f"*.{ctx.host(kube.fitting(ctx.name('members')))}"
    certificate = parts.certified(ctx, name, workloads=[server], also=[members], calls=True)
    stored = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("record")))))
    peer_tls = parts.among(ctx, certificate, server, closes=True, plain=stored.get("state") == "existing")
    listeners = Listeners(certificate, peer_tls)
    record = _record(ctx, stored, [listeners.peer_url(host) for host in hosts])
    address = kube.service(ctx, name, {"client": CLIENT}, kube.selector(ctx, "server"))
    host, scheme = ctx.host(name), listeners.scheme
    return Plan(
        *certificate.steps,
        *parts.policies(ctx, parts.Way("server", [CLIENT, PEER, PEER_TLS], "members")),
        record,
        _server(ctx, listeners, record.objects[0]["metadata"]["name"], hosts, after=(*certificate.steps, record)),
        Step(name="Endpoint", objects=(address,)),
        endpoint=f"{host}:{CLIENT}",
        published={
            "endpoints": ",".join(f"{scheme}://{member}:{CLIENT}" for member in hosts),
            # The driver knows one address; behind it are the members that take part. It waits for an answer as long
            # as an election takes, while what it locks stays locked for longer than one.
            "coordinationURL": f"etcd3+{scheme}://{host}:{CLIENT}?timeout=10&lock_timeout=30&membership_timeout=30",
            **certificate.published,
        },
    )


def _record(ctx: Context[EtcdSpec], stored: Mapping[str, str], urls: Sequence[str]) -> Step:
    """Return Secret `<owner>-record`: the founders, and whether there is a cluster; it lasts as long as the volumes."""
    live = ctx.children.get(("StatefulSet", kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT)))
    # A ready member has a cluster.
    is_formed = stored.get("state") == "existing" or bool(((live or {}).get("status") or {}).get("readyReplicas"))
    founders = ",".join(f"{url.partition('//')[2].partition('.')[0]}={url}" for url in urls)
    data = {"state": "existing" if is_formed else "new", "founders": stored.get("founders") or founders}
    desired = kube.secret(ctx, ctx.name("record"), data)
    secret = kube.retained(desired) if ctx.spec.retention == "Retain" else desired
    return Step(name="Record", objects=(secret,), guarded=True)


def _server(
    ctx: Context[EtcdSpec], listeners: Listeners, record: str, hosts: Sequence[str], *, after: Sequence[Step]
) -> parts.Members:
    """Return StatefulSet `<owner>-server`."""
    spec, program = ctx.spec, ctx.release["etcd"]
    service = kube.fitting(ctx.name("members"))
    member_host = f"$(POD_NAME).{ctx.host(service)}"
    main = kube.Container(
        component=program,
        command=["sh", "-uc", START, "sh", *program.command],
        env={
            **parts.POD_NAME,
            "HOST": member_host,
            "ETCD_HOSTS": " ".join(hosts),
            "ETCD_NAME": "$(POD_NAME)",
            "ETCD_DATA_DIR": f"{STATE}/data",
            **listeners.env,
            "ETCD_ADVERTISE_CLIENT_URLS": f"{listeners.scheme}://{member_host}:{CLIENT}",
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": listeners.peer_url(member_host),
            # Another holder of a certificate by the same authority is no peer.
            **({"ETCD_PEER_CERT_ALLOWED_HOSTNAME": ctx.host(kube.fitting(ctx.owner))} if listeners.certificate else {}),
            "ETCD_INITIAL_CLUSTER_TOKEN": f"{ctx.namespace}-{ctx.owner}",
            # Locks are no history.
            "ETCD_AUTO_COMPACTION_MODE": "periodic",
            "ETCD_AUTO_COMPACTION_RETENTION": "1h",
            "ETCD_QUOTA_BACKEND_BYTES": str(mebibytes(spec.quota) * 1024**2),
            # With etcd's own 100 and 1000 a node that is only busy loses an election.
            "ETCD_HEARTBEAT_INTERVAL": "250",
            "ETCD_ELECTION_TIMEOUT": "2500",
            "ETCD_LOGGER": "zap",
            "ETCD_LOG_LEVEL": "warn",
        },
        ports=listeners.ports,
        mounts=(
            parts.volume(STATE, "etcd"),
            kube.folder("record", record, RECORD),
            *listeners.certificate.mounts(TLS),
            *kube.scratch("/tmp"),  # noqa: S108
        ),
        # It answers for the whole: a member on the smaller side of a partition is not healthy.
        ready=kube.Probe(http=("/health", CLIENT), tls=listeners.requires_tls, period=5),
        # Each connection that ends without a handshake would be a line in its log.
        alive=kube.Probe(http=("/version", CLIENT), tls=True) if listeners.requires_tls else kube.Probe(tcp=CLIENT),
        memory="64Mi",
        cpu="20m",
    )
    template = kube.pod(ctx, "server", main, wanted=kube.settings(spec), annotations=listeners.annotations, grace=30)
    return parts.members(
        ctx,
        "server",
        template,
        service=service,
        ports=listeners.ports,
        replicas=len(hosts),
        storage=spec,
        after=after,
    )
