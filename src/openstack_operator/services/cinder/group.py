"""A volume group of LVM: made on a device or in a file of the node, and offered over iSCSI."""

from __future__ import annotations

from typing import Any

from ... import agents, kube, parts
from ...parts.run.devices import DEVICES
from ...plan import Context
from .backend_model import Backend, LoopFile, Lvm

STATE = "/var/lib/openstack-cinder"
"""Path in pods of the backend's own folder of the node: the file of a group without a device, and the targets."""

CONFIG = """\
activation {{
    udev_sync = 0
    udev_rules = 0
    monitoring = 0
}}
global {{
    event_activation = 0
    use_lvmpolld = 0
}}
devices {{
    use_devicesfile = 0
    global_filter = [ "a|^{accepted}|", "r|.*|" ]
}}
"""
"""lvm.conf: no daemon of the node knows about LVM in the pod, so that the pod makes device nodes itself and waits for
no daemon; and it sees no other disk of the node, and so no group of the node's own.
"""


def name(ctx: Context[Any], backend: Backend) -> str:
    """Return the name of a backend's volume group."""
    return (backend.lvm or Lvm()).volume_group or f"{ctx.owner}-{backend.name}"


def lvm_conf(backend: Backend) -> str:
    """Return lvm.conf of a backend."""
    return CONFIG.format(accepted=(backend.lvm or Lvm()).device or "/dev/loop")


def _state(ctx: Context[Any], backend: Backend) -> kube.Mount:
    loop = (backend.lvm or Lvm()).loop_file or LoopFile()
    folder = f"{loop.path}/{ctx.namespace}-{ctx.owner}-{backend.name}"
    return kube.Mount(name="state", path=STATE, volume={"hostPath": {"path": folder, "type": "DirectoryOrCreate"}})


def mounts(ctx: Context[Any], backend: Backend) -> list[kube.Mount]:
    """Return the mounts of cinder-volume besides a node's devices. The kernel's targets outlive the pod, and the files
    that describe them must do so too.
    """
    state = _state(ctx, backend)
    return [
        kube.Mount(name="state", path="/etc/target", volume=state.volume, sub_path="target"),
        kube.Mount(name="state", path=f"{parts.state(ctx)}/volumes", volume=state.volume, sub_path="volumes"),
        # cinder-volume configures LIO through configfs, a file system below this one.
        kube.host("sys", "/sys", kind="Directory", propagation="HostToContainer"),
    ]


def init_container(ctx: Context[Any], backend: Backend, conf: parts.Config) -> kube.Container:
    """Return the init container that makes the group."""
    lvm = backend.lvm or Lvm()
    size = kube.amount((lvm.loop_file or LoopFile()).size)
    entry = parts.release_entry(ctx, "volume")
    arguments = [name(ctx, backend), lvm.device or "", str(round(size)), STATE, str(entry.uid)]
    return kube.Container(
        name="group",
        entry=entry,
        command=agents.shell("cinder/make_group.sh", words=(*arguments,)),
        env={"LVM_SYSTEM_DIR": conf.directory},
        mounts=(*conf.mounts, *DEVICES, _state(ctx, backend), *kube.scratch("/run")),
        privileged=True,
        root=True,
    )


def sidecars(ctx: Context[Any], backend: Backend) -> list[kube.Container]:
    """Return tgtd, unless the kernel offers the volumes."""
    if (backend.lvm or Lvm()).target_helper != "tgtadm":
        return []
    return [
        kube.Container(
            name="tgtd",
            entry=ctx.release["tgtd"],
            mounts=(*DEVICES, *kube.scratch("/run"), *mounts(ctx, backend)),
            memory="32Mi",
            privileged=True,
            root=True,
        )
    ]
