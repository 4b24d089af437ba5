#!/bin/sh
# Liveness probe: succeeds while all processes of Octavia's driver agent run. Their parent does not notice when one is
# killed, as by a lack of memory, and never starts it again.
processes=${PROCESSES:-/proc} # Tests name another folder.

for name in status_listener stats_listener get_listener provider_agent; do
    # Anchored, since the command of grep itself is among them.
    grep -aqs "^octavia-driver-agent - $name" "$processes"/[0-9]*/cmdline || {
        echo "octavia-driver-agent: its process $name does not run"
        exit 1
    }
done
