"""etcd: members that form a cluster once, which takes them back with an empty disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ... import agents, kube, parts
from ...api import mebibytes
from ...parts.expose.monitoring import METRICS, monitored, watched
from ...parts.members import PEER_TLS_PHASE, POD_NAME, volume
from ...plan import Context, Object, Plan, Step, url_host
from .model import EtcdSpec

CLIENT, PEER, PEER_TLS = 2379, 2380, 2382
_METRICS = 2381
STATE = "/var/lib/etcd"
RECORD, TLS = "/etc/etcd/record", "/etc/etcd/tls"


@dataclass(frozen=True)
class Listeners:
    """Listeners of members, for clients and for each other."""

    certificate: parts.Certified
    peer_tls: str
    """As `Cluster.peer_tls` says."""
    any_host: str
    """Host of URLs at which members listen."""

    @property
    def requires_tls(self) -> bool:
        """True if members refuse clients without TLS."""
        return self.certificate.required and self.peer_tls == "only"

    @property
    def scheme(self) -> str:
        return "https" if self.certificate.published else "http"

    @property
    def metrics_scheme(self) -> str:
        return "https" if self.certificate else "http"

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
        return {PEER_TLS_PHASE: self.peer_tls, **self.certificate.trusts}

    @property
    def env(self) -> dict[str, str]:
        """Environment for TLS: etcd tells it from plain text on the port for clients; peers need a port for each."""
        anywhere, tls = f"//{self.any_host}", bool(self.certificate)
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
    cluster = parts.cluster(ctx)
    hosts = cluster.hosts(ctx.spec.replicas)
    # Peers call each other by name, and their certificates have it.
    certificate = parts.certified(ctx, ctx.name(), workloads=[cluster.key], also=[cluster.wildcard], calls=True)
    stored = ctx.secret("record")
    peer_tls = cluster.peer_tls(certificate, closes=True, plain=stored.get("state") == "existing")
    listeners = Listeners(certificate, peer_tls, url_host(ctx.any_address))
    record = _record(cluster, stored, [listeners.peer_url(host) for host in hosts])
    host, scheme = cluster.host, listeners.scheme
    return Plan(
        *certificate.steps,
        *parts.policies(ctx, parts.IngressRule("server", [CLIENT, PEER, PEER_TLS], "members")),
        record,
        _server(ctx, cluster, listeners, hosts, record, after=(*certificate.steps, record)),
        cluster.endpoint({"client": CLIENT}, extra_objects=_monitors(ctx, certificate)),
        endpoint=f"{host}:{CLIENT}",
        published={
            "endpoints": ",".join(f"{scheme}://{member}:{CLIENT}" for member in hosts),
            # The driver knows one address; behind it are the members that take part. It waits for an answer as long
            # as an election takes, while what it locks stays locked for longer than one.
            "coordinationURL": f"etcd3+{scheme}://{host}:{CLIENT}?timeout=10&lock_timeout=30&membership_timeout=30",
            **certificate.published,
        },
    )


def _monitors(ctx: Context[EtcdSpec], certificate: parts.Certified) -> tuple[Object, ...]:
    """Return the objects by which a Prometheus finds the metrics."""
    return watched(ctx, "server", _METRICS, certificate, ctx.name()) if monitored(ctx) else ()


def _record(cluster: parts.Cluster, stored: Mapping[str, str], urls: Sequence[str]) -> Step:
    """Return Secret `<owner>-record`: the founders, and whether there is a cluster; it lasts as long as the volumes."""
    # A ready member has a cluster.
    is_formed = stored.get("state") == "existing" or cluster.ready_replicas > 0
    founders = ",".join(f"{url.partition('//')[2].partition('.')[0]}={url}" for url in urls)
    data = {"state": "existing" if is_formed else "new", "founders": stored.get("founders") or founders}
    return Step(name="Record", objects=(cluster.lasting_secret("record", data),), guarded=True)


def _server(
    ctx: Context[EtcdSpec],
    cluster: parts.Cluster,
    listeners: Listeners,
    hosts: Sequence[str],
    record: Step,
    *,
    after: Sequence[Step],
) -> Step:
    """Return StatefulSet `<owner>-server`."""
    entry, metrics = ctx.release["etcd"], monitored(ctx)
    main = kube.Container(
        entry=entry,
        command=agents.shell("etcd/start.sh", words=entry.command, options="-uc"),
        env={
            **POD_NAME,
            "HOST": cluster.own_host,
            "ETCD_HOSTS": " ".join(hosts),
            "RECORD_FOLDER": RECORD,
            "PLAIN_PEER_URL": f"http://{cluster.own_host}:{PEER}",
            "ETCD_NAME": "$(POD_NAME)",
            "ETCD_DATA_DIR": f"{STATE}/data",
            **listeners.env,
            "ETCD_ADVERTISE_CLIENT_URLS": f"{listeners.scheme}://{cluster.own_host}:{CLIENT}",
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": listeners.peer_url(cluster.own_host),
            # Another holder of a certificate by the same authority is no peer.
            **({"ETCD_PEER_CERT_ALLOWED_HOSTNAME": cluster.host} if listeners.certificate else {}),
            "ETCD_INITIAL_CLUSTER_TOKEN": f"{ctx.namespace}-{ctx.owner}",
            # Locks are no history.
            "ETCD_AUTO_COMPACTION_MODE": "periodic",
            "ETCD_AUTO_COMPACTION_RETENTION": "1h",
            "ETCD_QUOTA_BACKEND_BYTES": str(mebibytes(ctx.spec.quota) * 1024**2),
            # With etcd's own 100 and 1000 a node that is only busy loses an election.
            "ETCD_HEARTBEAT_INTERVAL": "250",
            "ETCD_ELECTION_TIMEOUT": "2500",
            "ETCD_LOGGER": "zap",
            "ETCD_LOG_LEVEL": "warn",
            # By TLS with the same certificate; etcd also answers at the port of clients.
            **(
                {"ETCD_LISTEN_METRICS_URLS": f"{listeners.metrics_scheme}://{listeners.any_host}:{_METRICS}"}
                if metrics
                else {}
            ),
        },
        ports={**listeners.ports, **({METRICS: _METRICS} if metrics else {})},
        mounts=(
            volume(STATE, "etcd"),
            kube.folder("record", record.objects[0]["metadata"]["name"], RECORD),
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
    template = cluster.template(main, annotations=listeners.annotations)
    return cluster.step(template, ports=listeners.ports, replicas=len(hosts), after=after)
