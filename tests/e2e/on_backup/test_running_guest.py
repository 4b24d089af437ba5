"""A server runs on while its cloud is deleted with all of its data and restored, and is managed again afterwards."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours

from ..conftest import Report
from ..load import called
from ..s3 import S3Server
from ..waiting import server_reaches, until
from .test_backup import completed, remove, repository, resource, secrets

BACKUP, RESTORE = "with-a-guest", "around-a-guest"


def process_of(server: str) -> int:
    """Return the process of a server's QEMU on this machine, 0 without one."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"qemu-system" in words[0] and server.encode() in words:
                return int(folder.name)
    return 0


def test_a_server_runs_on_through_a_restore(
    stood: tuple[Session, Cloud], cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    session, _ = stood
    facts = session.prove(cloud)
    server, address = str(facts["server"]), str(facts["floating_ip"])
    process = process_of(server)
    assert process
    cluster.apply(*secrets(s3, cloud.namespace))
    cluster.apply(resource("OpenStackBackup", BACKUP, cloud.namespace, {"repository": repository(s3)}))
    completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 400)
    answered = list[float]()

    def ping() -> None:
        # Without the switch of the gateway, nothing of the embedded cluster is outside.
        with suppress(KubeError):
            if proof.ExternalHost(cluster, cloud.namespace).run("ping", "-c1", "-W1", address):
                answered.append(time.monotonic())

    with called(ping) as pings:
        remove(cluster, cloud.namespace)
        assert process_of(server) == process
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
        cluster.apply(*secrets(s3, cloud.namespace))
        spec = {"repository": repository(s3), "backup": BACKUP}
        cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
        status = completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 600)
        api: Any = proof.connect(cluster, cloud.namespace)
        until("an answer after the restore", lambda: time.monotonic() - (answered or [0.0])[-1] < 2, 120)
    silences = [after - before for before, after in pairwise(answered)]
    report.add(
        restore_around_a_guest=status,
        pings=pings.calls,
        pings_answered=len(answered),
        longest_silence_seconds=round(max(silences), 1),
    )
    assert process_of(server) == process, "its process is the one of before"
    assert api.compute.get_server(server).status == "ACTIVE"
    api.compute.stop_server(server)
    server_reaches(api, server, "SHUTOFF")
    assert not process_of(server)
    api.compute.start_server(server)
    host = proof.ExternalHost(cluster, cloud.namespace)
    server_reaches(api, server, "ACTIVE")
    until("the server to answer", lambda: host.run("curl", "-sS", "-m3", f"http://{address}/"), 180)
    assert api.compute.create_server_remote_console(server, protocol="vnc", type="novnc").url
