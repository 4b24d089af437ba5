"""Drain of a nova-compute: it finishes its work before Kubernetes stops it. Stopped at once, it drops builds and
migrations where they are, and servers stay in a state that nothing ends.
"""

from __future__ import annotations

from typing import Any

from ... import agents

GRACE = 1800
"""Seconds that a nova-compute has to finish its work."""
WAITS_FOR = (
    "nova-compute waits for migrations and for servers with a task on its node: list them with"
    " `openstack server list --all-projects --host NODE --long`; reset a stuck task with `openstack server set"
    " --state active SERVER`"
)
"""Message of the condition in that time, with `NODE` for the node."""


def drain_hook(conf: str) -> dict[str, Any]:
    """Return a preStop hook that lasts until no server of the node is being made or changed, none comes and none goes,
    at most until the grace period of the pod ends. It reads the file `conf`.
    """
    command = ["python3", "-W", "ignore", "-c", agents.text("nova/drain.py"), conf]
    return {"preStop": {"exec": {"command": command}}}
