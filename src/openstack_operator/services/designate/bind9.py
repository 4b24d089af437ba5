"""BIND: servers that have each zone on a volume of their own, and add and remove zones by `rndc`."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, parts
from ...parts.cluster import volume
from ...plan import Context, Object
from . import config
from .config import ALGORITHM, SERVER_PORT, TRANSFER
from .model import DesignateSpec
from .servers import Addresses, Backend, pod_services

COMPONENT = "bind9"
RNDC = "rndc"
"""The key of commands to a server, by the name under which both of its users know it."""
KEYS = (RNDC, TRANSFER)
CONTROL_PORT = 9953

_FOLDER = "/etc/named"
_ZONES = "/var/lib/named"
_RNDC_FILE = "rndc.key"


def services(ctx: Context[DesignateSpec]) -> Sequence[Object]:
    """Return a Service for each server: Designate commands each, and asks each whether it answers."""
    return pod_services(ctx, COMPONENT, ctx.spec.bind9, SERVER_PORT, control=CONTROL_PORT)


def backend(
    ctx: Context[DesignateSpec], base: parts.Foundation, keys: parts.Credentials, addresses: Addresses
) -> Backend:
    """Return StatefulSet `<owner>-bind9` with its configuration, and the key for its commands."""
    spec = ctx.spec.bind9
    conf = parts.written(ctx, {"named.conf": _named_conf(keys)}, suffix="bind9-config", directory=_FOLDER)
    main = kube.Container(
        component=parts.program(ctx, COMPONENT),
        ports={"dns": SERVER_PORT, "control": CONTROL_PORT},
        mounts=(*conf.mounts, volume(_ZONES, "named"), *kube.scratch("/run", "/tmp")),  # noqa: S108
        ready=kube.Probe(tcp=SERVER_PORT),
        alive=kube.Probe(tcp=SERVER_PORT),
        memory="64Mi",
    )
    cluster = parts.cluster(ctx, COMPONENT, ctx.name(COMPONENT), storage=spec, path="spec.bind9")
    servers = cluster.step(
        cluster.template(main, config=conf),
        ports={"dns": SERVER_PORT, "control": CONTROL_PORT},
        replicas=kube.replicas(ctx.spec.replicas, spec.component),
        condition="Servers",
        after=(keys, conf),
        # Zones that were deleted since would come back with the volume of a server that is added again.
        keeps_volumes=False,
    )
    rndc = {_RNDC_FILE: _key_file(RNDC, keys[RNDC])}
    file = parts.written(ctx, rndc, suffix=RNDC, directory=config.FOLDER)
    return Backend(
        component=COMPONENT,
        control=CONTROL_PORT,
        steps=(conf, servers, file),
        targets=[
            config.target(
                "bind9",
                f"server {number}",
                addresses.mdns,
                address,
                rndc_host=address,
                rndc_port=CONTROL_PORT,
                rndc_key_file=f"{config.FOLDER}/{_RNDC_FILE}",
                clean_zonefile=True,
            )
            for number, address in enumerate(addresses.servers)
        ],
        needs=(file,),
        mounts=kube.files(RNDC, file.secret, config.FOLDER, *file.files),
        # Pods restart with another key.
        env={"RNDC_DIGEST": file.digest},
    )


def _key_file(name: str, password: str) -> str:
    """Return a key as BIND's programs read it."""
    return f'key "{name}" {{\n    algorithm {ALGORITHM};\n    secret "{config.secret(password)}";\n}};\n'


def _named_conf(keys: parts.Credentials) -> str:
    """Return named.conf: a server that only answers for the zones that rndc adds, and transfers them by a
    signed request.
    """
    return f"""\
{_key_file(RNDC, keys[RNDC])}{_key_file(TRANSFER, keys[TRANSFER])}options {{
    directory "{_ZONES}";
    pid-file "/run/named.pid";
    session-keyfile "/run/session.key";
    managed-keys-directory "/run";
    listen-on port {SERVER_PORT} {{ any; }};
    listen-on-v6 port {SERVER_PORT} {{ any; }};
    allow-new-zones yes;
    allow-query {{ any; }};
    allow-transfer {{ none; }};
    allow-update {{ none; }};
    // Workers send it, which have no fixed address and sign nothing. It only makes the server ask mdns, with its key.
    allow-notify {{ any; }};
    notify no;
    recursion no;
    dnssec-validation no;
    request-ixfr no;
    // A server that could not reach mdns asks again after so many seconds; a zone's own are minutes.
    min-retry-time 5;
    max-retry-time 15;
    minimal-responses yes;
    version none;
    hostname none;
}};
controls {{
    inet 0.0.0.0 port {CONTROL_PORT} allow {{ any; }} keys {{ "{RNDC}"; }};
}};
server 0.0.0.0/0 {{ keys {{ "{TRANSFER}"; }}; }};
server ::/0 {{ keys {{ "{TRANSFER}"; }}; }};
logging {{
    channel container {{ stderr; severity info; }};
    category default {{ container; }};
    category unmatched {{ null; }};
}};
"""
