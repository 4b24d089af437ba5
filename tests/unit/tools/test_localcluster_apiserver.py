"""Servers of tests: what becomes of them when the tests are killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

_PARENT = """
import pathlib, subprocess, time
from tools.localcluster.apiserver import ending_with_us
server = subprocess.Popen(ending_with_us(["sleep", "3600"]), start_new_session=True)
# Until then it runs what asks the kernel for it.
while pathlib.Path(f"/proc/{server.pid}/comm").read_text() != "sleep\\n":
    time.sleep(0.01)
print(server.pid, flush=True)
time.sleep(3600)
"""
_HUNG = 60.0
"""Seconds; a process that is killed ends within milliseconds."""


def test_servers_end_with_a_test_run_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        server = int(parent.stdout.readline())
        handle = os.pidfd_open(server)
        parent.kill()
        parent.wait()
        has_ended, _, _ = select.select([handle], [], [], _HUNG)
        if not has_ended:
            os.kill(server, signal.SIGKILL)
        os.close(handle)
    assert has_ended
