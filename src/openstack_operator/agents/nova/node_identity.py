"""Give a compute node whose disk is new the identity that Nova knows, then become the program of the arguments. It
needs the node's name in OS_DEFAULT__HOST, the folder of its servers' disks in STATE, whose path on the node is
NODE_FOLDER, and the path of nova.conf in NOVA_CONF.

nova-compute writes its identity into a file when a node starts for the first time. Later it refuses to start without
this file, since a folder that is not mounted looks like a new disk
(nova.compute.manager.ComputeManager._ensure_existing_node_identity). Where servers would lose nothing, the identity is
written at once: the node has none, or their disks are volumes or in Ceph. Otherwise, an administrator has to decide.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

STATE = Path(os.environ["STATE"])
NODE_FOLDER = Path(os.environ["NODE_FOLDER"])
IDENTITY = STATE / "compute_id"
"""Name of the file in Nova (nova.virt.node.COMPUTE_ID_FILE)."""
CONSENT = STATE / "disks-are-lost"
"""A file with this name says that the disks of this node's servers are lost, and that it should start all the same."""
SECTION = "neutron"
"""Section of nova.conf with a user that may list the servers of all projects, and the hypervisors."""
MICROVERSION = "2.59"
"""Of the answers that this program reads: UUIDs of hypervisors, and the flavor in each server."""


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


def has_disk_on_node(server: dict[str, Any]) -> bool:
    """Return True if a server loses data with its node's disk: its root, ephemeral or swap disk is a file there."""
    flavor = server["flavor"]
    return bool(server["image"] or flavor["ephemeral"] or flavor["swap"])


def identity_for(host: str, hypervisors: list[dict[str, Any]], servers: list[dict[str, Any]]) -> str:
    """Return the identity that a node gets back, empty if Nova does not know the node. Raises RefusedError."""
    of_host = [each for each in hypervisors if each["service"]["host"] == host]
    if not of_host:
        return ""
    if len(of_host) > 1:
        identities = ", ".join(each["id"] for each in of_host)
        raise RefusedError(
            f"Nova has several hypervisors for this node; write one of {identities} into {NODE_FOLDER / IDENTITY.name}"
        )
    if of_host[0]["state"] == "up":
        raise RefusedError(f"a nova-compute with the name of this node, {host}, reported to Nova in the last minute")
    losing = [each["id"] for each in servers if has_disk_on_node(each)]
    if losing and not CONSENT.exists():
        examples = ", ".join(losing[:3]) + (", ..." if len(losing) > 3 else "")
        raise RefusedError(
            f"the node lacks {NODE_FOLDER / IDENTITY.name} and disks of {len(losing)} servers ({examples}); mount its"
            f" disk; if that is lost, evacuate or delete them, or `touch {NODE_FOLDER / CONSENT.name}` on the node"
        )
    return str(of_host[0]["id"])


def answers(path: str, host: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return Nova's hypervisors and the servers of this node; no hypervisors where the node is new."""
    # A node that has its identity does not wait until these are imported.
    from keystoneauth1 import loading  # noqa: PLC0415
    from oslo_config import cfg  # noqa: PLC0415

    conf = cfg.ConfigOpts()
    for kind in ("auth", "session", "adapter"):
        getattr(loading, f"register_{kind}_conf_options")(conf, SECTION)
    conf.register_opt(cfg.StrOpt("images_type", default="default"), "libvirt")
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
        return [], []
    hypervisors = ask("os-hypervisors/detail")["hypervisors"]
    in_ceph = conf.libvirt.images_type == "rbd"
    return hypervisors, [] if in_ceph else ask(f"servers/detail?all_tenants=1&host={host}")["servers"]


def take_identity() -> None:
    """Write the identity of this node if Nova has one for it. Raises RefusedError."""
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415
    from oslo_config import cfg  # noqa: PLC0415

    host = os.environ["OS_DEFAULT__HOST"]
    try:
        identity = identity_for(host, *answers(os.environ["NOVA_CONF"], host))
    except (ClientException, cfg.Error, LookupError, ValueError) as error:
        # nova-compute itself says what is wrong, and refuses to start on a disk that is new.
        print(f"{type(error).__name__} in the request for the identity of this node", flush=True)
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
