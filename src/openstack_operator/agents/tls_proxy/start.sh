#!/bin/sh
# Starts haproxy with the configuration CONFIG, which it writes to RUN_FOLDER; the arguments are its command. While it
# runs, this program gives it new files of TLS_FOLDER: the certificate, and with VERIFIES_PEERS the authorities, too.
# Needs reload_on_change.sh.
tell() { socat -t 5 - "UNIX-CONNECT:$RUN_FOLDER/admin"; }

# replace KIND FILE PEM: haproxy refuses a certificate that does not fit its key, as while one of the two is new; the
# caller tries again.
replace() {
    printf 'set ssl %s %s <<\n%s\n\n' "$@" | tell | grep -q 'ransaction'
    echo "commit ssl $1 $2" | tell | grep -q 'Success'
}

# A line break alone would end what is sent.
join_files() { cat "$@" | grep -v '^$'; }

# haproxy 3.0 applies new authorities with the next certificate, so that one is loaded last. Both are repeated if one of
# them fails, and each is loaded even if the other one fails.
reload() {
    status=0
    if [ -n "${VERIFIES_PEERS:-}" ]; then
        replace ca-file "$TLS_FOLDER/ca.crt" "$(join_files "$TLS_FOLDER/ca.crt")" || status=1
    fi
    replace cert "$TLS_FOLDER/tls.crt" "$(join_files "$TLS_FOLDER/tls.crt" "$TLS_FOLDER/tls.key")" || status=1
    return "$status"
}

printf '%s' "$CONFIG" > "$RUN_FOLDER/haproxy.cfg"
reload_on_change "$TLS_FOLDER" reload
exec "$@" -f "$RUN_FOLDER/haproxy.cfg"
