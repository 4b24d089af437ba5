#!/bin/sh
# Starts a server beside others, as the primary or as its replica, with what it writes to MEMBER_CONF_FILE; CONF_FILE is
# the configuration of all, STATE_FOLDER/data has the data, and the arguments are its command. A primary that came back
# with an empty disk would have its replicas drop all that they hold, so it waits until sentinels have made one of them
# the primary. Needs ask.sh.
is_empty() { ! ls "$STATE_FOLDER"/data/appendonlydir/*.aof > /dev/null 2>&1; }

# others_are_empty: succeeds if each other server answers that it has no keys.
others_are_empty() {
    for member in $VALKEY_HOSTS; do
        [ "$member" = "$HOST" ] || [ "$(ask "$member" "$SERVER_PORT" dbsize)" = 0 ] || return 1
    done
}

mkdir -p "$STATE_FOLDER/data"
find_primary
for _ in $(seq 60); do
    if [ "$primary" != "$HOST" ] || ! is_empty || others_are_empty; then break; fi
    sleep 0.5
    find_primary
done
{
    echo "include $CONF_FILE"
    echo "replica-announce-ip $HOST"
    [ "$primary" = "$HOST" ] || echo "replicaof $primary $SERVER_PORT"
} > "$MEMBER_CONF_FILE"
unset REDISCLI_AUTH
exec "$@" "$MEMBER_CONF_FILE"
