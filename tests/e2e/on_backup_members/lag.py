"""How far an archive is behind now, asked of its program many times a second."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from openstack_operator.services.backup.archives import FACTS_PORT
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

_GRID = 0.25
# One process for as long as the pod lives: each `exec` costs more than many questions.
_ASK = f"""
import json, time, urllib.request
while True:
    with urllib.request.urlopen("http://127.0.0.1:{FACTS_PORT}/", timeout=2) as answer:
        print(json.load(answer).get("lastRecoverableTime") or "-", flush=True)
    time.sleep({_GRID})
"""


def p99(values: Sequence[float]) -> float:
    """Return the value that 99 of 100 do not exceed."""
    return sorted(values)[int(len(values) * 0.99)]


@dataclass
class Lag:
    """Seconds between now and the last second to which a restore can go, in a `with` block. While the program does not
    answer, the last second is the one that it told before.
    """

    cluster: Kubernetes
    cloud: Cloud
    deployment: str
    times: list[float] = field(default_factory=list[float])
    """When each answer came, by the clock of this machine, which is that of the nodes."""
    ends: list[float] = field(default_factory=list[float])
    """The last second that had been told until then."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Lag:
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._process:
            self._process.terminate()
        self._thread.join()

    def seconds(self, begin: float, end: float) -> list[float]:
        """Return the seconds behind in a span of time, at even distances, the least first."""
        found: list[float] = []
        moment = begin
        while moment < end:
            if index := bisect_right(self.times, moment):
                found.append(moment - self.ends[index - 1])
            moment += _GRID
        return sorted(found)

    def _work(self) -> None:
        while not self._stop.is_set():
            words = ("exec", "-n", self.cloud.namespace, f"deploy/{self.deployment}", "--", "python3", "-uc", _ASK)
            command = [*self.cluster.command(), *words]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                self._process = process
                assert process.stdout
                for line in process.stdout:
                    self._take(line.strip())
                    if self._stop.is_set():
                        process.terminate()
            self._stop.wait(_GRID)

    def _take(self, text: str) -> None:
        with contextlib.suppress(ValueError):
            told = datetime.fromisoformat(text).timestamp()
            self.times.append(time.time())
            self.ends.append(max(told, self.ends[-1] if self.ends else told))
