"""What nova-compute attaches to guests, whatever Cinder or Neutron says. The patch's own check tries it within Nova."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.security

PROGRAM = Path(__file__).parent.parent.parent / "images" / "compute" / "nova_attachments"
SHARE = "nfs.example.org:/volumes"


class Refusal(Exception):
    """Nova's exceptions, which take the parts of their text by name."""

    def __init__(self, message: str = "", **parts: Any) -> None:
        super().__init__(message or str(parts))


@pytest.fixture
def files() -> dict[str, SimpleNamespace]:
    """What qemu-img says of files, by their paths."""
    return {}


@pytest.fixture
def attachments(monkeypatch: pytest.MonkeyPatch, files: dict[str, SimpleNamespace]) -> Iterator[ModuleType]:
    names = ("VolumeDriverNotFound", "VirtualInterfacePlugException", "NovaException", "ShareMountError")
    exceptions = SimpleNamespace(**{name: type(name, (Refusal,), {}) for name in names})

    def image_info(path: str, format: str) -> SimpleNamespace:  # noqa: A002
        return files[path]

    images = SimpleNamespace(privileged_qemu_img_info=image_info)
    stands_for: dict[str, dict[str, Any]] = {
        "nova": {"exception": exceptions},
        "nova.virt": {"images": images},
        "oslo_log": {"log": SimpleNamespace(getLogger=logging.getLogger)},
    }
    for name, content in stands_for.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("NOVA_VOLUME_TYPES", "fibre_channel iscsi nfs nvmeof rbd")
    monkeypatch.setenv("NOVA_NFS_SHARES", SHARE)
    loader = importlib.machinery.SourceFileLoader("nova_attachments", str(PROGRAM))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    yield module


def answer(kind: str, **data: Any) -> dict[str, Any]:
    return {"driver_volume_type": kind, "data": data}


RBD = {"name": "volumes/volume-1", "hosts": ["192.0.2.1", "[2001:db8::1]"], "ports": ["6789", "6789"]}
NFS = {"export": SHARE, "name": "volume-1", "format": "raw", "options": "-o vers=4.1,nconnect=4"}


@pytest.mark.parametrize(
    "given",
    [
        answer("rbd", **RBD),
        answer("rbd", **{**RBD, "name": "p/i@s"}),
        answer("nfs", **NFS),
        answer("nfs", **{**NFS, "options": None}),
        answer("nfs", export=SHARE, name="volume-1.9a-b"),
        answer("iscsi"),
    ],
)
def test_attachments_of_the_clouds_volumes_are_accepted(attachments: ModuleType, given: dict[str, Any]) -> None:
    attachments.check_answer(given)


