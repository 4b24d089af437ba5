"""The speed of a machine, by which goals in seconds are measured: they then hold on a slow core and on a fast one."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from statistics import median

_DOCUMENT = {
    "metadata": {"name": "calibration", "labels": {f"label-{number}": "x" * 20 for number in range(20)}},
    "spec": {"containers": [{"name": f"c{number}", "env": [{"name": "A", "value": "b"}] * 10} for number in range(10)]},
}
_ROUNDS = 2000
_RUNS = 5


def machine_unit() -> float:
    """Return the seconds of CPU that this machine needs for a fixed amount of work of the operator's sort: documents
    copied, encoded, digested and decoded. The median of five runs.
    """
    return median(_run() for _ in range(_RUNS))


def machine_wait() -> float:
    """Return the seconds that pass on this machine while a program uses a second of CPU: 1 if it is alone."""
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(_RUNS):
        _run()
    return (time.perf_counter() - start) / (time.process_time() - cpu)


def _run() -> float:
    start = time.process_time()
    for _ in range(_ROUNDS):
        text = json.dumps(copy.deepcopy(_DOCUMENT), sort_keys=True)
        hashlib.sha256(text.encode()).hexdigest()
        json.loads(text)
    return time.process_time() - start
