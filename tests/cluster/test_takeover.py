"""Two replicas as processes: one is frozen in the middle of its work, the other goes on alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from openstack_operator.runtime.kubernetes.kinds import LEASE
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .harness import Cluster, eventually
from .recording_proxy import ORDER, recording_proxy
from .test_controlplane import SMALL

ROOT = Path(__file__).parent.parent.parent
_BUSY = 10
"""Writes after which a roll-out is in full swing; it takes a hundred or more."""


@contextmanager
def replica(cluster: Cluster, kubeconfig: Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A replica that serves the cluster's namespace, killed at the end."""
    command = [sys.executable, "-m", "tests.cluster.operator_process", cluster.namespace]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def holder(cluster: Cluster) -> str:
    lease = await cluster.get(LEASE, "openstack-operator") or {}
    return lease.get("spec", {}).get("holderIdentity", "")


async def begun_anew(log: Path) -> bool:
    """Whether the replica noticed that its lease was lost, and started again."""
    before, lost, after = log.read_text(encoding="utf-8").partition("was not renewed")  # noqa: ASYNC240  (a line or two)
    return "starting" in before and bool(lost) and "starting" in after


async def test_a_frozen_leader_writes_nothing_when_it_wakes(cluster: Cluster, kubeconfig: Path, tmp_path: Path):
    async with (
        recording_proxy(kubeconfig, tmp_path) as (first, path),
        recording_proxy(kubeconfig, tmp_path) as (second, other),
    ):
        with replica(cluster, path, tmp_path / "first.log") as frozen:
            await eventually(lambda: holder(cluster))
            with replica(cluster, other, tmp_path / "second.log"):
                await cluster.create(CONTROL_PLANE, "cloud", **SMALL)

                async def busy() -> bool:
                    return sum(sent.write for sent in first.sent) >= _BUSY

                await eventually(busy)
                frozen.send_signal(signal.SIGSTOP)
                stopped = next(ORDER)
                async with cluster.simulator():

                    async def acts() -> bool:
                        return any(sent.write for sent in second.sent if sent.number > stopped)

                    await eventually(acts)
                    taken_over = next(sent.number for sent in second.sent if sent.write and sent.number > stopped)
                    await cluster.ready(CONTROL_PLANE, "cloud")
                    # Something for whoever wakes to do, if it thought that it might.
                    await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"replicas": 2})
                    frozen.send_signal(signal.SIGCONT)
                    await eventually(lambda: begun_anew(tmp_path / "first.log"))
                    await cluster.ready(CONTROL_PLANE, "cloud")
                    assert frozen.poll() is None, "it stands by, in the same process"
    late = [sent for sent in first.sent if sent.write and sent.number > taken_over]
    # What it had sent may arrive a moment after it was frozen, but not after the other has begun; with one exception:
    # a body that it was about to hand to the socket, between the check and the call.
    assert [sent for sent in late if sent.begun > stopped] == [], "it wrote when it woke"
    assert len(late) <= 1, "bodies are checked one by one"
