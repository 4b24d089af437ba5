"""OVNChassis: what OVN's southbound database knows of a node, and that it forgets a node that is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import msgspec

from ..parts.connect.ovn import OVN_CLIENT, OVN_NODES
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
"""Step of reported heartbeats: those of thousands of nodes, each written as it comes, would be most of the API server's
work."""
_SILENT = timedelta(minutes=5)
"""A node that leaves OVN without an answer for so much time is disconnected. Neutron gives it 75 s, and asks about
twice a minute."""


def ensure(ctx: Context[OVNChassisSpec]) -> Sequence[str]:
    """Note in the node's entry when it was registered; ovn-controller creates the entry itself. Raises Transient."""
    state = _look(ctx)
    if not state.registered or NOTED in state.notes:
        return ()
    noted = ["map", [[NOTED, _stamp(ctx.now)]]]
    # Inserted, so that a note written meanwhile stays.
    mutation: Operation = {"mutations": [["external_ids", "insert", noted]]}
    _transact(ctx, [{"op": "mutate", "table": "Chassis_Private", "where": _by_name(ctx), **mutation}])
    return (f"chassis {_name(ctx)} noted as registered",)


def remove(ctx: Context[OVNChassisSpec]) -> None:
    """Remove all entries of the node, unless it still belongs to the cluster: then only the resource was deleted, which
    the cluster creates again, and without the entry servers on the node would lose their networks. Raises Transient.
    """
    published = ctx.refs[ctx.spec.cluster_ref].published
    node = ctx.nodes.get(ctx.owner)
    if node and OVN_NODES in published and node.selected(labels(published[OVN_NODES])):
        return
    by_name = _by_name(ctx)
    # As `ovn-sbctl chassis-del` does it. Ports that were bound there are bound nowhere then.
    _transact(
        ctx,
        [
            {"op": "delete", "table": "Chassis_Private", "where": by_name},
            {"op": "delete", "table": "Chassis", "where": by_name},
            {"op": "delete", "table": "Encap", "where": [["chassis_name", "==", _name(ctx)]]},
        ],
    )


def observe(ctx: Context[OVNChassisSpec]) -> Outcome:
    """Return the state of the node in the database. It is Ready once it is connected and matches its spec. Raises
    Transient.
    """
    state = _look(ctx)
    if not state.registered:
        text = (
            f"{_name(ctx)} has not registered in OVN's southbound database; see the pod of ovn-controller on that node"
        )
        return Outcome(extra_conditions={CONNECTED: progressing(text), "Ready": progressing(text)})
    connected = _connected(state, ctx.now)
    pending_fields = [f"spec.{name}" for name, same in _taken_over(ctx.spec, state).items() if not same]
    taking = (
        progressing(f"ovn-controller on the node has not applied {', '.join(pending_fields)} yet")
        if pending_fields
        else READY
    )
    beat = _floor(state.heartbeat)
    details = {
        # A node writes there what it likes; a status has room for so much.
        "registeredAt": state.notes.get(NOTED, "")[:32],
        "lastHeartbeat": _stamp(beat) if beat else None,
        "bridgeMappings": [
            {"physicalNetwork": name[:255], "bridge": bridge[:255]}
            for name, bridge in islice(state.mappings.items(), 64)
        ],
        "encapsulation": {"type": state.encaps[0][0][:63], "ip": state.encaps[0][1][:255]} if state.encaps else None,
    }
    conditions = {CONNECTED: connected, "Ready": taking if connected.ready else connected}
    return Outcome(details={name: value for name, value in details.items() if value}, extra_conditions=conditions)


def labels(text: str) -> dict[str, str]:
    """Return the nodeSelector that an OVN publishes as `label=value[,label=value]`."""
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
class _ChassisState:
    registered: bool = False
    behind: int = 0
    """Number of OVN's requests that the node has not answered."""
    heartbeat: datetime | None = None
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    mappings: Mapping[str, str] = field(default_factory=dict[str, str])
    encaps: Sequence[tuple[str, str]] = ()


