#!/bin/sh
# Sets the addresses at which this node takes servers and shows consoles: those that it has in MIGRATION_NETWORK and
# CONSOLE_NETWORK (IPv4 address/prefix length), where these are set. Ends if it has none there.
number() {
	old_ifs=$IFS
	IFS=.
	# shellcheck disable=SC2086
	set -- $1
	IFS=$old_ifs
	echo $((($1 << 24) + ($2 << 16) + ($3 << 8) + $4))
}
own_address() {
	host_bits=$((32 - ${1#*/}))
	for address in $(hostname -I); do
		case $address in *:*) continue ;; esac
		if [ $(($(number "$address") >> host_bits)) -eq $(($(number "${1%/*}") >> host_bits)) ]; then
			echo "$address"
			return
		fi
	done
	echo "error: this node has no address in $1; give it one, or change $2" >&2
	return 1
}
if [ -n "${MIGRATION_NETWORK:-}" ]; then
	MIGRATION_ADDRESS=$(own_address "$MIGRATION_NETWORK" compute.migrationNetwork) || exit 1
	OS_LIBVIRT__LIVE_MIGRATION_INBOUND_ADDR=$MIGRATION_ADDRESS
	export MIGRATION_ADDRESS OS_LIBVIRT__LIVE_MIGRATION_INBOUND_ADDR
fi
if [ -n "${CONSOLE_NETWORK:-}" ]; then
	OS_VNC__SERVER_LISTEN=$(own_address "$CONSOLE_NETWORK" compute.consoleNetwork) || exit 1
	OS_VNC__SERVER_PROXYCLIENT_ADDRESS=$OS_VNC__SERVER_LISTEN
	export OS_VNC__SERVER_LISTEN OS_VNC__SERVER_PROXYCLIENT_ADDRESS
fi
