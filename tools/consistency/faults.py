"""Faults of the members, by name; each ends with what it broke mended."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable

from tools.localcluster import faults
from tools.localcluster.cluster import ClusterError
from tools.localcluster.kubernetes import KubeError

from .site import Site

_CUT = 12.0
"""Seconds of a partition: twice what the members need to notice it."""
_UPGRADING = 5.0, 40.0
_NOTICED, _LOOKED = 3.0, 10.0
Dice = random.Random


def crash(site: Site, dice: Dice) -> str:
    """Kill one member, the one that takes the clients every other time."""
    victim = site.primary() if dice.random() < 0.5 else ""
    victim = victim or dice.choice(_names(site))
    _kill(site, victim)
    return victim


def crash_all(site: Site, dice: Dice) -> str:
    """Kill all members at once."""
    del dice
    # One after the other, each would send the next ones what it has.
    faults.kill_namespace(site.machine, site.namespace)
    for name in _names(site):
        site.delete_pod(name, by_force=True)
    return "all members"


def partition(site: Site, dice: Dice) -> str:
    """Drop all packets between some members and the others, or between all of them."""
    groups = _groups(site, dice)
    _cut(site, groups, _CUT)
    return "|".join(str(len(group)) for group in groups)


def both(site: Site, dice: Dice) -> str:
    """Kill a member while the members are apart."""
    groups = _groups(site, dice)
    victim = dice.choice(_names(site))
    faults.cut(site.machine, groups)
    try:
        time.sleep(dice.uniform(0, _CUT / 2))
        _kill(site, victim)
        time.sleep(_CUT / 2)
    finally:
        faults.heal(site.machine)
    return f"{'|'.join(str(len(group)) for group in groups)}, {victim} killed"


def power_cut(site: Site, dice: Dice) -> str:
    """Kill all processes of all nodes at once, without what is not on the disk, and start the nodes again."""
    del dice
    faults.lose_unwritten(site.machine)
    faults.power_off(site.machine)
    time.sleep(_NOTICED)
    faults.power_on(site.machine)
    # Until kubelet has looked, the API server has the pods as they were before.
    time.sleep(_LOOKED)
    return "all nodes"


def primary(site: Site, dice: Dice) -> str:
    """Stop the member that takes the clients in good order, so that another one takes them over."""
    victim = site.primary() or dice.choice(_names(site))
    site.delete_pod(victim, by_force=False)
    return victim


def upgrade(site: Site, dice: Dice) -> str:
    """Replace the members by those of the release's version, one by one, and kill one meanwhile."""
    site.set_version("")
    time.sleep(dice.uniform(*_UPGRADING))
    victim = dice.choice(_names(site))
    _kill(site, victim)
    return f"{victim} killed"


UPGRADE = "upgrade"
FAULTS: dict[str, Callable[[Site, Dice], str]] = {
    "crash": crash,
    "crash-all": crash_all,
    "partition": partition,
    "both": both,
    "power-cut": power_cut,
    "primary": primary,
    UPGRADE: upgrade,
}
"""Each returns in words what it did. Raises KubeError or ClusterError."""
LASTING = tuple(name for name in FAULTS if name != UPGRADE)
"""Faults that can happen again and again."""


def _names(site: Site) -> list[str]:
    return [pod["metadata"]["name"] for pod in site.pods()]


def _groups(site: Site, dice: Dice) -> list[list[str]]:
    addresses = [pod["status"]["podIP"] for pod in site.pods() if pod["status"].get("podIP")]
    dice.shuffle(addresses)
    return dice.choice([[addresses[:1], addresses[1:]], [[address] for address in addresses]])


def _cut(site: Site, groups: list[list[str]], seconds: float) -> None:
    faults.cut(site.machine, groups)
    try:
        time.sleep(seconds)
    finally:
        faults.heal(site.machine)


def _kill(site: Site, name: str) -> None:
    with contextlib.suppress(ClusterError):  # it may not have begun to run
        faults.kill_pod(site.machine, site.namespace, name)
    # The kubelet would let a pod that died often wait for minutes; a new one starts at once, with the same volume.
    with contextlib.suppress(KubeError):
        site.delete_pod(name, by_force=True)
