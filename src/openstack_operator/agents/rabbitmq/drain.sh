#!/bin/sh
# Hook before the end of a member: waits for one that was restarted before and may still be catching up, not for one
# that is absent, or ends as well. RABBITMQ_MEMBERS has the hosts of all, DISTRIBUTION_PORT the port at which each
# listens. Needs listens.sh.
for _ in 1 2 3 4 5 6; do
    ! rabbitmq-upgrade --timeout 3 await_online_quorum_plus_one || exit 0
    for host in $RABBITMQ_MEMBERS; do
        listens "$host" "$DISTRIBUTION_PORT" || exit 0
    done
done
