"""Faults of the members of MariaDB and RabbitMQ, and of their volumes."""

from __future__ import annotations

import time

from tools.localcluster import faults
from tools.localcluster.kubernetes import ours

from ..journal import now
from ..scenario import Stage, scenario
from ..site import Object, Site, names, until

_DATA = "/var/lib/mysql"
_CUT = 40.0
"""Seconds a partition lasts: longer than any of the clusters takes to notice."""
_FULL = 60.0
_REPORT_TIMEOUT = 60.0
_BALLAST = 24


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


def _partition(stage: Stage, event: str, groups: list[list[str]]) -> None:
    began = now()
    faults.cut(stage.site.machine, groups)
    try:
        time.sleep(_CUT)
    finally:
        faults.heal(stage.site.machine)
    during = stage.journal.outages(began, began + _CUT, stage.load.intervals)
    stage.note(**{f"during {event}": {kind: gap for kind, gap in during.items() if gap > 1}})
    stage.await_recovery(f"{event} healed", timeout=600)


def _addresses(pods: list[Object]) -> list[str]:
    return [pod["status"]["podIP"] for pod in pods]


@scenario(14, "The volume of a member of MariaDB filled up")
def filled(stage: Stage) -> None:
    site = stage.site
    victim = names([member for member in site.members("mariadb-server") if _role(member) != "primary"])[-1]
    site.run(victim, "sh", "-c", f"dd if=/dev/zero of={_DATA}/filler bs=1M || true; sync")
    try:
        _full(stage, victim)
    finally:
        began = now()
        until("the filler to go", lambda: _unfilled(site, victim), 120)
    stage.await_recovery("space", began, timeout=600)
    _ask(site, "DROP TABLE IF EXISTS chaos.ballast")


def _full(stage: Stage, victim: str) -> None:
    site = stage.site
    free_kib = site.run(victim, "df", "--output=avail", _DATA).split()[-1]
    stage.check(
        int(free_kib) < 1024, f"{free_kib} KiB are left on the volume of {victim}: its StorageClass has no bounds"
    )
    began = now()
    until("a condition that names the volume", lambda: victim in _said(site), _REPORT_TIMEOUT, 0.5)
    stage.note(told_seconds=round(now() - began, 1))
    # Data files have room of their own for a while: more is written, by way of another member, until there is none.
    _ask(site, "CREATE TABLE IF NOT EXISTS chaos.ballast (number INT AUTO_INCREMENT PRIMARY KEY, data LONGBLOB)")
    insert = "INSERT INTO chaos.ballast (data) SELECT REPEAT('x', 1048576) FROM chaos.seq_1_to_4"
    for _ in range(_BALLAST):
        # As any client's, a statement fails that is under way while the others agree that the full member is gone.
        until("four MiB to be written", lambda: _ask(site, insert), _REPORT_TIMEOUT)
    time.sleep(_FULL)
    stage.note(said=_said(site), members=site.get(ours("mariadb"), "mariadb")["status"].get("members"))


def _ask(site: Site, statement: str) -> bool:
    """Run a statement on the member that serves the clients, and return True. Raises KubeError if it fails."""
    primary = next(member for member in site.members("mariadb-server") if _role(member) == "primary")
    script = 'exec mariadb -uroot -p"$(cat "$MARIADB_ROOT_PASSWORD_FILE")" -e "$0"'
    site.run(primary["metadata"]["name"], "sh", "-c", script, statement)
    return True


def _role(member: Object) -> str:
    return member["metadata"]["labels"].get("openstack.k8s.io/role", "")


def _unfilled(site: Site, victim: str) -> bool:
    """Remove the file through the node, since the pod may be in a crash loop and take no commands. Return True."""
    pod = site.get("pod", victim)
    claim = next(
        v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v
    )
    volume = site.get("pvc", claim)["spec"]["volumeName"]
    root = f"/var/lib/kubelet/pods/{pod['metadata']['uid']}"
    site.inside(pod["spec"]["nodeName"], "sh", "-c", f"find {root} -path '*{volume}*' -name filler -delete")
    return True


def _said(site: Site) -> str:
    """Return the message of MariaDB's condition ServerReady; empty if it has none."""
    conditions = site.get(ours("mariadb"), "mariadb").get("status", {}).get("conditions", [])
    return next((condition["message"] for condition in conditions if condition["type"] == "ServerReady"), "")
