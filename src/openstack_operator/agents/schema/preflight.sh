#!/bin/sh
# Run the command of the arguments, a service's check before an upgrade. It succeeds with 0, and with 1 if there are
# warnings (https://docs.openstack.org/oslo.upgradecheck/latest/user/usage.html). A check that could not run ends with
# 1, too, but prints no results. The last lines say what has failed.
folder=${TMPDIR:-/tmp}
{ "$@" 2>&1 && echo 0 > "$folder/status" || echo "$?" > "$folder/status"; } | tee "$folder/output"
status=$(cat "$folder/status")
[ "$status" = 0 ] && exit 0
[ "$status" = 1 ] && grep -q 'Upgrade Check Results' "$folder/output" && exit 0
grep -B 1 -A 3 'Result: Failure' "$folder/output" | sed -n 's/^| *\(Check\|Details\): *\(.*[^ ]\) *|$/\2/p'
exit "$status"
