"""The provider amphora: its options, its two authorities, its network, and the pods that look after amphorae."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import agents, kube, oslo, parts, pki
from ...api import PodSettings, Sections
from ...parts.connect.sources import messaging
from ...parts.connect.transport import Messaging
from ...parts.run.config import layered
from ...parts.run.config_check import known_options
from ...parts.secrets.authorities import OwnAuthority, own_authority
from ...plan import HOSTS, Context, Group, Step, UnsupportedError, waiting
from .amphora_model import Amphora
from .model import OctaviaSpec

CONTROLLERS = "controllers"
PASSWORD = "messaging"  # noqa: S105  (the name of one)
"""Name of the password at the broker."""
_FILES = "/etc/octavia/amphora-tls"
_SHARED = "/run/octavia-management"
"""Folder of what the first container finds out about the management network."""
_NODE_PROC = "/node/proc"
_NODES = "openstack.k8s.io/health-managers"
"""Annotation of the pods: the nodes that have one, with commas between them."""
_UNLIMITED = 100 * 365 * 24 * 60 * 60
"""Seconds of a time that nothing is older than; Octavia subtracts it from now, so it has an end."""
_HEARTBEATS = ":15B3 "
"""UDP port 5555 as the kernel lists it."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The provider amphora of an Octavia that has it."""

    amphora: Amphora
    messaging: Messaging
    keys: parts.Credentials
    """`heartbeat`, which all amphorae know, and `certificates`, which encrypts their keys on their way."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps that the API waits for."""
        return (self.messaging, self.keys)


def provider(ctx: Context[OctaviaSpec], base: parts.Foundation) -> Provider | None:
    """Return the provider if the spec has it. Raise UnsupportedError with images by Kolla."""
    amphora = ctx.spec.amphora
    if amphora is None:
        return None
    if ctx.spec.image_profile == "kolla":
        raise UnsupportedError(
            "spec.amphora", "Kolla's images are not supported; use imageProfile debian, or remove it"
        )
    broker = messaging(ctx, base.credentials, PASSWORD, source=amphora.messaging, path="spec.amphora.messaging")
    # With another key, no health manager would believe an amphora that it is alive.
    keys = parts.credentials(ctx, "heartbeat", "certificates", suffix="amphora", of_data=True)
    return Provider(amphora=amphora, messaging=broker, keys=keys)


def api_options(ctx: Context[OctaviaSpec], provider: Provider) -> Sections:
    """Return the options that the API and the controllers share."""
    client = {"endpoint_type": "internalURL", "region_name": ctx.spec.region}
    return oslo.merge(
        provider.messaging.options(),
        {
            "oslo_messaging": {"topic": "octavia_prov"},
            "controller_worker": {
                "compute_driver": "compute_nova_driver",
                "amp_image_tag": provider.amphora.image_tag,
                "loadbalancer_topology": provider.amphora.topology,
                "event_notifications": False,
            },
            "certificates": {**client, "server_certs_key_passphrase": _passphrase(provider.keys["certificates"])},
            "nova": {**client, "enable_anti_affinity": provider.amphora.topology == "ACTIVE_STANDBY"},
            "glance": client,
        },
    )


def _passphrase(password: str) -> str:
    """Return 32 characters of base64, which Octavia wants, with 192 bits of the password."""
    return base64.urlsafe_b64encode(hashlib.sha256(password.encode()).digest()).decode()[:32]


def _controller_options(ctx: Context[OctaviaSpec], provider: Provider) -> Sections:
    """Return the options of the controllers alone."""
    purge = ctx.spec.purge
    age = purge.days * 24 * 60 * 60 if purge.enabled else _UNLIMITED
    return {
        # Housekeeping has no option that turns the removal off.
        "house_keeping": {"amphora_expiry_age": age, "load_balancer_expiry_age": age},
        "certificates": {"ca_certificate": f"{_FILES}/ca.crt", "ca_private_key": f"{_FILES}/ca.key"},
        "haproxy_amphora": {"client_cert": f"{_FILES}/client.pem", "server_ca": f"{_FILES}/server-ca.crt"},
        "controller_worker": {"client_ca": f"{_FILES}/client-ca.crt"},
        "health_manager": {"heartbeat_key": provider.keys["heartbeat"]},
    }