@pytest.mark.parametrize(
    "given",
    [
        *(answer(kind, device_path="/dev/sda") for kind in ("local", "fake", "gpfs", "scaleio", "smbfs", "", "NFS")),
        *({"driver_volume_type": kind} for kind in (None, ["rbd"], {"rbd": 1}, 1)),
        {"driver_volume_type": "iscsi", "data": ["/dev/sda"]},
        *(
            answer("nfs", **{**NFS, "name": name})
            for name in ("../a", "/etc/shadow", "a/b", ".", "..", "", "a\0", None)
        ),
        *(answer("nfs", **{**NFS, "export": at}) for at in ("other.example.org:/volumes", "/", "/dev", None)),
        *(answer("nfs", **{**NFS, "format": name}) for name in ("vmdk", "vhdx", "luks", "")),
        *(
            answer("nfs", **{**NFS, "options": text})
            for text in (
                "-o bind",
                "-o vers=4.1,remount",
                "-o",
                "-t tmpfs",
                "-o dev",
                "-o a=b --bind /dev",
                "/dev /mnt",
            )
        ),
        *(answer("rbd", **{**RBD, "name": name}) for name in ("p/i:conf=/etc/x", "/dev/sda", "../p/i", "p", None)),
        *(answer("rbd", **{**RBD, "hosts": hosts}) for hosts in (["a b"], [["a"]], "a", {"a": 1}, 7)),
        *(answer("nfs", **{**NFS, name: [NFS[name]]}) for name in NFS),
    ],
)
def test_other_attachment_answers_are_refused(attachments: ModuleType, given: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        attachments.check_answer(given)


def test_types_are_those_of_this_clouds_backends(attachments: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for types in ({"rbd"}, set[str]()):
        monkeypatch.setattr(attachments, "TYPES", types)
        with pytest.raises(Refusal, match="NOVA_VOLUME_TYPES"):
            attachments.check_answer(answer("iscsi"))
    with pytest.raises(Refusal, match="NOVA_VOLUME_TYPES"):
        attachments.check_answer(answer("rbd", **RBD))


def test_a_path_in_an_answer_is_dropped(attachments: ModuleType) -> None:
    """Nova would format what it names, if the volume is encrypted."""
    given = answer("rbd", **RBD, device_path="/dev/sda")
    attachments.check_answer(given)
    assert "device_path" not in given["data"]


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/shadow", "/dev/../etc/shadow", "/dev/disk/by-id/../../sda", "/dev/mapper/../sda"),
        *("/dev/vda", "/dev/null", "/dev/mem", "/dev/loop0", "/dev/sdzzz", "/dev/sda\n", "sda", None),
    ],
)
def test_attachments_of_other_devices_are_refused(attachments: ModuleType, path: str | None) -> None:
    with pytest.raises(Refusal):
        attachments.check_device(answer("iscsi", device_path=path))


def sysfs(root: Path, name: str, place: str, *slaves: str) -> None:
    at = root / "devices" / place / name
    at.mkdir(parents=True)
    (root / "class" / "block").mkdir(parents=True, exist_ok=True)
    (root / "class" / "block" / name).symlink_to(at)
    if slaves:
        (at / "slaves").mkdir()
        for slave in slaves:
            (at / "slaves" / slave).symlink_to(root / "class" / "block" / slave)


def test_a_device_is_of_another_server_if_sysfs_says_so(
    attachments: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "SYSFS", str(tmp_path))
    sysfs(tmp_path, "sda", "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block")
    sysfs(tmp_path, "sdb", "platform/host2/session1/target2:0:0/2:0:0:1/block")
    sysfs(tmp_path, "sdc", "platform/host3/session2/target3:0:0/3:0:0:1/block")
    sysfs(tmp_path, "sdd", "pci0000:00/host4/rport-4:0-1/target4:0:0/4:0:0:0/block")
    sysfs(tmp_path, "nvme0n1", "pci0000:00/0000:00:1d.0/nvme/nvme0")
    sysfs(tmp_path, "nvme1n1", "virtual/nvme-fabrics/ctl/nvme1")
    sysfs(tmp_path, "dm-0", "virtual/block", "sdb", "sdc")
    sysfs(tmp_path, "dm-1", "virtual/block", "sdb", "sda")
    sysfs(tmp_path, "dm-2", "virtual/block", "dm-0")
    sysfs(tmp_path, "loop0", "virtual/block")
    for number, kind in ((2, "nvme-fabrics/ctl"), (3, "pci0000:00")):
        (tmp_path / "devices" / kind / f"nvme{number}").mkdir(parents=True)
        sysfs(tmp_path, f"nvme{number}n1", f"virtual/nvme-subsystem/nvme-subsys{number}")
        way = tmp_path / "devices" / "virtual" / "nvme-subsystem" / f"nvme-subsys{number}" / f"nvme{number}"
        way.symlink_to(tmp_path / "devices" / kind / f"nvme{number}")
    names = [path.name for path in (tmp_path / "class" / "block").iterdir()]
    remote = {name for name in names if attachments._is_remote(name)}
    assert remote == {"sdb", "sdc", "sdd", "nvme1n1", "nvme2n1", "dm-0", "dm-2"}


