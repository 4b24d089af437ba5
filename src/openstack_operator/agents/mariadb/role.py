"""The role of a member, and which member takes the clients as far as members know.

The operator labels pods, and a Service leads clients to the one that is the primary. A member reads the label of its
own pod in a file of the kubelet, and tells it to the others. This file runs in the pods too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PRIMARY, BACKUP = "primary", "backup"
"""Values of the label."""
FILE, TERM = "role", "term"
"""Names of the files, which the kubelet writes again when the label or the annotation with the term changes."""


READER = "mariadb-backup"
"""Account of backups, whose connections stay at a member that ends those of clients: it reads what was committed, with
its position. It can write in a schema of its own alone, and there a write is safe at any member that takes it: all
members of the primary component commit it, and a member outside refuses it."""


@dataclass(frozen=True)
class Role:
    """Report of a member on its role."""

    name: str = ""
    """Value of the label; empty if its pod has none."""
    age: float = 0.0
    """Seconds since the kubelet wrote it."""
    serves: bool = False
    """True if the member takes clients."""
    term: int = 0
    """Number that the operator gave to its pod when it became the primary; 0 if its pod has none, as those of earlier
    versions."""


def reported_role(facts: Mapping[str, Any]) -> Role:
    """Return the role in what a member publishes; an empty one if there is none in it."""
    try:
        name, age = str(facts["role"]), float(facts["role_age"])
        return Role(name, age, facts["ready"] is True, int(facts.get("role_term", 0)))
    except (KeyError, OverflowError, TypeError, ValueError):
        return Role()


def other_primary(me: Role, peers: Mapping[str, Role]) -> str:
    """Return the member that takes the clients in place of this one; empty if none is known to.

    Two labels have to agree, so that clients stay where they are as long as it is in doubt. Of several members that are
    primaries the last one counts: the kubelets of the others have not heard yet that the label moved.
    """
    if me.name not in {PRIMARY, BACKUP}:
        return ""
    primaries = {name: peer for name, peer in peers.items() if peer.name == PRIMARY and peer.serves}
    # Ages come from clocks of nodes, so they count only while a pod has no term.
    have_terms = all(peer.term for peer in (*primaries.values(), *([me] if me.name == PRIMARY else [])))

    def recency(peer: Role) -> float:
        return peer.term if have_terms else -peer.age

    if me.name == PRIMARY:
        primaries = {name: peer for name, peer in primaries.items() if recency(peer) > recency(me)}
    return max(primaries, key=lambda name: recency(primaries[name]), default="")
