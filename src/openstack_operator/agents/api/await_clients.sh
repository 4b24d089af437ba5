#!/bin/sh
# Hook before the end of a program that clients connect to, at the port of the argument: lasts until none is connected,
# at most until the pod's grace period ends. On SIGTERM servers cut off the clients that they serve, and those that wait
# to be accepted; APIs close each connection after its answer.
port=$(printf %04X "$1") tables=${TABLES:-/proc/net} # Tests name another folder.

# The kernel lists established connections as 01, ports in hexadecimal. One that was not accepted yet is among them.
is_connected() { cat "$tables/tcp" "$tables/tcp6" 2> /dev/null | grep -q ":$port [0-9A-F]*:[0-9A-F]* 01 "; }

# Until no node sends a pod that ends another connection, from when its endpoint is withdrawn.
sleep 5
while is_connected; do sleep 0.2; done
