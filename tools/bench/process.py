"""An operator in a process of its own, and what the kernel and its own counters tell of it."""

from __future__ import annotations

import asyncio
import os
import sys
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tools.localcluster.ports import free_port

_TICK = os.sysconf("SC_CLK_TCK")
_MIB = 1024.0
"""/proc counts memory in KiB."""
READS = ("GET", "WATCH")


@dataclass(frozen=True)
class Writes:
    """Requests of the operator that change something."""

    requests: int
    created: int
    """Those of them that made an object (201)."""
    renewals: int
    """Those of them that are PUTs, as of the lease; keys in rotation are replaced with PUT too."""

    def __sub__(self, before: Writes) -> Writes:
        return Writes(self.requests - before.requests, self.created - before.created, self.renewals - before.renewals)


@dataclass(frozen=True)
class Operator:
    """A running operator."""

    pid: int
    port: int

    def cpu(self) -> float:
        """Return the seconds of processor time so far, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def memory(self) -> tuple[float, float]:
        """Return the MiB resident now and at most so far, libraries included."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["VmRSS"].split()[0]) / _MIB, int(fields["VmHWM"].split()[0]) / _MIB

    async def writes(self) -> Writes:
        """Return its own counts; the request costs it a few milliseconds."""
        requests = created = renewals = 0
        for family in text_string_to_metric_families(await self.ask("/metrics")):
            for sample in family.samples:
                if sample.name == "rest_client_requests_total" and sample.labels["method"] not in READS:
                    requests += int(sample.value)
                    created += int(sample.value) if sample.labels["code"] == "201" else 0
                    renewals += int(sample.value) if sample.labels["method"] == "PUT" else 0
        return Writes(requests, created, renewals)

    async def ask(self, path: str) -> str:
        """Return its answer. Raises OSError if there is none, or if it is not ready."""

        def get() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.read().decode()

        return await asyncio.to_thread(get)


@asynccontextmanager
async def operator(kubeconfig: Path, log: Path, *options: str) -> AsyncGenerator[Operator]:
    """Yield an operator for that cluster, synced and idle.

    Raises RuntimeError with the end of its log where it does not become ready.
    """
    port = free_port()
    command = [sys.executable, "-m", "tools.bench.operator", f"--health-port={port}", *options]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output, env=environment)
    try:
        instance = Operator(process.pid, port)
        await _until_ready(instance, process, log)
        yield instance
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _until_ready(instance: Operator, process: asyncio.subprocess.Process, log: Path) -> None:
    for _ in range(300):
        if process.returncode is not None:
            break
        try:
            await instance.ask("/readyz")
        except OSError:
            await asyncio.sleep(0.1)
            continue
        await _until_idle(instance)
        return
    raise RuntimeError(f"the operator did not start:\n{_tail(log)}")


async def _until_idle(instance: Operator) -> None:
    """Wait until half a second has passed with almost no work: the start is over."""
    before = -1.0
    while instance.cpu() - before > 0.02:
        before = instance.cpu()
        await asyncio.sleep(0.5)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-15:])
