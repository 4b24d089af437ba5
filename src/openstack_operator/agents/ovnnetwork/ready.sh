#!/bin/sh
# Probe: succeeds if this member takes part in its cluster. It also makes the cluster's list that of the record, since
# it runs again and again: a member that is not listed leaves, and a leader removes servers that will not come back.
# Needs member.sh.
status=$(ask status 2>&1) || {
    has_left "$status"
    exit 1
}
case $status in
*"Status: leaving cluster"*) exit 0 ;;
*"Status: cluster member"*) ;;
*) exit 1 ;;
esac
case $status in *"Leader: unknown"*) exit 1 ;; esac
is_listed || leave "$status"
case $status in *"Role: leader"*)
    for server in $(stale_servers "$status"); do ask kick "$server" || :; done
    ;;
esac