@pytest.mark.parametrize("path", ["/dev/sdb", "/dev/dm-0", "/dev/mapper/crypt-1", "/dev/disk/by-id/os-brick+dev+sdb"])
def test_a_definition_may_name_devices_of_another_node(attachments: ModuleType, path: str) -> None:
    attachments.check_config(answer("iscsi", device_path=path))


@pytest.mark.parametrize(
    "given",
    [
        answer("local", device_path="/dev/sda"),
        answer("iscsi", device_path="/etc/shadow"),
        answer("iscsi", device_path="/dev/disk/by-id/../../sda"),
        answer("nfs", name="sda", device_path="/var/lib/nova/mnt/a/../../../../../dev/sda"),
        answer("nfs", name="a", device_path="/var/lib/nova/mnt/x/b"),
        answer("nfs", name="a"),
        answer("rbd", name="p/i:conf=/x"),
    ],
)
def test_a_definition_names_nothing_else(attachments: ModuleType, given: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        attachments.check_config(given)


def info(
    backing: str | None = None, backing_format: str | None = None, data_file: str | None = None
) -> SimpleNamespace:
    details = {"data": {"data-file": data_file} if data_file else {}}
    return SimpleNamespace(backing_file=backing, backing_file_format=backing_format, format_specific=details)


def test_files_of_a_share_are_plain(attachments: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "volume-1").touch()
    (tmp_path / "link").symlink_to("/etc/passwd")
    attachments.check_device(answer("nfs", device_path=str(tmp_path / "volume-1")))
    for name in ("link", "missing", "."):
        with pytest.raises(Refusal):
            attachments.check_device(answer("nfs", device_path=str(tmp_path / name)))


def test_snapshots_lead_to_files_of_the_same_folder(
    attachments: ModuleType, files: dict[str, SimpleNamespace], tmp_path: Path
) -> None:
    base, snapshot, own = (str(tmp_path / name) for name in ("volume-1", "volume-1.a", "own"))
    for path in (base, snapshot, own):
        Path(path).touch()
    given = answer("nfs", device_path=snapshot, format="qcow2")
    for good in (info(), info("volume-1", "raw"), info(base, "raw")):
        files[snapshot] = good
        attachments.check_device(given)
    for bad in (
        info("/dev/sda", "raw"),
        info("../volume-1", "raw"),
        info("volume-1"),
        info('json:{"driver": "raw"}', "raw"),
        info("nbd:192.0.2.1:10809", "raw"),
        info(data_file="/dev/sda"),
        info("volume-1.a", "qcow2"),
    ):
        files[snapshot] = bad
        with pytest.raises(Refusal):
            attachments.check_device(given)
    files[snapshot], files[own] = info("own", "qcow2"), info("/dev/sda", "raw")
    with pytest.raises(Refusal):
        attachments.check_device(given)


def port(kind: str = "ovs", vnic: str = "normal", bridge: str | None = "br-int") -> dict[str, Any]:
    return {"type": kind, "vnic_type": vnic, "network": {"bridge": bridge}}


def test_only_ovn_ports_are_plugged(attachments: ModuleType) -> None:
    for good in (port(), port(bridge=None), {**port("binding_failed"), "network": None}):
        attachments.check_vif(good)
    for bad in (
        *(port(kind) for kind in ("hostdev_physical", "tap", "vhostuser", "bridge", "macvtap", "hw_veb", "802.1qbg")),
        {**port(), "type": ["ovs"]},
        port(vnic="direct"),
        port(bridge="br-ex"),
    ):
        with pytest.raises(Refusal):
            attachments.check_vif(bad)


def test_devices_need_configuration_and_there_are_no_shares(attachments: ModuleType) -> None:
    attachments.check_pci(['{"vendor_id": "8086"}'], "0000:00:1f.2")
    with pytest.raises(Refusal):
        attachments.check_pci([], "0000:00:1f.2")
    with pytest.raises(Refusal):
        attachments.check_share()
