"""BIND: servers that have each zone on a volume of their own, and add and remove zones by `rndc`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace

from ... import kube, parts
from ...parts.members import POD_NAME, volume
from ...plan import Context, Object
from . import config
from .config import SERVER_PORT, ServerPool, Tsig
from .model import DesignateSpec
from .servers import Addresses, Backend, pod_services

COMPONENT = "bind9"
RNDC = "rndc"
"""The key of commands to a server, by the name under which both of its users know it."""
CONTROL_PORT = 9953

_FOLDER = "/etc/named"
_ZONES = "/var/lib/named"
_RNDC_FILE = f"{_FOLDER}/rndc.key"


def keys(pool: ServerPool) -> Sequence[str]:
    """Return the names of the keys of its servers."""
    return (pool.prefixed(RNDC), pool.transfer)


def services(ctx: Context[DesignateSpec], pool: ServerPool) -> Sequence[Object]:
    """Return a Service for each server: Designate commands each, and asks each whether it answers."""
    return pod_services(ctx, pool.prefixed(COMPONENT), pool.spec.bind9, SERVER_PORT, control=CONTROL_PORT)


def backend(
    ctx: Context[DesignateSpec], pool: ServerPool, credentials: parts.Credentials, tsig: Tsig, addresses: Addresses
) -> Backend:
    """Return StatefulSet `<owner>-bind9` with its configuration, and the keys for its commands: each server has its
    own, and sees no other's.
    """
    spec, component, root = pool.spec.bind9, pool.prefixed(COMPONENT), credentials[pool.prefixed(RNDC)]
    cluster = parts.cluster(ctx, component, ctx.name(component), storage=spec, path=f"{pool.path}.bind9")
    replicas = kube.replicas(ctx.spec.replicas, spec.settings)
    names = cluster.pod_names(replicas)
    folder = f"{config.FOLDER}/{pool.prefixed(RNDC)}"
    rndc = {name: key_file(_rndc_key(root, name)) for name in names}
    file = parts.written(ctx, rndc, suffix=pool.prefixed(RNDC), directory=folder)
    named_conf = {"named.conf": _named_conf(tsig, ctx.any_address)}
    conf = parts.written(ctx, named_conf, suffix=f"{component}-config", directory=_FOLDER)
    main = _container(ctx, conf, file, root)
    servers = cluster.step(
        cluster.template(main, config=conf),
        ports={"dns": SERVER_PORT, "control": CONTROL_PORT},
        replicas=replicas,
        condition="Servers",
        after=(credentials, conf, file),
        # Zones that were deleted since would come back with the volume of a server that is added again.
        keeps_volumes=False,
    )
    hosts = addresses.servers.get(pool.name, ())
    return Backend(
        component=component,
        control=CONTROL_PORT,
        steps=(conf, file, servers),
        servers=config.endpoints(hosts, SERVER_PORT),
        targets=[
            config.target(
                "bind9",
                f"server {number}",
                addresses.masters,
                address,
                rndc_host=address,
                rndc_port=CONTROL_PORT,
                rndc_key_file=f"{folder}/{name}",
                clean_zonefile=True,
            )
            for number, (address, name) in enumerate(zip(hosts, names, strict=True))
        ]
        if hosts
        else [],
        prerequisites=(file,),
        mounts=kube.files(pool.prefixed(RNDC), file.secret, folder, *file.files),
        # Pods restart with another key.
        env={pool.variable("RNDC_DIGEST"): file.digest},
    )


def _container(ctx: Context[DesignateSpec], conf: parts.Config, file: parts.Config, root: str) -> kube.Container:
    # Only the file of this name is in the container.
    (own_key,) = kube.files(RNDC, file.secret, _FOLDER, "$(POD_NAME)")
    return kube.Container(
        entry=parts.release_entry(ctx, COMPONENT),
        # Servers restart with another key, but not as another server is added. (The first restarts as the second is:
        # its pod gets an affinity.)
        env={**POD_NAME, "RNDC_DIGEST": kube.digest(root)},
        ports={"dns": SERVER_PORT, "control": CONTROL_PORT},
        mounts=(
            *conf.mounts,
            replace(own_key, path=_RNDC_FILE),
            volume(_ZONES, "named"),
            *kube.scratch("/run", "/tmp"),  # noqa: S108
        ),
        ready=kube.Probe(tcp=SERVER_PORT),
        alive=kube.Probe(tcp=SERVER_PORT),
        memory="64Mi",
    )


def _rndc_key(root: str, server: str) -> Tsig:
    """Return the key of commands to one server: who has it learns neither the drawn one nor that of another server."""
    key = hmac.new(root.encode(), server.encode(), hashlib.sha256).hexdigest()
    return Tsig(name=RNDC, secret=config.secret(key))


def key_file(key: Tsig) -> str:
    """Return a key as BIND's programs read it."""
    return f'key "{key.name}" {{\n    algorithm {key.algorithm};\n    secret "{key.secret}";\n}};\n'


def _named_conf(tsig: Tsig, any_address: str) -> str:
    """Return named.conf: a server that only answers for the zones that rndc adds, and transfers them by a signed
    request.
    """
    return f"""\
include "{_RNDC_FILE}";
{key_file(tsig)}options {{
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
    inet {any_address} port {CONTROL_PORT} allow {{ any; }} keys {{ "{RNDC}"; }};
}};
server 0.0.0.0/0 {{ keys {{ "{tsig.name}"; }}; }};
server ::/0 {{ keys {{ "{tsig.name}"; }}; }};
logging {{
    channel container {{ stderr; severity info; }};
    category default {{ container; }};
    category unmatched {{ null; }};
}};
"""
