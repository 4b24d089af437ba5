"""What happens to the members of MariaDB and RabbitMQ, and to their volumes."""

from __future__ import annotations

import time

from localcluster import faults

from ..journal import now
from ..scenario import Stage, scenario
from ..site import Object, Site, names, until

_DATA = "/var/lib/mysql"
_CUT = 40.0
"""Seconds a partition lasts: longer than any of the clusters takes to notice."""
_FULL = 90.0


@scenario(6, "The data directory of one member of MariaDB wiped")
def wiped(stage: Stage) -> None:
    site = stage.site
    victim = names(site.members("mariadb-server"))[-1]
    began = now()
    site.run(victim, "sh", "-c", f"find {_DATA} -mindepth 1 -not -path '*/lost+found*' -delete")
    faults.kill_pod(site.machine, site.namespace, victim)
    stage.await_recovery(f"wiping of {victim}", began, timeout=600)


@scenario(7, "A partition of MariaDB, 2|1 and 1|1|1")
def galera_partition(stage: Stage) -> None:
    members = _addresses(stage.site.members("mariadb-server"))
    _partition(stage, "MariaDB 2|1 (the primary alone)", [members[1:], members[:1]])
    _partition(stage, "MariaDB 1|1|1", [[member] for member in members])


@scenario(8, "A partition of RabbitMQ, 2|1 and 1|1|1")
def rabbitmq_partition(stage: Stage) -> None:
    members = _addresses(stage.site.members("rabbitmq-server"))
    _partition(stage, "RabbitMQ 2|1", [members[1:], members[:1]])
    _partition(stage, "RabbitMQ 1|1|1", [[member] for member in members])


def _partition(stage: Stage, what: str, groups: list[list[str]]) -> None:
    began = now()
    faults.cut(stage.site.machine, groups)
    try:
        time.sleep(_CUT)
    finally:
        faults.heal(stage.site.machine)
    during = stage.journal.outages(began, began + _CUT, stage.load.intervals)
    stage.note(**{f"during {what}": {kind: gap for kind, gap in during.items() if gap > 1}})
    stage.await_recovery(f"{what} healed", timeout=600)


def _addresses(pods: list[Object]) -> list[str]:
    return [pod["status"]["podIP"] for pod in pods]


@scenario(14, "The volume of a member of MariaDB filled up")
def filled(stage: Stage) -> None:
    site = stage.site
    victim = names(site.members("mariadb-server"))[-1]
    fill = f"dd if=/dev/zero of={_DATA}/filler bs=1M || true; sync"
    site.run(victim, "sh", "-c", fill)
    left = site.run(victim, "df", "--output=avail", _DATA).split()[-1]
    stage.check(int(left) < 1024, f"{left} KiB are left on the volume of {victim}: its StorageClass has no bounds")
    time.sleep(_FULL)
    stage.note(conditions=_said(site))
    began = now()
    until("the filler to go", lambda: _unfilled(site, victim), 120)
    stage.await_recovery("space", began, timeout=600)


def _unfilled(site: Site, victim: str) -> bool:
    """The file is removed through the node: the pod may be in a crash loop and take no commands."""
    pod = site.get("pod", victim)
    claim = next(
        v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v
    )
    volume = site.get("pvc", claim)["spec"]["volumeName"]
    root = f"/var/lib/kubelet/pods/{pod['metadata']['uid']}"
    site.inside(pod["spec"]["nodeName"], "sh", "-c", f"find {root} -path '*{volume}*' -name filler -delete")
    return True


def _said(site: Site) -> dict[str, str]:
    """What the operator and Kubernetes say of MariaDB while its volume is full."""
    found = {name: why for name, why in site.troubles().items() if "ariadb" in name.lower()}
    for condition in site.get("mariadb", "mariadb").get("status", {}).get("conditions", []):
        found[condition["type"]] = f"{condition['status']} {condition['reason']}: {condition['message']}"
    return found
