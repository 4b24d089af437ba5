#!/bin/sh
# Replaces names in OVN's connections by full ones, then becomes the program of the arguments. The library by which
# Open vSwitch looks up names knows no search domains, so that it does not find `ovn-nb.ovn-system`.
full_names() {
	result=
	old_ifs=$IFS
	IFS=,
	for connection in $1; do
		scheme=${connection%%:*}
		port=${connection##*:}
		host=${connection#*:}
		host=${host%:*}
		# The first line has the name that the resolver completed.
		full=$(getent ahosts "$host" | { IFS=' ' read -r _ _ name && echo "$name"; }) || full=
		result="$result${result:+,}$scheme:${full:-$host}:$port"
	done
	IFS=$old_ifs
	echo "$result"
}
OS_OVN__OVN_NB_CONNECTION=$(full_names "$OS_OVN__OVN_NB_CONNECTION")
OS_OVN__OVN_SB_CONNECTION=$(full_names "$OS_OVN__OVN_SB_CONNECTION")
export OS_OVN__OVN_NB_CONNECTION OS_OVN__OVN_SB_CONNECTION
exec "$@"
