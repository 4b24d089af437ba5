"""OVNChassis: what OVN's southbound database knows of a node, and that it forgets a node that is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import msgspec

from ..parts import OVN_CLIENT, OVN_NODES
from ..plan import READY, Context, Outcome, Transient, Verdict, progressing
from . import access
from .answers import fault, strange
from .network_models import OVNChassisSpec
from .ovsdb import Operation, transact

CONNECTED = "OVSConnected"
NOTED = "openstack-operator:registered-at"
"""Key in external_ids of a Chassis_Private, which is left to others by OVN: when the node was first seen there."""
_SB = "OVN_Southbound"
_STEP = timedelta(minutes=5)
"""Of what is told of heartbeats: those of thousands of nodes, each written as it comes, would be most of what the API
server does."""
_SILENT = timedelta(minutes=5)
"""Without an answer though asked, a node is away. Neutron gives it 75 s, and asks about twice a minute."""


def ensure(ctx: Context[OVNChassisSpec]) -> Sequence[str]:
    """The node's entry says since when it is there; the entry itself is ovn-controller's to make. Raises Transient."""
    found = _look(ctx)
    if not found.registered or NOTED in found.notes:
        return ()
    noted = ["map", [[NOTED, _stamp(ctx.now)]]]
    # Inserted, so that another one that is there by now stays.
    mutation: Operation = {"mutations": [["external_ids", "insert", noted]]}
    _transact(ctx, [{"op": "mutate", "table": "Chassis_Private", "where": _named(ctx), **mutation}])
    return (f"chassis {_name(ctx)} noted as registered",)


def remove(ctx: Context[OVNChassisSpec]) -> None:
    """The database has nothing of the node any more, unless it is one of the cluster's still: then only the resource
    was deleted, which comes back, and without its entry servers on it would lose their networks. Raises Transient.
    """
    published = ctx.refs[ctx.spec.cluster_ref].published
    node = ctx.nodes.get(ctx.owner)
    if node and OVN_NODES in published and node.selected(labels(published[OVN_NODES])):
        return
    own = _named(ctx)
    # As `ovn-sbctl chassis-del` does it. Ports that were bound there are bound nowhere then.
    _transact(
        ctx,
        [
            {"op": "delete", "table": "Chassis_Private", "where": own},
            {"op": "delete", "table": "Chassis", "where": own},
            {"op": "delete", "table": "Encap", "where": [["chassis_name", "==", _name(ctx)]]},
        ],
    )


def seen(ctx: Context[OVNChassisSpec]) -> Outcome:
    """What the database knows of the node. It is Ready once it is connected, and as its spec says. Raises Transient."""
    found = _look(ctx)
    if not found.registered:
        text = f"{_name(ctx)} has not registered in OVN's southbound database; see the pod of the switch on that node"
        return Outcome(told={CONNECTED: progressing(text), "Ready": progressing(text)})
    connected = _connected(found, ctx.now)
    other = [f"spec.{name}" for name, same in _taken_over(ctx.spec, found).items() if not same]
    taking = progressing(f"the node has not taken over {', '.join(other)} yet") if other else READY
    beat = _floor(found.heartbeat)
    details = {
        # A node writes there what it likes; a status has room for so much.
        "registeredAt": found.notes.get(NOTED, "")[:32],
        "lastHeartbeat": _stamp(beat) if beat else None,
        "bridgeMappings": [
            {"physicalNetwork": name[:255], "bridge": bridge[:255]}
            for name, bridge in islice(found.mappings.items(), 64)
        ],
        "encapsulation": {"type": found.encaps[0][0][:63], "ip": found.encaps[0][1][:255]} if found.encaps else None,
    }
    told = {CONNECTED: connected, "Ready": taking if connected.ready else connected}
    return Outcome(details={name: value for name, value in details.items() if value}, told=told)


def labels(text: str) -> dict[str, str]:
    """A nodeSelector as an OVN publishes it: label=value[,label=value]."""
    return dict(each.split("=", 1) for each in text.split(",") if each)


_Text = Annotated[str, msgspec.Meta(max_length=65536)]
_Map = tuple[Literal["map"], list[tuple[_Text, _Text]]]
"""A map as RFC 7047 writes it: ["map", [[key, value], …]]."""
_Moment = Annotated[int, msgspec.Meta(ge=0, lt=2**47)]
"""Milliseconds since 1970, before the year 6430."""


class _Global(TypedDict):
    nb_cfg: int


class _Chassis(TypedDict):
    other_config: _Map
    external_ids: _Map


class _Private(TypedDict):
    nb_cfg: int
    nb_cfg_timestamp: _Moment
    external_ids: _Map


class _Encap(TypedDict):
    type: _Text
    ip: _Text


RowT = TypeVar("RowT")


@dataclass(frozen=True)
class _Found:
    registered: bool = False
    behind: int = 0
    """Questions of OVN's it has not answered."""
    heartbeat: datetime | None = None
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    mappings: Mapping[str, str] = field(default_factory=dict[str, str])
    encaps: Sequence[tuple[str, str]] = ()


