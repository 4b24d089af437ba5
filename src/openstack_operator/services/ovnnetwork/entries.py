"""One address of each database, with a name and port that the user chooses, for clients without a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import kube
from ...plan import Context, SpecError, Step
from .cluster_model import Connection, Integration
from .databases import NORTHBOUND, SOUTHBOUND, Database
from .model import OVNNetworkSpec
from .tls import TLS


@dataclass(frozen=True)
class Entries:
    """Services, and their part of the status."""

    steps: tuple[Step, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


def entries(ctx: Context[OVNNetworkSpec], tls: TLS, neutron: Integration) -> Entries:
    """Return a Service for each database that clients reach by another name than that of its members. Raises SpecError
    for names and ports of other Services.
    """
    connections = {NORTHBOUND: neutron.nb_connection, SOUTHBOUND: neutron.sb_connection}
    steps: list[Step] = []
    endpoints: dict[str, str] = {}
    used_names = {ctx.name(name) for name in ("nb", "sb", "relay")}
    for database, connection in connections.items():
        members_name, name, port = ctx.name(database.name), ctx.name(database.name), _port(database, tls)
        if connection:
            _check(connection, database, members_name, used_names, port)
            name = connection.service.name
            port = connection.service.port if name != members_name else port
        if name != members_name:
            used_names.add(name)
            steps.append(Step(name=database.condition, objects=(_service(ctx, database, name, port, tls),)))
        scheme = "ssl" if tls.server.published else "tcp"
        endpoints[database.condition.lower()] = f"{scheme}:{ctx.host(name)}:{port}"
    return Entries(tuple(steps), {"endpoints": endpoints})


def _port(database: Database, tls: TLS) -> int:
    return database.tls_port if tls.server.published else database.client_port


def _check(connection: Connection, database: Database, members_name: str, used_names: set[str], port: int) -> None:
    path, service = f"spec.neutronIntegration.{database.name}Connection.service", connection.service
    if service.name == members_name and service.port not in (database.client_port, database.tls_port):
        text = f"the members behind Service {members_name} use port {port}; set that port, or another name"
        raise SpecError(f"{path}.port", text)
    if service.name != members_name and service.name in used_names:
        raise SpecError(f"{path}.name", f"Service {service.name} belongs to another owner; choose another name")


def _service(ctx: Context[OVNNetworkSpec], database: Database, name: str, port: int, tls: TLS) -> kube.Object:
    target = {"name": "ovsdb", "port": port, "protocol": "TCP", "targetPort": _port(database, tls)}
    return kube.obj(ctx, "Service", name, spec={"selector": kube.selector(ctx, database.name), "ports": [target]})
