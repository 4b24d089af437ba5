"""Block devices that come to a node over its network: what pods that attach them share with the node."""

from __future__ import annotations

from typing import Any

from ... import agents, kube
from ...plan import Context

_ISCSI = "/etc/iscsi"

DEVICES = (
    kube.host("dev", "/dev", kind="Directory"),
    kube.host("modules", "/lib/modules", kind="Directory"),
    kube.host("iscsi", _ISCSI),
)
"""Mounts of such a pod. Devices appear in the node's /dev; /etc/iscsi says under which name the node logs in."""


def iscsid(ctx: Context[Any]) -> kube.Container:
    """Return the container that serves the node's iSCSI initiator. The pod must be on the node's network."""
    entry = ctx.release["iscsid"]
    return kube.Container(
        name="iscsid",
        entry=entry,
        command=agents.shell("nodes/start_iscsid.sh", words=entry.command, options="-c"),
        env={"ISCSI_FOLDER": _ISCSI},
        mounts=(*DEVICES, *kube.scratch("/run", "/tmp")),  # noqa: S108
        memory="16Mi",
        privileged=True,
        root=True,
    )
