"""Consoles of servers: QEMU and the proxies speak TLS, and know each other by certificates of an authority that serves
nothing else: a proxy faces the world, and a client that may call libvirt is root on every node. The accounts of a proxy
allow little else, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import kube, oslo, parts, pki
from ...api import Sections
from ...parts.connect import sources
from ...parts.secrets.authorities import OwnAuthority, own_authority
from ...plan import Context, Step, UnsupportedError
from . import config, limited_accounts
from .migration import CERTIFICATES_ENV, MOUNT_PATH, libvirt_verdict
from .model import NovaSpec

_NODE, _PROXY = "/etc/openstack-consoles", "/etc/openstack-console"
NODE_FILES = ("ca-cert.pem", "server-cert.pem", "server-key.pem")
"""Files of a node: the authority, the certificate and its key."""

# Tables that nova.console.websocketproxy reads: a token, its server with what every look at a server joins
# (nova.db.main.api._build_instance_get), and versions of nova-compute where [upgrade_levels] compute is auto.
_TABLES = (
    "console_auth_tokens",
    "instances",
    "instance_info_caches",
    "security_groups",
    "security_group_instance_association",
    "security_group_rules",
    "services",
)
_PROCESS = "nova-novncproxy"
# oslo.messaging's queue manager makes it of host name, process name and a number.
_REPLIES = f"reply_[^:]+:{_PROCESS}:[0-9]+"


@dataclass(frozen=True, kw_only=True)
class Consoles:
    """Steps and mounts for the TLS of consoles; none where the cloud has no compute nodes of its own."""

    authority: OwnAuthority | None = None
    steps: tuple[Step, ...] = ()
    node: tuple[kube.Mount, ...] = ()
    """Mounts of libvirt, whose QEMUs encrypt where it finds certificates."""
    proxy: tuple[kube.Mount, ...] = ()
    node_files: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Files of the certificate that all nodes share."""

    def options(self, *, required: bool) -> Sections:
        """Return a proxy's options. It reaches servers that started without a certificate unless TLS is required."""
        if not self.steps:
            return {}
        return {
            "vnc": {
                "auth_schemes": "vencrypt" if required else "vencrypt,none",
                "vencrypt_client_cert": f"{_PROXY}/tls.crt",
                "vencrypt_client_key": f"{_PROXY}/tls.key",
                "vencrypt_ca_certs": f"{_PROXY}/ca.crt",
            }
        }

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs that run before libvirt."""
        return ("nova/follow_consoles.sh",) if self.steps else ()

    @property
    def env(self) -> dict[str, str]:
        """Environment of these programs."""
        return dict(CERTIFICATES_ENV) if self.steps else {}


def plan_consoles(ctx: Context[NovaSpec]) -> Consoles:
    """Plan the authority, a certificate for all nodes and one for all proxies. Raises UnsupportedError where TLS
    is required of images that do not have it.
    """
    if not ctx.spec.has_nodes:
        return Consoles()
    if ctx.spec.image_profile != "debian":
        if ctx.spec.tls and ctx.spec.tls.required:
            message = "kolla's images do not encrypt consoles between nodes and proxies; use false"
            raise UnsupportedError("spec.tls.required", message)
        return Consoles()
    ca = own_authority(ctx, "console", "consoles", readers=libvirt_verdict(ctx))
    # No client calls these names: they say whose certificate it is, and which of the two.
    compute = pki.Request(common="compute", names=frozenset({"compute.invalid"}))
    novncproxy = pki.Request(common="novncproxy", names=frozenset({"novncproxy.invalid"}), calls=True, serves=False)
    node = _certificate(ctx, "console-node", compute, ca, NODE_FILES)
    proxy = _certificate(ctx, "console-proxy", novncproxy, ca, ("ca.crt", "tls.crt", "tls.key"))
    return Consoles(
        authority=ca,
        steps=(ca.step, node, proxy),
        node=node_mounts(node.objects[0]["metadata"]["name"]),
        node_files=kube.secret_data(node.objects[0]),
        proxy=(kube.folder("console", proxy.objects[0]["metadata"]["name"], _PROXY),),
    )


def node_mounts(secret: str) -> tuple[kube.Mount, ...]:
    """Return the mounts of libvirt for a Secret with NODE_FILES."""
    return (
        kube.folder("consoles", secret, f"{MOUNT_PATH}/consoles", mode=0o400),
        kube.in_memory("consoles-files", _NODE),
    )


def console_accounts(
    ctx: Context[NovaSpec],
    cell: str,
    creds: parts.Credentials,
    db: sources.Database,
    bus: sources.Messaging,
    schema: Step,
) -> tuple[sources.Database, sources.Messaging]:
    """Return the accounts by which a cell's proxy reads tokens and servers, once the `schema` exists, and asks a
    server's nova-compute whether a port is that of its console.
    """
    # Nova's default; the user may set another name.
    exchange_name = str(ctx.spec.config.get("DEFAULT", {}).get("control_exchange", "nova"))
    exchange = re.escape(exchange_name)
    allowed = {
        # A publisher declares the exchange first.
        "configure": f"^({exchange}|{_REPLIES})$",
        "write": f"^{exchange}$",
        "read": f"^{_REPLIES}$",
        # Not to conductors, which make any change to the schema that a message requests.
        "routingKeys": {exchange_name: r"^compute\."},
    }
    return (
        limited_accounts.reader(
            ctx, creds, f"{cell}--console-database", db, _TABLES, name=f"{cell}-db--console", after=(schema,)
        ),
        limited_accounts.caller(ctx, creds, f"{cell}--console-messaging", bus, allowed, name=f"{cell}--console"),
    )


def console_conf(
    ctx: Context[NovaSpec], cell: str, db: sources.Database, bus: sources.Messaging, console_tls: Sections
) -> parts.Config:
    """Return nova.conf of a cell's proxy: no user of Keystone, since it calls no API."""
    replies = {"oslo_messaging_rabbit": {"processname": _PROCESS}}
    console = config.novncproxy(ctx.any_address)
    fixed_options = oslo.merge(config.database(db.url), bus.options(), replies, console, console_tls)
    return parts.config(ctx, "nova.conf", fixed_options, suffix=f"{cell}--console-config")


def _certificate(
    ctx: Context[NovaSpec], name: str, request: pki.Request, ca: OwnAuthority, files: tuple[str, str, str]
) -> Step:
    """Make a Secret with the authority, the certificate and its key under the names of `files`."""
    bundle, cert, key = files
    live: Mapping[str, str] = ctx.secret(name)
    live_pair = pki.Pair(live[key], live[cert]) if {cert, key} <= live.keys() else None
    pair = pki.certificate(live_pair, request, ca.signer, ctx.draw, ctx.now)
    secret = kube.secret(ctx, ctx.name(name), {bundle: ca.bundle, cert: pair.cert, key: pair.key})
    return Step(name="Consoles", objects=(secret,), after=(ca.step,), guarded=True, wake=pki.change(pair, ctx.now))
