#!/bin/sh
# Connects this pod with the management network of amphorae: by a pair of interfaces, of which one is in the pod and the
# other one, NODE_INTERFACE, is a port of the node's Open vSwitch. It runs as root of the node; INTERFACE_FILE is by a
# container that does not, so each of its words is checked. The pair ends with the pod.
read -r port mac address mtu < "$INTERFACE_FILE"
# A shell's echo may take a backslash for the start of something else, and leave the rest of the word out.
check() { printf '%s\n' "$1" | grep -Eqx "$2" || { printf 'not %s: %s\n' "$3" "$1" >&2; exit 1; }; }
check "$port" '[0-9a-f-]{36}' "the id of a port"
check "$mac" '([0-9a-f]{2}:){5}[0-9a-f]{2}' "a MAC address"
check "$address" '[0-9a-f.:]{2,45}/[0-9]{1,3}' "an address"
check "$mtu" '[0-9]{3,5}' "an MTU"
network=$NODE_PROC/1/ns/net
# What an earlier attempt left.
ip link delete o-hm0 2> /dev/null || :
nsenter --net="$network" ip link delete "$NODE_INTERFACE" 2> /dev/null || :
ip link add o-hm0 address "$mac" mtu "$mtu" type veth peer name "$NODE_INTERFACE" mtu "$mtu" netns "$network"
# A switch in userspace hands on packets whose checksum was left to the hardware.
ethtool -K o-hm0 tx off > /dev/null || :
ip address add "$address" dev o-hm0
ip link set o-hm0 up
nsenter --net="$network" ip link set "$NODE_INTERFACE" up
ovs-vsctl --timeout=30 --may-exist add-port br-int "$NODE_INTERFACE" -- set Interface "$NODE_INTERFACE" \
    "external-ids:iface-id=\"$port\"" "external-ids:attached-mac=\"$mac\"" external-ids:iface-status=active \
    external-ids:skip_cleanup=true
