#!/bin/sh
# Run the command of the arguments, which makes or extends a schema. A schema that a newer release has extended has a
# revision that this one does not know: it stays as it is, since each release works with the schema of the next.
folder=${TMPDIR:-/tmp}
{ "$@" 2>&1 && echo 0 > "$folder/status" || echo "$?" > "$folder/status"; } | tee "$folder/output"
[ "$(cat "$folder/status")" = 0 ] && exit 0
# Two texts of Alembic: Neutron asks for all its branches.
newer="(Can't locate revision identified by|No such revision or branch) '[0-9A-Za-z_]{1,40}'"
if grep -Eq "$newer" "$folder/output"; then
    echo "The schema is of a newer release, and this one works with it: nothing is to be done."
    exit 0
fi
exit "$(cat "$folder/status")"
