"""One address of each database, by a name and port of their choice, for those who are not told by a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import kube
from ...plan import Context, SpecError, Step
from .cluster_model import Connection, Integration
from .databases import NORTHBOUND, SOUTHBOUND, Database
from .model import OVNNetworkSpec
from .tls import Secured


@dataclass(frozen=True)
class Entries:
    """Services, and what the status says of them."""

    steps: tuple[Step, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


def entries(ctx: Context[OVNNetworkSpec], tls: Secured, neutron: Integration) -> Entries:
    """A Service for each database that is to be reached by another name than its own. Raises SpecError for names and
    ports that are others'.
    """
    asked = {NORTHBOUND: neutron.nb_connection, SOUTHBOUND: neutron.sb_connection}
    steps: list[Step] = []
    found: dict[str, str] = {}
    taken = {ctx.name(name) for name in ("nb", "sb", "relay")}
    for database, connection in asked.items():
        own, name, port = ctx.name(database.name), ctx.name(database.name), _port(database, tls)
        if connection:
            _check(connection, database, own, taken, port)
            name = connection.service.name
            port = connection.service.port if name != own else port
        if name != own:
            taken.add(name)
            steps.append(Step(name=database.condition, objects=(_service(ctx, database, name, port, tls),)))
        scheme = "ssl" if tls.own.published else "tcp"
        found[database.condition.lower()] = f"{scheme}:{ctx.host(name)}:{port}"
    return Entries(tuple(steps), {"endpoints": found})


def _port(database: Database, tls: Secured) -> int:
    return database.secure if tls.own.published else database.client


def _check(connection: Connection, database: Database, own: str, taken: set[str], port: int) -> None:
    path, wanted = f"spec.neutronIntegration.{database.name}Connection.service", connection.service
    if wanted.name == own and wanted.port not in (database.client, database.secure):
        text = f"behind the Service {own} are the members, which answer at {port}; write that, or another name"
        raise SpecError(f"{path}.port", text)
    if wanted.name != own and wanted.name in taken:
        raise SpecError(f"{path}.name", f"the Service {wanted.name} is another one's; choose another name")


def _service(ctx: Context[OVNNetworkSpec], database: Database, name: str, port: int, tls: Secured) -> kube.Object:
    target = {"name": "ovsdb", "port": port, "protocol": "TCP", "targetPort": _port(database, tls)}
    return kube.obj(ctx, "Service", name, spec={"selector": kube.selector(ctx, database.name), "ports": [target]})
