#!/bin/sh
# Functions for a member of a clustered database of OVN. Arguments: the database's short name and its schema.
# OVN_ADDRESS is the member's host name, RECORD_FOLDER has the list of members, STATE_FOLDER the database. Raft lets
# only members change their cluster's list, so the members' own probe and hook do it.
control=/run/ovn/ovn$1_db.ctl file=$STATE_FOLDER/ovn$1_db.db schema=$2
shift 2

ask() {
    command=$1
    shift
    ovs-appctl --timeout=3 -t "$control" "cluster/$command" "$schema" "$@"
}

is_listed() {
    case ",$(cat "$RECORD_FOLDER/members")," in *",$OVN_ADDRESS,"*) ;; *) return 1 ;; esac
}

# leave STATUS: leaves a cluster of exactly the listed members and this one. A server that was taken away and still
# counts would make the rest a minority; the leader removes it first.
leave() {
    servers=$(echo "$1" | sed -nE 's/.* at (tcp|ssl):([^:]+):.*/\2/p' | sort)
    [ "$servers" = "$(echo "$(cat "$RECORD_FOLDER/members"),$OVN_ADDRESS" | tr , '\n' | grep . | sort)" ] && ask leave
}

# has_left ANSWER: succeeds if the server has left, which it shows by not knowing its cluster. Its file is no member's
# any more, and goes out of the way: a member that gets the volume later joins as a new one.
has_left() {
    is_listed && return 1
    case $1 in *"unknown cluster"*) [ ! -e "$file" ] || mv "$file" "$file.left" ;; *) return 1 ;; esac
}

# stale_servers STATUS: prints, from a leader's status, the servers that will not come back: one of two at an address
# where a member came back with an empty disk, and one that was removed before it could leave. A member that is only
# away is none of them.
stale_servers() {
    echo "$1" | awk -v members="$(cat "$RECORD_FOLDER/members")" '
        $3 == "at" {
            split($4, at, ":")
            host[$1] = at[2]
            silent[$1] = ($5 == "(self)") ? 0 : -1
            for (i = 5; i < NF; i++) if ($i == "msg") silent[$1] = $(i + 1)
        }
        END {
            for (a in host) {
                twin = 0
                for (b in host) if (b != a && host[b] == host[a] && silent[b] >= 0 && silent[b] < 5000) twin = 1
                removed = index("," members ",", "," host[a] ",") == 0
                if ((twin && (silent[a] < 0 || silent[a] > 15000)) || (removed && silent[a] > 300000)) print a
            }
        }'
}
