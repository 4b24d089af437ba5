#!/bin/sh
# Waits until the node has its certificate in TLS_FOLDER, if it gets one, and Open vSwitch's database listens, then
# becomes the program of the arguments. A metadata agent that starts before them fails, and neither ends nor retries.
sockets=${SOCKETS:-/proc/net/unix} # Tests name another file.
until [ ! -d "$TLS_FOLDER" ] || [ -e "$TLS_FOLDER/tls.key" ]; do sleep 1; done
# The kernel's table and not the file, which outlives its server. 00010000 marks a listening socket.
until grep -qs ' 00010000 .*/run/openvswitch/db.sock$' "$sockets"; do sleep 1; done
exec "$@"
