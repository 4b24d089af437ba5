"""Faults of the databases of OVN."""

from __future__ import annotations

import contextlib
import time

from tools.localcluster import faults
from tools.localcluster.kubernetes import KubeError

from ..journal import now
from ..scenario import Stage, scenario
from ..site import Site, names, until

_KILLS = 5
_BETWEEN = 12.0


def leader(site: Site, database: str) -> str:
    """Return the leader among the members of a database, nb or sb. Raises KubeError while there is none."""
    schema = {"nb": "OVN_Northbound", "sb": "OVN_Southbound"}[database]
    for name in names(site.members(f"ovn-{database}")):
        with contextlib.suppress(KubeError):
            control = f"/run/ovn/ovn{database}_db.ctl"
            said = site.run(name, "ovs-appctl", "--timeout=3", "-t", control, "cluster/status", schema)
            if "Role: leader" in said:
                return name
    raise KubeError(f"no member of ovn-{database} leads")


@scenario(9, "The leader of OVN's southbound database killed again and again while ports are made")
def southbound_leader(stage: Stage) -> None:
    site = stage.site
    began, killed = now(), list[str]()
    for _ in range(_KILLS):
        victim = until("a leader of ovn-sb", lambda: leader(site, "sb"), 60)
        faults.kill_pod(site.machine, site.namespace, victim)
        killed.append(victim)
        time.sleep(_BETWEEN)
    ports = _ports(stage, began)
    stage.note(killed=killed, ports=ports)
    stage.check(ports, "no port was made meanwhile")
    stage.await_recovery("the last kill")


def _ports(stage: Stage, since: float) -> int:
    return sum(1 for attempt in stage.journal.between(since, kind="ports") if not attempt.error)


@scenario(10, "Two of three disks of OVN's northbound database wiped")
def northbound_disks(stage: Stage) -> None:
    site = stage.site
    chief = leader(site, "nb")
    # The leader is among them: what remains is a follower that has to be believed.
    followers = [name for name in names(site.members("ovn-nb")) if name != chief]
    victims = [chief, followers[0]]
    began = now()
    for victim in victims:
        site.run(victim, "sh", "-c", "find /var/lib/ovn -mindepth 1 -delete")
    for victim in victims:
        faults.kill_pod(site.machine, site.namespace, victim)
    stage.note(wiped=victims, survivor=followers[1])
    stage.await_recovery(f"wiping of {' and '.join(victims)}", began, timeout=600)
