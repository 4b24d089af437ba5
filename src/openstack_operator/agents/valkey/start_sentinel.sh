#!/bin/sh
# Starts a sentinel, which stores what it learns in STATE_FOLDER/sentinel. SENTINEL_CONF has lines that it must not
# change, VALKEY_QUORUM is how many have to agree, and the arguments are its command. It cannot read new files of
# TLS_FOLDER while it runs: the command starts again within its container. Needs reload_on_change.sh and ask.sh.
umask 077
conf=$STATE_FOLDER/sentinel/sentinel.conf

write_conf() {
    if [ -s "$conf" ]; then
        # Ports change when members begin to speak TLS. It learns of the others by the new ones again.
        sed -i -e "s/^\(sentinel monitor $set_name .*\) [0-9]* [0-9]*\$/\1 $SERVER_PORT $VALKEY_QUORUM/" \
            -e "/^sentinel known-replica /{/ $SERVER_PORT\$/!d}" \
            -e "/^sentinel known-sentinel /{/ $SENTINEL_PORT /!d}" \
            -e '/^port /d' -e '/^tls-/d' "$conf"
    else
        cat > "$conf" << END
dir $STATE_FOLDER/sentinel
protected-mode no
requirepass $REDISCLI_AUTH
sentinel sentinel-pass $REDISCLI_AUTH
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $HOST
END
    fi
    printf %s "$SENTINEL_CONF" >> "$conf"
}

# It learns of the primary after its start, since others must be able to ask what it knows, if only that it is nothing.
learn() {
    until [ -n "$(primary_by "$HOST")" ]; do sleep 0.2; done
    while [ "$(primary_by "$HOST")" = none ]; do
        find_primary
        # shellcheck disable=SC2086  # FLAGS are several words, or none.
        valkey-cli ${FLAGS:-} --no-auth-warning -p "$SENTINEL_PORT" > /dev/null << END || sleep 1
sentinel monitor $set_name $primary $SERVER_PORT $VALKEY_QUORUM
sentinel set $set_name auth-pass $REDISCLI_AUTH
sentinel set $set_name down-after-milliseconds 3000
sentinel set $set_name failover-timeout 6000
sentinel set $set_name parallel-syncs 1
END
    done
}

mkdir -p "$STATE_FOLDER/sentinel"
write_conf
learn &
unset REDISCLI_AUTH
[ -n "${TLS_FOLDER:-}" ] || exec "$@" "$conf"
trap 'kill "$sentinel"; wait "$sentinel"; exit' TERM
while :; do
    digest=$(digest_files "$TLS_FOLDER")
    "$@" "$conf" &
    sentinel=$!
    (
        while [ "$(digest_files "$TLS_FOLDER")" = "$digest" ]; do sleep 10; done
        kill "$sentinel"
    ) &
    wait "$sentinel"
    [ "$(digest_files "$TLS_FOLDER")" != "$digest" ] || exit 1
done
