#!/bin/sh
# Gives the node a name as initiator in ISCSI_FOLDER, unless it has one, then becomes the program of the arguments. One
# program on a node serves the kernel's initiator: while the node's own one or another pod's does, this one waits.
sockets=${SOCKETS:-/proc/net/unix} # Tests name another file.
cd "$ISCSI_FOLDER" || exit

# An empty name, or Debian's "GenerateName=yes", is none.
has_name() { grep -qsE '^[[:space:]]*InitiatorName[[:space:]]*=[[:space:]]*[^[:space:]]' initiatorname.iscsi; }

# Another pod of the node may do the same: the first name remains, since programs log in by it.
create_name() {
    name=$(iscsi-iname) || return
    file=$(mktemp .initiatorname.XXXXXX) || return
    echo "InitiatorName=$name" > "$file"
    chmod 644 "$file"
    ln "$file" initiatorname.iscsi 2> /dev/null || has_name || cat "$file" > initiatorname.iscsi
    rm -f "$file"
}

modprobe -q iscsi_tcp || true
has_name || create_name
[ -e iscsid.conf ] || echo 'node.startup = manual' > iscsid.conf
while grep -q '@ISCSIADM_ABSTRACT_NAMESPACE' "$sockets"; do sleep 5; done
exec "$@"
