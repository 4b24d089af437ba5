"""Names of Services in the addresses of an OVN, as a manifest writes them: `ovn-nb.ovn-system`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ... import agents
from ...plan import Context
from .model import NeutronSpec


@dataclass(frozen=True)
class FullNames:
    """Command and variables by which a client of OVN finds names that the search domains of its pod complete."""

    wrapper: Sequence[str] = ()
    """Command that becomes the client's program."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def full_names(ctx: Context[NeutronSpec]) -> FullNames:
    """Return nothing for addresses with full names or IPs; those of an OVNNetwork are full."""
    ovn = ctx.spec.ovn
    if not (ovn.nb_connection and ovn.sb_connection):
        return FullNames()
    addresses = f"{ovn.nb_connection},{ovn.sb_connection}".split(",")
    if not any(_is_relative(address.partition(":")[2].rpartition(":")[0]) for address in addresses):
        return FullNames()
    env = {"OS_OVN__OVN_NB_CONNECTION": ovn.nb_connection, "OS_OVN__OVN_SB_CONNECTION": ovn.sb_connection}
    return FullNames(agents.shell("neutron/full_names.sh"), env)


def _is_relative(host: str) -> bool:
    """Return True for a Service of this namespace, and for `NAME.NAMESPACE`, with or without `.svc`."""
    return ":" not in host and (host.count(".") < 2 or host.endswith(".svc"))
