"""Block devices that come to a node over its network: what pods that attach them share with the node."""

from __future__ import annotations

from typing import Any

from .. import kube
from ..plan import Context

DEVICES = (
    kube.host("dev", "/dev", kind="Directory"),
    kube.host("modules", "/lib/modules", kind="Directory"),
    kube.host("iscsi", "/etc/iscsi"),
)
"""Mounts of such a pod. Devices appear in the node's /dev; /etc/iscsi says under which name the node logs in."""

# One program on a node serves the kernel's initiator. It may be the node's own, or that of another pod.
_ISCSID = """\
modprobe -q iscsi_tcp || true
cd /etc/iscsi
[ -s initiatorname.iscsi ] || echo "InitiatorName=$(iscsi-iname)" > initiatorname.iscsi
[ -e iscsid.conf ] || echo 'node.startup = manual' > iscsid.conf
while grep -q '@ISCSIADM_ABSTRACT_NAMESPACE' /proc/net/unix; do sleep 5; done
exec "$@"
"""


def iscsid(ctx: Context[Any]) -> kube.Container:
    """The container that serves the initiator of the node, on whose network the pod must be."""
    entry = ctx.release["iscsid"]
    return kube.Container(
        name="iscsid",
        component=entry,
        command=["sh", "-c", _ISCSID, "iscsid", *entry.command],
        mounts=(*DEVICES, *kube.scratch("/run", "/tmp")),  # noqa: S108
        memory="16Mi",
        privileged=True,
        root=True,
    )
