"""Certificates of OVN's databases, of those who read them, and of who is given one to do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import kube, parts, pki
from ...plan import READY, Context, NotBuilt, Object, SpecError, Step
from .model import OVNNetworkSpec


@dataclass(frozen=True)
class Secured:
    """How OVN's programs speak with each other."""

    own: parts.Certified
    """Of what runs here."""
    client: parts.Certified
    """For others who are to read the databases: whoever shows a certificate by this authority may write."""
    chassis: parts.OwnAuthority | None = None
    """Authority of the nodes' certificates, which relays alone trust; None while nodes use plain text."""
    relay: Step | None = None
    """The Secret of the relays: the certificate with both authorities."""

    @property
    def mounts(self) -> tuple[kube.Mount, ...]:
        """Of a database, as soon as there is one."""
        return self.own.mounts(parts.OVN_TLS)

    @property
    def clients(self) -> tuple[kube.Mount, ...]:
        """Of who calls a database, once it is told to do so by TLS."""
        return self.mounts if self.own.published else ()

    @property
    def on_nodes(self) -> tuple[kube.Mount, ...]:
        """Of a program on a node, which has a certificate of its own."""
        return parts.ovn_node_mounts() if self.chassis else ()

    @property
    def on_relays(self) -> tuple[kube.Mount, ...]:
        """Of a relay."""
        if self.relay is None:
            return self.mounts
        return (kube.folder("tls", self.relay.objects[0]["metadata"]["name"], parts.OVN_TLS),)

    @property
    def options(self) -> list[str]:
        """The same on the command line of a program of OVN's."""
        files = {"private-key": "tls.key", "certificate": "tls.crt", "ca-cert": "ca.crt"}
        return [f"--{option}={parts.OVN_TLS}/{file}" for option, file in files.items()] if self.clients else []

    @property
    def steps(self) -> tuple[Step, ...]:
        authority = [self.chassis.step, self.chassis.replacement] if self.chassis else []
        return (*self.own.steps, *self.client.steps, *authority, *([self.relay] if self.relay else []))

    @property
    def published(self) -> dict[str, str]:
        if not self.own.published:
            return {}
        return {parts.OVN_CLIENT: self.client.secret, **({parts.OVN_NODE_TLS: "true"} if self.chassis else {})}

    def connection(self, hosts: Sequence[str], port: int, secure: int) -> str:
        """What clients are told."""
        scheme, number = ("ssl", secure) if self.own.published else ("tcp", port)
        return ",".join(f"{scheme}:{host}:{number}" for host in hosts)


def secured(ctx: Context[OVNNetworkSpec]) -> Secured:
    """The certificates, if the spec asks for any. Open vSwitch looks at who vouches for one, not at its names."""
    if ctx.spec.tls and ctx.spec.image_profile == "kolla":
        raise NotBuilt("spec.tls", "kolla's images do not encrypt OVN's databases yet; remove it")
    sets = [("StatefulSet", kube.fitting(ctx.name(name), kube.STATEFUL_SET_LIMIT)) for name in ("nb", "sb")]
    also = [f"*.{ctx.host(ctx.name(name))}" for name in ("nb", "sb")]
    own, client = (
        parts.certified(ctx, ctx.name("relay"), workloads=sets, name=name, also=also, calls=True)
        for name in ("tls", "client-tls")
    )
    if not own.published or not ctx.spec.chassis.enabled:
        return Secured(own, client)
    live = ctx.children.get(("Deployment", kube.fitting(ctx.name("relay"))))
    readers = kube.judge(live) if live else READY
    chassis = parts.own_authority(ctx, "chassis", "nodes' connections to OVN", readers=readers)
    trusted = pki.bundle([own.files["ca.crt"], chassis.bundle], ctx.now)
    files = {**{name: own.files[name] for name in ("tls.crt", "tls.key")}, "ca.crt": trusted}
    secret = kube.secret(ctx, ctx.name("relay-tls"), files)
    step = Step(name="Certificate", objects=(secret,), after=(*own.steps, chassis.step))
    return Secured(own, client, chassis, step)


def schemes(held: str, tls: Secured, live: Object | None, *, single: bool, over: bool) -> str:
    """How a database's members speak with each other, as they read it: the scheme that is wanted, then the one some may
    still have; empty where nobody was told. `held` is what they were told before, `single` whether there is only one of
    them, `over` whether all have gone over. It is taken back from a single one at most. Raises SpecError for several
    that are to speak TLS without certificates.
    """
    if not tls.own:
        if held and not single:
            text = "members of OVN's databases speak TLS with each other; keep it until replicas are 1 and one is left"
            raise SpecError("spec.tls", text)
        return ""
    if not held:
        return "ssl,tcp" if tls.own.published and _rolled(live, refusing=tls.own.required) else ""
    return "ssl" if over else held


def _rolled(live: Object | None, *, refusing: bool) -> bool:
    """Whether no roll-out is under way or about to begin: members go over while all of them are there."""
    if live is None:
        return True
    status, env = live.get("status") or {}, live["spec"]["template"]["spec"]["containers"][0].get("env") or ()
    seen = status.get("observedGeneration", 0) >= live["metadata"].get("generation", 1)
    rolled = seen and status.get("currentRevision") == status.get("updateRevision")
    return rolled and any(each["name"] == "OVN_PLAIN" for each in env) == refusing