def _look(ctx: Context[OVNChassisSpec]) -> _Found:
    tables = {
        "SB_Global": ([], ["nb_cfg"]),
        "Chassis": (_named(ctx), ["other_config", "external_ids"]),
        "Chassis_Private": (_named(ctx), ["nb_cfg", "nb_cfg_timestamp", "external_ids"]),
        "Encap": ([["chassis_name", "==", _name(ctx)]], ["type", "ip"]),
    }
    asked = [
        {"op": "select", "table": name, "where": where, "columns": columns} for name, (where, columns) in tables.items()
    ]
    answers = _transact(ctx, asked)
    world, chassis = _rows(answers[0], _Global), _rows(answers[1], _Chassis)
    private, encaps = _rows(answers[2], _Private), _rows(answers[3], _Encap)
    if not chassis or not private:
        return _Found()
    told, own = chassis[0], private[0]
    stamp = own["nb_cfg_timestamp"]
    # Where a node describes itself has moved from one column to the other with OVN 20.09.
    described = {**_map(told["external_ids"]), **_map(told["other_config"])}
    pairs = (each.split(":", 1) for each in described.get("ovn-bridge-mappings", "").split(",") if ":" in each)
    return _Found(
        registered=True,
        behind=world[0]["nb_cfg"] - own["nb_cfg"] if world else 0,
        heartbeat=datetime.fromtimestamp(stamp / 1000, UTC) if stamp else None,
        notes=_map(own["external_ids"]),
        mappings=dict(sorted((name, bridge) for name, bridge in pairs)),
        encaps=sorted((each["type"], each["ip"]) for each in encaps),
    )


def _connected(found: _Found, now: datetime) -> Verdict:
    # One question may be on its way.
    if found.behind <= 1 or (found.heartbeat and now - found.heartbeat < _SILENT):
        return READY
    since = f"since {_stamp(found.heartbeat)}" if found.heartbeat else "ever"
    return progressing(f"ovn-controller has not answered OVN {since}; see the pod of the switch on that node")


def _taken_over(spec: OVNChassisSpec, found: _Found) -> dict[str, bool]:
    """Whether the node is as each field says that is set."""
    same: dict[str, bool] = {}
    if spec.bridge_mappings is not None:
        wanted = {each.physical_network: each.bridge for each in spec.bridge_mappings}
        same["bridgeMappings"] = wanted == found.mappings
    if spec.encapsulation and spec.encapsulation.ip:
        same["encapsulation"] = (spec.encapsulation.type, spec.encapsulation.ip) in found.encaps
    return same


def _transact(ctx: Context[OVNChassisSpec], operations: Sequence[Operation]) -> list[Any]:
    remotes = access.published(ctx, ctx.spec.cluster_ref, "southbound")
    certificate = ctx.refs[ctx.spec.cluster_ref].published.get(OVN_CLIENT, "")
    answers = transact(remotes, _SB, operations, ctx.secrets.get(certificate))
    if len(answers) < len(operations):
        raise Transient(f"{_SB} answered {len(answers)} of {len(operations)} questions")
    return answers


def _name(ctx: Context[OVNChassisSpec]) -> str:
    """A node is called by the name of its Node there, which is that of the resource."""
    return ctx.owner


def _named(ctx: Context[OVNChassisSpec]) -> list[list[str]]:
    return [["name", "==", _name(ctx)]]


def _map(value: _Map) -> dict[str, str]:
    return dict(value[1])


def _rows(answer: Any, shape: type[RowT]) -> list[RowT]:
    """The rows that a question gave. Raises Transient for those of another shape."""
    try:
        rows = msgspec.convert(answer, dict[str, Any]).get("rows")
        return msgspec.convert(rows, list[shape]) if rows else []
    except msgspec.ValidationError as error:
        raise strange(_SB, fault(error)) from None


def _floor(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment - timedelta(seconds=moment.timestamp() % _STEP.total_seconds())


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
