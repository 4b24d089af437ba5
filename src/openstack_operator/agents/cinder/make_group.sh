#!/bin/sh
# Make a volume group, or activate the one that exists: a second run changes no data. Arguments: the group, its device
# (empty for a file), the size of the file in bytes, the folder of the node for the file and the targets, and the user
# of the targets' folder. LVM_SYSTEM_DIR is the folder of lvm.conf.
group=$1 disk=$2 size=$3 state=$4 owner=$5
mkdir -p "$state/target"
install -d -o "$owner" "$state/volumes"
# A module may be a part of the kernel.
modprobe -q -a dm_snapshot dm_thin_pool target_core_mod iscsi_target_mod || true
if [ -z "$disk" ]; then
    file=$state/disk.img
    [ -e "$file" ] || truncate -s "$size" "$file"
    disk=$(losetup -j "$file" | cut -d: -f1 | head -n 1)
    [ -n "$disk" ] || disk=$(losetup -f --show "$file")
fi
if ! vgs "$group" > /dev/null 2>&1; then
    pvcreate -y "$disk"
    vgcreate "$group" "$disk"
fi
vgchange -ay "$group"
