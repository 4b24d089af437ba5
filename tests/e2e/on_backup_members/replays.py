"""Databases of a backup and an archive, restored to a second in a pod: nothing of them reaches the cloud."""

from __future__ import annotations

import json
from typing import Any

from openstack_operator import agents
from openstack_operator.services.backup.pods import modules
from tools.localcluster.kubernetes import Kubernetes

from ..waiting import until

_DATA = "/var/lib/mysql"
_READ = f"""
mariadbd --no-defaults --datadir={_DATA} --socket=/tmp/read.sock --skip-networking --skip-grant-tables --skip-log-bin \
    --wsrep-on=OFF --wsrep-provider=none >&2 &
until mariadb --no-defaults --socket=/tmp/read.sock -e 'SELECT 1' >&2; do sleep 0.2; done
mariadb --no-defaults --socket=/tmp/read.sock -N -e "$0"
"""
_STATEMENT = (
    "SELECT name FROM keystone.project WHERE name LIKE 'numbered-%';"
    "SELECT name FROM neutron.securitygroups WHERE name LIKE 'numbered-%'"
)


class Replay:
    """A pod that restores a backup of a MariaDB to a second, and prints the names of the numbered rows."""

    def __init__(self, cluster: Kubernetes, namespace: str, name: str, run: dict[str, Any], login: str) -> None:
        """`run` are the parameters of the program, `login` is the Secret with the login to the repository."""
        self._cluster, self._namespace, self.name = cluster, namespace, name
        server = cluster.get("pod", "mariadb-server-0", "-n", namespace)["spec"]["containers"][0]
        user = {each: server["securityContext"][each] for each in ("runAsUser", "runAsGroup")}
        mounts = [
            {"name": "data", "mountPath": _DATA},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "run", "mountPath": "/etc/backup/run"},
            {"name": "login", "mountPath": "/etc/backup/repository"},
        ]
        base = {"image": server["image"], "imagePullPolicy": "IfNotPresent", "volumeMounts": mounts}
        env = [{"name": "HOME", "value": "/tmp"}, {"name": "RESTIC_CACHE_DIR", "value": "/tmp/cache"}]
        replay = {**base, "name": "replay", "command": agents.python(*modules("replay")), "env": env}
        read = {**base, "name": "read", "command": ["sh", "-ec", _READ, _STATEMENT]}
        volumes = [
            {"name": "data", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "run", "secret": {"secretName": name}},
            {"name": "login", "secret": {"secretName": login}},
        ]
        pod_spec = {
            "securityContext": {**user, "fsGroup": user["runAsGroup"]},
            "restartPolicy": "Never",
            "initContainers": [replay],
            "containers": [read],
            "volumes": volumes,
        }
        metadata = {"name": name, "namespace": namespace}
        cluster.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"run.json": json.dumps(run)}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec},
        )

    def rows(self) -> set[str]:
        """Return the names once the pod has them, and remove it. Raise AssertionError with the end of its log."""

        def phase() -> str:
            found = self._cluster.get("pod", self.name, "-n", self._namespace)["status"]["phase"]
            return found if found in ("Succeeded", "Failed") else ""

        ended = until(f"the end of pod {self.name}", phase, 300, 1)
        log = self._cluster.kubectl("logs", self.name, "-n", self._namespace, "-c", "replay", "--tail=20")
        assert ended == "Succeeded", log
        names = self._cluster.kubectl("logs", self.name, "-n", self._namespace, "-c", "read")
        self._cluster.kubectl("delete", "pod,secret", self.name, "-n", self._namespace)
        return {line for line in names.split() if line.startswith("numbered-")}
