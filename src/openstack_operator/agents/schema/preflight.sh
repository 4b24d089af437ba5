#!/bin/sh
# Run the command of the arguments, a service's check before an upgrade. It succeeds with 0, and with 1 if there are
# warnings (https://docs.openstack.org/oslo.upgradecheck/latest/user/usage.html). The last lines say what has failed.
{ "$@" 2>&1 && echo 0 > /tmp/status || echo "$?" > /tmp/status; } | tee /tmp/output
[ "$(cat /tmp/status)" -gt 1 ] || exit 0
grep -B 1 -A 3 'Result: Failure' /tmp/output | sed -n 's/^| *\(Check\|Details\): *\(.*[^ ]\) *|$/\2/p'
exit "$(cat /tmp/status)"
