#!/bin/sh
# Becomes the program of the arguments, libvirt, outside of the cgroups of its container. Guests outlive the container:
# its runtime ends what it finds in the container's cgroups, so libvirt and the guests that it starts leave them, in
# every hierarchy (v1 has many, v2 one).
cgroups=${CGROUPS:-/sys/fs/cgroup} own_groups=${OWN_GROUPS:-/proc/self/cgroup} # Tests name others.

leave_cgroups() {
    status=0
    while IFS=: read -r _ names path; do
        root=$cgroups/${names#name=}
        [ -n "$names" ] || [ -e "$root/cgroup.procs" ] || root=$cgroups/unified
        [ -e "$root/cgroup.procs" ] || continue
        # Above the kubelet's groups, whose names may repeat their parent's: /kubelet.slice/kubelet-kubepods.slice.
        case $path in *kubepods*) path=${path%%kubepods*} path=${path%/*} ;; esac
        guests=$root$path/openstack-guests
        mkdir -p "$guests"
        for file in cpuset.cpus cpuset.mems; do
            if [ -e "$root$path/$file" ]; then cat "$root$path/$file" > "$guests/$file"; fi
        done
        # 0 is the process that writes: this shell, which becomes libvirt.
        echo 0 > "$guests/cgroup.procs" || status=1
    done < "$own_groups"
    return "$status"
}

leave_cgroups || echo "warning: guests will end with this container" >&2
exec "$@"
