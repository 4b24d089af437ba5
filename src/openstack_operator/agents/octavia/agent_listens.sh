#!/bin/sh
# Probe: succeeds if Octavia's driver agent listens at its sockets in the folder of the first argument, and if the pod
# has connections to the ports of the others.
tables=${TABLES:-/proc/net} folder=$1 # Tests name another folder.
shift

for name in status stats get; do
    # The kernel's table and not the file, which outlives its server. 00010000 is a listening socket.
    grep -qs " 00010000 .*$folder/$name.sock\$" "$tables/unix" || {
        echo "octavia-driver-agent: it does not listen at $folder/$name.sock yet"
        exit 1
    }
done
for port in "$@"; do
    # The kernel lists established connections as 01, ports in hexadecimal.
    cat "$tables/tcp" "$tables/tcp6" 2> /dev/null | grep -qi ":$(printf %04X "$port") 01 " || {
        echo "octavia-driver-agent: it has no connection to OVN's database at port $port yet"
        exit 1
    }
done