_DEFAULTS: Sections = {
    # By default there are as many processes as CPUs, each with 100 MiB.
    "health_manager": {"health_update_threads": 2, "stats_update_threads": 2},
}


def amphora_steps(
    ctx: Context[OctaviaSpec], provider: Provider, fixed_options: Sections, defaults: Sections, after: Sequence[Step]
) -> Group:
    """Return the authorities, the network, and DaemonSet `<owner>-controllers`; `fixed_options` are the API's."""
    certificates, authorities = _certificates(ctx)
    options = layered(
        oslo.merge(oslo.options.defaults(), defaults, _DEFAULTS),
        provider.amphora.controllers.config,
        oslo.merge(fixed_options, _controller_options(ctx, provider)),
        "spec.amphora.controllers.config",
        catalog=known_options(ctx),
    )
    files = {"octavia.conf": oslo.render(options)}
    conf = parts.written(ctx, files, suffix=f"{CONTROLLERS}-config", directory="/etc/octavia")
    template = _template(ctx, provider, conf, certificates.objects[0]["metadata"]["name"])
    selection = kube.NodeSelection.of({"spec": {"template": template}})
    nodes = sorted(name for name, node in ctx.nodes.items() if selection.takes(name, node.labels))
    # An amphora is told the addresses of all health managers when it is made, so a new node restarts the pods.
    template["metadata"]["annotations"][_NODES] = ",".join(nodes)
    daemons = kube.agents(ctx, CONTROLLERS, template, "spec.amphora.controllers.nodeSelector")
    network = _network(ctx, provider.amphora, conf, nodes, after=after)
    after = (*after, *provider.steps, conf, network, certificates)
    pods = Step(name="Controllers", objects=(daemons,), after=after, turn=HOSTS)
    replacements = [each.replacement for each in authorities]
    return Group("Amphorae", [*(each.step for each in authorities), certificates, conf, network, pods, *replacements])


def _certificates(ctx: Context[OctaviaSpec]) -> tuple[Step, tuple[OwnAuthority, OwnAuthority]]:
    """Return Secret `<owner>-amphora-tls`: one authority signs the certificates of amphorae, another one those of
    controllers, so that no amphora can speak for a controller.
    """
    servers = own_authority(ctx, "amphorae", "amphorae")
    # An amphora gets its authorities when it is made, and no others later.
    unknown = waiting("the failover of all load balancers of the provider amphora")
    clients = own_authority(ctx, CONTROLLERS, "controllers of amphorae", readers=unknown)
    files = ctx.secret("amphora-tls")
    stored = pki.Pair(files["tls.key"], files["tls.crt"]) if files.keys() >= {"tls.key", "tls.crt"} else None
    names = frozenset({"octavia-controller"})
    request = pki.Request(common="octavia-controller", names=names, calls=True, serves=False)
    pair = pki.certificate(stored, request, clients.signer, ctx.draw, ctx.now)
    secret = kube.secret(
        ctx,
        ctx.name("amphora-tls"),
        {
            "ca.crt": servers.signer.cert,
            "ca.key": servers.signer.key,
            "client-ca.crt": clients.bundle,
            "client.pem": pair.cert + pair.key,
            "server-ca.crt": servers.bundle,
            "tls.crt": pair.cert,
            "tls.key": pair.key,
        },
    )
    step = Step(
        name="Certificates",
        objects=(secret,),
        guarded=True,
        after=(servers.step, clients.step),
        wake=pki.change(pair, ctx.now),
    )
    return step, (servers, clients)


