"""The operator as a process: its connection, its lease and its orderly end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from . import __version__
from .actuators import egress
from .admission.policy_names import NAMESPACE
from .admission.presence import policies, watch_policies
from .cluster_domain import cluster_domain, is_ipv6
from .plan import NO_PERMISSIONS, Actuator, Permissions
from .registry import ACTUATORS, SERVICES
from .release_files import ReleaseFiles, packaged
from .runtime.kubernetes.client import Client
from .runtime.kubernetes.errors import LeadershipLostError
from .runtime.logs import configure
from .runtime.process import any_of
from .runtime.serve.leader import Leader
from .runtime.serve.manager import Manager
from .runtime.serve.ports import Ports

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

# All addresses of each family that the kernel has: the kubelet and Prometheus ask from outside the pod.
_ANY = ""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings from the command line."""

    namespaces: tuple[str, ...] = ()
    """Namespaces to serve; empty serves all."""
    lease_namespace: str | None = None
    """Namespace of the lease; None acts without one."""
    health_port: int = 8080
    """Port of health checks; 0 serves none."""
    metrics_port: int = 8443
    """Port of metrics over TLS; 0 serves none."""
    metrics_certificate: Path | None = None
    """Folder with tls.crt and tls.key; None has the process make a certificate."""
    metrics_insecure: bool = False
    """True if metrics are served at the health port, in plain text and to everybody, and at no other one."""
    releases: Path | None = None
    """Folder of release files that win over the packaged ones."""
    cluster_domain: str = ""
    """DNS domain of the Kubernetes cluster; empty asks /etc/resolv.conf."""
    build: str = ""
    """Identifier of a build of the version, in the statuses that this operator writes."""
    allowed_addresses: tuple[str, ...] = ()
    """Networks that the operator connects to for resources, though their addresses are of this machine or the link."""
    permissions: Permissions = NO_PERMISSIONS
    """Permissions of resources beyond their namespace."""
    json_logs: bool = True
    debug: bool = False

    @property
    def version(self) -> str:
        """Version of this operator, with its build as in Semantic Versioning: 0.1.0+1f2e3d. Cut to the 63 characters
        that the definition of a status allows: the API server would refuse every status otherwise.
        """
        return f"{__version__}+{self.build}"[:63] if self.build else __version__


def serve(settings: Settings, actuators: Sequence[Actuator] = ACTUATORS) -> int:
    """Run the operator until SIGTERM or SIGINT and return the exit status. If the lease is lost, restart the process at
    once, as a candidate.
    """
    configure(json=settings.json_logs, debug=settings.debug)
    egress.allow(settings.allowed_addresses)
    _log.info("starting", version=settings.version, namespaces=settings.namespaces or "all")
    try:
        asyncio.run(_serve(settings, actuators))
    except LeadershipLostError as error:
        _log.error("stopped", error=str(error))
        sys.stdout.flush()
        # Threads that speak to a remote side must not go on, and Python would wait for them: a new program ends them.
        # A restart by the kubelet would end in its back-off, minutes without a leader, once the API server has been
        # slow a few times.
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606  (itself)
    return 0


def make_manager(client: Client, settings: Settings, actuators: Sequence[Actuator], leader: Leader | None) -> Manager:
    """Return the operator with these settings, not running yet."""
    releases = ReleaseFiles(*(folder for folder in (settings.releases, packaged()) if folder))
    ports = Ports(
        health=(_ANY, settings.health_port) if settings.health_port else None,
        metrics=(_ANY, settings.metrics_port) if settings.metrics_port else None,
        certificate=settings.metrics_certificate,
        insecure=settings.metrics_insecure,
    )
    return Manager(
        client,
        SERVICES,
        actuators,
        releases,
        settings.namespaces,
        leader=leader,
        ports=ports,
        domain=settings.cluster_domain or cluster_domain(),
        is_ipv6=is_ipv6(os.environ),
        version=settings.version,
        release_versions=releases.versions,
        permissions=settings.permissions,
    )


async def _serve(settings: Settings, actuators: Sequence[Actuator]) -> None:
    client = Client.connect()
    leader = (
        Leader(client, settings.lease_namespace, f"{socket.gethostname()}-{os.getpid()}", connect=Client.connect)
        if settings.lease_namespace
        else None
    )
    manager = make_manager(client, settings, actuators, leader)
    _log.info("names of this cluster", domain=manager.cluster_domain)
    try:
        expected = partial(policies, settings.lease_namespace or NAMESPACE)
        await any_of(manager.run(), watch_policies(client, expected))
    finally:
        await client.close()
