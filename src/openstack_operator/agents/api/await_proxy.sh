#!/bin/sh
# Hook before the end of a program behind a proxy of its own pod: lasts until the proxy has ended, which would answer in
# its place. Both listen at the port of the argument, the program only on the loopback address.
port=$(printf %04X "$1") tables=${TABLES:-/proc/net} # Tests name another folder.

# The kernel lists listening sockets as 0A, ports and addresses in hexadecimal.
is_proxied() {
    cat "$tables/tcp" "$tables/tcp6" 2> /dev/null | grep ":$port 0*:0000 0A " | grep -qv ' 0100007F:'
}

sleep 5
while is_proxied; do sleep 0.2; done
