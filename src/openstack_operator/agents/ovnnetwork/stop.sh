#!/bin/sh
# Hook before the end: a member that is not listed leaves its cluster first, then the arguments after member.sh's two
# stop the server. Needs member.sh.
if ! is_listed; then
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        # The server may only just have started, and a leader may still have to remove another server.
        status=$(ask status 2>&1)
        has_left "$status" && break
        leave "$status"
        sleep 1
    done
fi
exec "$@"