def _settings(amphora: Amphora) -> str:
    flavor = amphora.flavor
    size = {
        "vcpus": flavor.vcpus,
        "ram": int(kube.amount(flavor.memory) // 2**20),
        "disk": int(-(-kube.amount(flavor.disk) // 2**30)),
    }
    key = {"sshKey": amphora.ssh_key} if amphora.ssh_key else {}
    return json.dumps({"cidr": amphora.management_cidr, "flavor": size, **key}, sort_keys=True)


def _program(action: str) -> list[str]:
    return ["python3", "-c", agents.text("octavia/management.py"), action]


def _network(
    ctx: Context[OctaviaSpec], amphora: Amphora, conf: parts.Config, nodes: Sequence[str], *, after: Sequence[Step]
) -> Step:
    """Return the Job that makes the management network, with a port for each of the nodes."""
    return parts.job(
        ctx,
        "management",
        _program("prepare"),
        conf,
        after=after,
        condition="ManagementNetwork",
        program=parts.ProgramSettings(
            release_component="worker", env={"SETTINGS": _settings(amphora), "NODES": ",".join(nodes)}
        ),
    )


def _template(ctx: Context[OctaviaSpec], provider: Provider, conf: parts.Config, certificates: str) -> kube.Object:
    env: Mapping[str, Any] = {"PYTHONUNBUFFERED": "1"}
    shared = kube.scratch(_SHARED)
    mounts = (
        *conf.mounts,
        kube.folder("amphora-tls", certificates, _FILES),
        *shared,
        *kube.scratch("/tmp", "/run", parts.state(ctx)),  # noqa: S108
    )
    port = kube.Container(
        entry=parts.release_entry(ctx, "worker"),
        name="port",
        command=_program("port"),
        env={
            "SETTINGS": _settings(provider.amphora),
            "NODE": {"fieldRef": {"fieldPath": "spec.nodeName"}},
            "NODES": {"fieldRef": {"fieldPath": f"metadata.annotations['{_NODES}']"}},
            "FOLDER": _SHARED,
        },
        mounts=mounts,
        memory="192Mi",
    )
    # Other clouds may have ports at the same switch. Linux stops at 15 characters.
    interface = f"o-hm-{kube.digest([ctx.namespace, ctx.owner])[:8]}"
    proc = kube.Mount(
        name="node-proc", path=_NODE_PROC, volume={"hostPath": {"path": "/proc", "type": "Directory"}}, read_only=True
    )
    join = kube.Container(
        entry=ctx.release["ovs-vswitchd"],
        name="join",
        command=agents.shell("octavia/join_network.sh"),
        env={"INTERFACE_FILE": f"{_SHARED}/interface", "NODE_INTERFACE": interface, "NODE_PROC": _NODE_PROC},
        mounts=(*shared, kube.host("openvswitch", "/run/openvswitch"), proc),
        memory="32Mi",
        privileged=True,
        root=True,
        # The image of the spec is Octavia's, and never runs as root.
        settings=PodSettings(),
    )
    listens = kube.Probe.of_worker(["grep", "-qs", _HEARTBEATS, "/proc/net/udp", "/proc/net/udp6"])
    programs: Mapping[str, Mapping[str, Any]] = {
        "worker": {"ready": provider.messaging.connected, "memory": "256Mi"},
        "health-manager": {"ready": listens, "alive": listens, "memory": "448Mi"},
        "housekeeping": {"memory": "160Mi"},
    }
    containers = [
        kube.Container(entry=parts.release_entry(ctx, name), name=name, env=env, mounts=mounts, **settings)
        for name, settings in programs.items()
    ]
    return kube.pod(
        ctx,
        CONTROLLERS,
        *containers,
        settings=kube.settings(provider.amphora.controllers),
        init=(port, join),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        # A worker finishes the load balancers it works on.
        grace=300,
    )
