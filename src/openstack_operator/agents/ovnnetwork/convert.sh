#!/bin/sh
# Brings databases to the schemas of this version of OVN: pairs of a schema (OVN_Northbound) and the addresses of its
# members. OPTIONS are those of a client of the databases. Only the leader converts, and only while it needs to.
while [ "$#" -gt 0 ]; do
    case $1 in OVN_Northbound) file=ovn-nb.ovsschema ;; *) file=ovn-sb.ovsschema ;; esac
    file=${SCHEMAS:-/usr/share/ovn}/$file
    # shellcheck disable=SC2086  # options are words
    needed=$(ovsdb-client --timeout=60 $OPTIONS needs-conversion "$2" "$file")
    if [ "$needed" = yes ]; then
        echo "$1: to the schema of $(ovsdb-tool schema-version "$file")"
        # shellcheck disable=SC2086
        ovsdb-client --timeout=600 $OPTIONS convert "$2" "$file"
    fi
    shift 2
done
