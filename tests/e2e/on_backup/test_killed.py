"""The operator, and the pods of backups and of a restore, are killed at random moments: a backup that counts can be
restored, and the restored cloud tells what it told before.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours

from ..conftest import Report
from ..s3 import S3Server
from .objects import described, differing
from .test_backup import completed, remove, repository, resource, secrets

BACKUPS = 4
RESTORE = "killed-restore"
_OPERATOR = "openstack-operator"
_PAUSES = (1.0, 8.0)
"""Seconds between two kills, at least and at most."""
_before: dict[str, Any] = {}


@dataclass
class Killer:
    """Kills the operator, or a pod of one resource, at random moments in a `with` block, so many times in all."""

    cluster: Kubernetes
    namespace: str
    name: str
    """Of the resource whose pods are killed."""
    kills: int
    seed: int
    killed: Counter[str] = field(default_factory=Counter[str])
    """How often a pod of each component was killed."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Killer:
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        chance = random.Random(self.seed)
        while self.killed.total() < self.kills and not self._stop.wait(chance.uniform(*_PAUSES)):
            with suppress(KubeError):
                self._kill(chance)

    def _kill(self, chance: random.Random) -> None:
        chosen = ("-n", self.namespace, "-l", f"app.kubernetes.io/instance={self.name}")
        operators = ("-n", _OPERATOR, "-l", f"app.kubernetes.io/name={_OPERATOR}")
        pods = [pod for pod in self.cluster.items("pods", *chosen) if pod["status"]["phase"] in ("Pending", "Running")]
        # Half of all kills are the operator's, while there is something else to kill.
        if not pods or chance.random() < 0.5:
            pods = self.cluster.items("pods", *operators)
        if not pods:
            return
        victim = chance.choice(pods)["metadata"]
        self.cluster.kubectl("delete", "pod", victim["name"], "-n", victim["namespace"], "--force", "--grace-period=0")
        self.killed[victim["labels"].get("app.kubernetes.io/component", "operator")] += 1


def name_of(number: int) -> str:
    return f"killed-{number}"


def test_a_backup_that_counts_is_whole(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, s3: S3Server, report: Report
) -> None:
    api: Any = conn
    api.identity.create_project(name="before-the-kills")
    proof.image(conn)
    proof.flavor(conn)
    proof.networks(conn)
    cluster.apply(*secrets(s3, cloud.namespace))
    results: dict[str, Any] = {}
    for number in range(BACKUPS):
        name = name_of(number)
        spec = {"repository": repository(s3), "verify": True}
        with Killer(cluster, cloud.namespace, name, kills=4, seed=number) as killer:
            cluster.apply(resource("OpenStackBackup", name, cloud.namespace, spec))
            status = completed(cluster, ours("openstackbackup"), name, cloud.namespace, 600)
        completed(cluster, ours("openstackbackup"), name, cloud.namespace, 400, "verified")
        results[name] = {"status": status, "killed": dict(killer.killed)}
        report.add(killed_backups=results)
    killed = sum((Counter(each["killed"]) for each in results.values()), Counter[str]())
    assert len(killed) > 1, "pods of backups were killed, and the operator"
    assert killed.total() >= BACKUPS
    _before.update(objects=described(conn), backup=name_of(BACKUPS - 1))


def test_a_killed_restore_comes_to_the_same_end(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    assert _before
    remove(cluster, cloud.namespace)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
    cluster.apply(*secrets(s3, cloud.namespace))
    spec = {"repository": repository(s3), "backup": _before["backup"]}
    began = time.monotonic()
    with Killer(cluster, cloud.namespace, RESTORE, kills=12, seed=BACKUPS) as killer:
        cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
        status = completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 900)
    killed = dict(killer.killed)
    report.add(killed_restore={"status": status, "killed": killed, "seconds": round(time.monotonic() - began)})
    assert killer.killed.total() > 3
    assert len(killed) > 1, "pods of the restore were killed, and the operator"
    assert not differing(described(proof.connect(cluster, cloud.namespace)), _before["objects"])
