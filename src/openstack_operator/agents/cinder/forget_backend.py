"""Remove a backend's services, `HOST@BACKEND`, and its cluster from Cinder: arguments are the cluster, which may be
empty, and the hosts. CONFIG_FILE is cinder.conf.

A service that still reports would only list itself again: the program waits until all of them have been silent for
service_down_time, a minute. Each check starts cinder-manage, which imports half of Cinder: one every five seconds is a
dozen of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

VOLUME = "cinder-volume"
UP = ":-)"


def manage(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of cinder-manage."""
    command = ["cinder-manage", "--config-file", os.environ["CONFIG_FILE"], *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def services(hosts: list[str]) -> dict[str, bool]:
    """Return those of the hosts that Cinder lists: True for one that is up."""
    process = manage("service", "list")
    if process.returncode:
        sys.exit(process.stderr)
    rows = [line.split() for line in process.stdout.splitlines()]
    return {row[1]: UP in row for row in rows if row[:1] == [VOLUME] and row[1] in hosts}


def main(cluster: str, *hosts: str) -> None:
    """Wait until no service is up, and remove them all."""
    while any((states := services([*hosts])).values()):
        # Cinder calls a service down a minute after its last report, and sends no notice.
        time.sleep(5)
    for host in states:
        process = manage("service", "remove", VOLUME, host)
        print(process.stdout, end="", flush=True)
        if process.returncode:
            sys.exit(process.stderr)
    if cluster:
        # It fails if an earlier run removed the cluster.
        print(manage("cluster", "remove", VOLUME, cluster).stdout, end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
