#!/bin/sh
# Startup probe: repeats a command until it succeeds. Arguments: seconds that it may take each time, how often it is run
# each second before that is every three, how often in all, and the command. A probe of the kubelet would run it at one
# pace only: a usual start is not to wait, and where everything starts at once each run is CPU that the others wait for.
seconds=$1 fast=$2 runs=$3
shift 3
run=1
until output=$(timeout "$seconds" "$@" 2>&1); do
    [ "$run" -lt "$runs" ] || {
        echo "$output"
        exit 1
    }
    if [ "$run" -lt "$fast" ]; then sleep 1; else sleep 3; fi
    run=$((run + 1))
done
