"""The exporter of a server's metrics, beside it in its pod, with an account that may ask for statistics alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from ... import kube, parts
from ...parts.expose.monitoring import monitored, watched
from ...parts.run import exporters
from ...plan import Context, Object
from .config import PORT, TLS, TLS_PORT
from .model import ValkeySpec

ACCOUNT = "metrics"
"""Account, and key of its password among the credentials."""
_PORT = 9121
_COMPONENT = "valkey-exporter"
_SECRET = "/etc/exporter/secret"  # noqa: S105  (a path)
_COMMANDS = "+ping +info +latency|latest +latency|histogram +slowlog|len +client|setname"


def has_exporter(ctx: Context[ValkeySpec]) -> bool:
    """Return True if the spec enables metrics, and the images have an exporter."""
    return monitored(ctx) and _COMPONENT in ctx.release.components


def account(password: str) -> str:
    """Return the account for valkey.conf. It reads no key, nor `SLOWLOG GET`, which quotes keys and values of clients:
    the exporter goes without its three metrics of the last slow command.
    """
    return f"{ACCOUNT} on #{hashlib.sha256(password.encode()).hexdigest()} resetkeys resetchannels -@all {_COMMANDS}"


def containers(
    ctx: Context[ValkeySpec], creds: parts.Credentials, certificate: parts.Certified, *, plain: bool
) -> list[kube.Container]:
    """Return the container, which connects at the pod's own address; none if metrics are off or the images have no
    exporter. The server takes `plain` text, or else TLS alone.
    """
    if not has_exporter(ctx):
        return []
    entry = ctx.release[_COMPONENT]
    program = exporters.upstream(
        # In the group of the server, so that the pod has one group for its volumes.
        replace(entry, gid=ctx.release["valkey"].gid),
        _PORT,
        entry.command,
        {
            "REDIS_ADDR": f"redis://localhost:{PORT}" if plain else f"rediss://localhost:{TLS_PORT}",
            "REDIS_USER": ACCOUNT,
            "PASSWORD_FILE": f"{_SECRET}/password",
            "PASSWORD_VARIABLE": "REDIS_PASSWORD",
        },
        kube.folder("metrics-account", creds.secret, _SECRET, files={"password": ACCOUNT}),
    )
    return [exporters.beside(ctx, program, certificate, TLS)]


def monitors(ctx: Context[ValkeySpec], certificate: parts.Certified) -> tuple[Object, ...]:
    """Return the objects by which a Prometheus finds the metrics."""
    return watched(ctx, "server", _PORT, certificate, ctx.name()) if has_exporter(ctx) else ()
