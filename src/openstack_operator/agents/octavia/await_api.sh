#!/bin/sh
# Hook before the end of Octavia's driver agent: lasts until the API of its pod no longer listens at the port of the
# argument. The API tells the agent what came of a request; without it, a load balancer would stay PENDING for good.
port=$(printf %04X "$1") tables=${TABLES:-/proc/net} # Tests name another folder.

# The kernel lists listening sockets as 0A, ports in hexadecimal.
is_served() { cat "$tables/tcp" "$tables/tcp6" 2> /dev/null | grep -qi ":$port 0*:0000 0A "; }

sleep 5
while is_served; do sleep 0.2; done
