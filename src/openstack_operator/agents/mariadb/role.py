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
FILE = "role"
"""Name of the file, which the kubelet writes again when the label changes."""


@dataclass(frozen=True)
class Role:
    """Report of a member on its role."""

    name: str = ""
    """Value of the label; empty if its pod has none."""
    age: float = 0.0
    """Seconds since the kubelet wrote it."""
    serves: bool = False
    """True if the member takes clients."""


def reported_role(facts: Mapping[str, Any]) -> Role:
    """Return the role in what a member publishes; an empty one if there is none in it."""
    try:
        return Role(str(facts["role"]), float(facts["role_age"]), facts["ready"] is True)
    except (KeyError, TypeError, ValueError):
        return Role()


def other_primary(me: Role, peers: Mapping[str, Role]) -> str:
    """Return the member that takes the clients in place of this one; empty if none is known to.

    Two labels have to agree, so that clients stay where they are as long as it is in doubt. Of several members that are
    primaries the one with the latest label counts: the kubelets of the others have not heard yet that it moved.
    """
    if me.name not in {PRIMARY, BACKUP}:
        return ""
    ages = {name: peer.age for name, peer in peers.items() if peer.name == PRIMARY and peer.serves}
    if me.name == PRIMARY:
        ages = {name: age for name, age in ages.items() if age < me.age}
    return min(ages, key=ages.__getitem__, default="")