def _look(ctx: Context[OVNChassisSpec]) -> _ChassisState:
    tables = {
        "SB_Global": ([], ["nb_cfg"]),
        "Chassis": (_by_name(ctx), ["other_config", "external_ids"]),
        "Chassis_Private": (_by_name(ctx), ["nb_cfg", "nb_cfg_timestamp", "external_ids"]),
        "Encap": ([["chassis_name", "==", _name(ctx)]], ["type", "ip"]),
    }
    operations = [
        {"op": "select", "table": name, "where": where, "columns": columns} for name, (where, columns) in tables.items()
    ]
    answers = _transact(ctx, operations)
    world, chassis = _rows(answers[0], _Global), _rows(answers[1], _Chassis)
    private, encaps = _rows(answers[2], _Private), _rows(answers[3], _Encap)
    if not chassis or not private:
        return _ChassisState()
    chassis_row, private_row = chassis[0], private[0]
    stamp = private_row["nb_cfg_timestamp"]
    # Where a node describes itself has moved from one column to the other with OVN 20.09.
    described = {**_map(chassis_row["external_ids"]), **_map(chassis_row["other_config"])}
    pairs = (each.split(":", 1) for each in described.get("ovn-bridge-mappings", "").split(",") if ":" in each)
    return _ChassisState(
        registered=True,
        behind=world[0]["nb_cfg"] - private_row["nb_cfg"] if world else 0,
        heartbeat=datetime.fromtimestamp(stamp / 1000, UTC) if stamp else None,
        notes=_map(private_row["external_ids"]),
        mappings=dict(sorted((name, bridge) for name, bridge in pairs)),
        encaps=sorted((each["type"], each["ip"]) for each in encaps),
    )


def _connected(state: _ChassisState, now: datetime) -> Verdict:
    # One question may be on its way.
    if state.behind <= 1 or (state.heartbeat and now - state.heartbeat < _SILENT):
        return READY
    since = f"since {_stamp(state.heartbeat)}" if state.heartbeat else "ever"
    return progressing(f"ovn-controller has not answered OVN {since}; see the pod of ovn-controller on that node")


def _taken_over(spec: OVNChassisSpec, state: _ChassisState) -> dict[str, bool]:
    """Return, for each field that is set, True if the node has that value."""
    same: dict[str, bool] = {}
    if spec.bridge_mappings is not None:
        bridges = {each.physical_network: each.bridge for each in spec.bridge_mappings}
        same["bridgeMappings"] = bridges == state.mappings
    if spec.encapsulation and spec.encapsulation.ip:
        same["encapsulation"] = (spec.encapsulation.type, spec.encapsulation.ip) in state.encaps
    return same


def _transact(ctx: Context[OVNChassisSpec], operations: Sequence[Operation]) -> list[Any]:
    remotes = access.published(ctx, ctx.spec.cluster_ref, "southbound")
    certificate = ctx.refs[ctx.spec.cluster_ref].published.get(OVN_CLIENT, "")
    answers = transact(remotes, _SB, operations, ctx.secrets.get(certificate))
    if len(answers) < len(operations):
        raise Transient(f"{_SB} answered {len(answers)} of {len(operations)} questions")
    return answers


def _name(ctx: Context[OVNChassisSpec]) -> str:
    """Return the name of the chassis in OVN: that of its Node, which the resource has, too."""
    return ctx.owner


def _by_name(ctx: Context[OVNChassisSpec]) -> list[list[str]]:
    return [["name", "==", _name(ctx)]]


def _map(value: _Map) -> dict[str, str]:
    return dict(value[1])


def _rows(answer: Any, shape: type[RowT]) -> list[RowT]:
    """Return the rows of an answer. Raises Transient for rows of another shape."""
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
