"""Give a compute node whose disk is new the identity that Nova knows, then become the program of the arguments. It
needs the node's name in OS_DEFAULT__HOST, the folder of its servers' disks in STATE, whose path on the node is
NODE_FOLDER, and the path of nova.conf in NOVA_CONF.

nova-compute writes its identity into a file when a node starts for the first time. Later it refuses to start without
this file, since a folder that is not mounted looks like a new disk
(nova.compute.manager.ComputeManager._ensure_existing_node_identity). A node without servers gets its identity at once:
nothing can be lost. With servers, an administrator has to decide. Nova starts those that ran: without their disks if
the folder is not mounted, and for a second time if the old machine still runs and its disks are in Ceph or volumes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

STATE = Path(os.environ["STATE"])
NODE_FOLDER = Path(os.environ["NODE_FOLDER"])
IDENTITY = STATE / "compute_id"
"""Name of the file in Nova (nova.virt.node.COMPUTE_ID_FILE)."""
CONSENT = STATE / "disk-is-new"
"""A file with this name says that no other machine runs the node's servers, and that its disk is new."""
CONSENT_LIFE = 3600
"""Seconds after which the file is no consent: it may lie below a disk that was mounted since."""
SECTION = "neutron"
"""Section of nova.conf with a user that may list the servers of all projects, and the hypervisors."""
MICROVERSION = "2.59"
"""Of the answers that this program reads: UUIDs of hypervisors, their pages, and filters of migrations."""
MAX_NAMED = 3
"""Maximum number of servers that a message names."""


class RefusedError(Exception):
    """The node may not get its identity. The message says what to do."""


def write_identity(identity: str) -> None:
    """Write the file whole or not at all: an empty one is no identity."""
    unfinished = IDENTITY.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(identity)
        file.flush()
        os.fsync(file.fileno())
    unfinished.chmod(0o644)
    unfinished.replace(IDENTITY)


def is_consented() -> bool:
    """Return True if an administrator has decided in the last hour."""
    try:
        return time.time() - CONSENT.stat().st_mtime < CONSENT_LIFE
    except FileNotFoundError:
        return False


def identity_for(host: str, hypervisors: list[dict[str, Any]], servers: Collection[str]) -> str:
    """Return the identity that a node gets back, empty if Nova has none for it. Raises RefusedError."""
    of_host = [each for each in hypervisors if each["service"]["host"] == host]
    if not of_host:
        return ""
    path = NODE_FOLDER / IDENTITY.name
    if len(of_host) > 1:
        choices = ", ".join(f"{each['id']} ({each['hypervisor_hostname']})" for each in of_host)
        raise RefusedError(
            f"Nova has several hypervisors for {host}; write the ID of this machine into {path}: {choices}"
        )
    if of_host[0]["state"] == "up":
        raise RefusedError(
            f"the node lacks {path}, and a nova-compute named {host} reported to Nova in the last minute; wait one;"
            " if this message stays, another machine has this name: stop its nova-compute"
        )
    if servers and not is_consented():
        examples = ", ".join(sorted(servers)[:MAX_NAMED]) + (", ..." if len(servers) > MAX_NAMED else "")
        raise RefusedError(
            f"the node lacks {path}, and Nova has servers there: {len(servers)} ({examples}); mount the disk with"
            f" {NODE_FOLDER}; if it is new, evacuate or delete the servers, or make sure that no other machine runs"
            f" them, and `touch {NODE_FOLDER / CONSENT.name}` on the node"
        )
    return str(of_host[0]["id"])


def answers(path: str, host: str) -> tuple[list[dict[str, Any]], set[str]]:
    """Return Nova's hypervisors, and the servers of this node: those that it runs, and those that it may get back when
    a resize is reverted. Return nothing where the node is new.
    """
    # A node that has its identity does not wait until these are imported.
    from keystoneauth1 import loading  # noqa: PLC0415
    from oslo_config import cfg  # noqa: PLC0415

    conf = cfg.ConfigOpts()
    for kind in ("auth", "session", "adapter"):
        getattr(loading, f"register_{kind}_conf_options")(conf, SECTION)
    conf([f"--config-file={path}"])
    auth = loading.load_auth_from_conf_options(conf, SECTION)
    nova = loading.load_session_from_conf_options(conf, SECTION, auth=auth, timeout=10)
    endpoint = {
        "service_type": "compute",
        "interface": conf[SECTION].valid_interfaces,
        "region_name": conf[SECTION].region_name,
    }

    def ask(resource: str) -> Any:
        return nova.get(f"/{resource}", endpoint_filter=endpoint, microversion=MICROVERSION).json()

    if not ask(f"os-services?binary=nova-compute&host={host}")["services"]:
        return [], set()
    page = ask("os-hypervisors/detail")
    hypervisors = list(page["hypervisors"])
    while page.get("hypervisors_links"):
        page = ask(f"os-hypervisors/detail?marker={hypervisors[-1]['id']}")
        hypervisors += page["hypervisors"]
    servers = {each["id"] for each in ask(f"servers/detail?all_tenants=1&host={host}")["servers"]}
    resized = {each["instance_uuid"] for each in ask(f"os-migrations?status=finished&host={host}")["migrations"]}
    return hypervisors, servers | resized


def take_identity() -> None:
    """Write the identity of this node if Nova has one for it. Raises RefusedError."""
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415
    from oslo_config import cfg  # noqa: PLC0415

    host = os.environ["OS_DEFAULT__HOST"]
    try:
        identity = identity_for(host, *answers(os.environ["NOVA_CONF"], host))
    except (ClientException, cfg.Error, LookupError, ValueError) as error:
        # nova-compute refuses to start on a disk that is new; an API of an earlier version forbids these requests.
        print(f"{type(error).__name__} as Nova was asked for this node's identity: nova-compute decides", flush=True)
        return
    if identity:
        write_identity(identity)
        CONSENT.unlink(missing_ok=True)
        print(f"this node has a new disk: took the identity that Nova knows, {identity}", flush=True)


def main(command: list[str]) -> None:
    """Become the program."""
    if not IDENTITY.exists():
        try:
            take_identity()
        except RefusedError as error:
            sys.exit(f"error: {error}")
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
