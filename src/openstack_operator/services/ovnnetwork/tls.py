"""Certificates of OVN's databases, of their clients, and of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import kube, parts, pki
from ...parts.connect.ovn import OVN_CLIENT, OVN_NODE_TLS, OVN_TLS
from ...parts.secrets.authorities import OwnAuthority, own_authority
from ...parts.secrets.node_certificates import NodeIssuer, own_issuer
from ...plan import READY, Context, Object, SpecError, Step, UnsupportedError
from .model import OVNNetworkSpec


@dataclass(frozen=True)
class TLS:
    """Certificates by which OVN's programs authenticate each other; none for plain text."""

    server: parts.Certified
    """Certificate of the databases, and of northd and relays."""
    client: parts.Certified
    """Certificate for other clients of the databases: a client with one of this authority can write."""
    chassis: OwnAuthority | None = None
    """Authority of the nodes' certificates, which relays alone trust; None while nodes use plain text."""
    nodes: NodeIssuer | None = None
    """Issuer of the nodes' certificates by that authority."""
    relay: Step | None = None
    """The Secret of the relays: the certificate with both authorities."""

    @property
    def mounts(self) -> tuple[kube.Mount, ...]:
        """Return the mounts of a database, as soon as it has a certificate."""
        return self.server.mounts(OVN_TLS)

    @property
    def clients(self) -> tuple[kube.Mount, ...]:
        """Return the mounts of a client of a database, once it has to use TLS."""
        return self.mounts if self.server.published else ()

    @property
    def on_relays(self) -> tuple[kube.Mount, ...]:
        """Return the mounts of a relay."""
        if self.relay is None:
            return self.mounts
        return (kube.folder("tls", self.relay.objects[0]["metadata"]["name"], OVN_TLS),)

    @property
    def options(self) -> list[str]:
        """Return the options of a client for the command line of a program of OVN."""
        files = {"private-key": "tls.key", "certificate": "tls.crt", "ca-cert": "ca.crt"}
        return [f"--{option}={OVN_TLS}/{file}" for option, file in files.items()] if self.clients else []

    @property
    def steps(self) -> tuple[Step, ...]:
        authority = [self.chassis.step, self.chassis.replacement] if self.chassis else []
        return (*self.server.steps, *self.client.steps, *authority, *([self.relay] if self.relay else []))

    @property
    def published(self) -> dict[str, str]:
        if not self.server.published:
            return {}
        return {OVN_CLIENT: self.client.secret, **({OVN_NODE_TLS: "true"} if self.chassis else {})}

    def connection(self, hosts: Sequence[str], port: int, secure: int) -> str:
        """Return the addresses that clients use."""
        scheme, number = ("ssl", secure) if self.server.published else ("tcp", port)
        return ",".join(f"{scheme}:{host}:{number}" for host in hosts)


def certificates(ctx: Context[OVNNetworkSpec]) -> TLS:
    """Return the certificates, if the spec requests TLS. Open vSwitch checks their authority, not their names."""
    if ctx.spec.tls and ctx.spec.image_profile == "kolla":
        raise UnsupportedError("spec.tls", "kolla's images do not encrypt OVN's databases yet; remove it")
    clusters = [parts.cluster(ctx, name, ctx.name(name)) for name in ("nb", "sb")]
    sets, also = [cluster.key for cluster in clusters], [cluster.wildcard for cluster in clusters]
    # The second one is for clients: no workload here mounts it.
    server, client = (
        parts.certified(ctx, ctx.name("relay"), workloads=workloads, name=name, also=also, calls=True)
        for name, workloads in (("tls", sets), ("client-tls", ()))
    )
    if not server.published or not (ctx.spec.chassis.enabled or ctx.spec.remote_chassis):
        return TLS(server, client)
    live = ctx.live("Deployment", "relay")
    readers = kube.judge(live) if live else READY
    chassis = own_authority(ctx, "chassis", "nodes' connections to OVN", readers=readers)
    trusted = pki.bundle([server.files["ca.crt"], chassis.bundle], ctx.now)
    files = {**{name: server.files[name] for name in ("tls.crt", "tls.key")}, "ca.crt": trusted}
    secret = kube.annotated(kube.secret(ctx, ctx.name("relay-tls"), files), server.authorities_since)
    step = Step(name="Certificate", objects=(secret,), after=(*server.steps, chassis.step))
    return TLS(server, client, chassis, own_issuer(ctx, chassis, server.files["ca.crt"]), step)


def peer_schemes(stored: str, tls: TLS, live: Object | None, *, is_single: bool, all_use_tls: bool) -> str:
    """Return the schemes of connections between a database's members, as they read it: the desired one, then the one
    that some may still use; empty before the first. `stored` is the previous value, `is_single` is True for a single
    member, `all_use_tls` once all members use TLS. Only a single member can go back to plain text. Raises SpecError if
    several members would have to use TLS without certificates.
    """
    if not tls.server:
        if stored and not is_single:
            text = "database members need TLS between each other; keep it until replicas is 1 and one member is left"
            raise SpecError("spec.tls", text)
        return ""
    if not stored:
        return "ssl,tcp" if tls.server.published and _is_rolled_out(live, refusing=tls.server.required) else ""
    return "ssl" if all_use_tls else stored


def _is_rolled_out(live: Object | None, *, refusing: bool) -> bool:
    """Return True if no roll-out runs or is about to begin: members switch to TLS only while all of them run."""
    if live is None:
        return True
    env = live["spec"]["template"]["spec"]["containers"][0].get("env") or ()
    return not kube.Rollout(live).is_running and any(each["name"] == "OVN_PLAIN" for each in env) == refusing
