#!/bin/sh
# Hook before the end of a server: a primary hands over first, so that no sentinel has to notice its end. It takes no
# more writes from then on, for a successor that sentinels name does not wait for the last of them. Needs ask.sh.
is_primary() { ask 127.0.0.1 "$SERVER_PORT" info replication | grep -q '^role:master'; }

is_primary || exit 0
ask 127.0.0.1 "$SERVER_PORT" client pause 10000 write > /dev/null
for member in $VALKEY_HOSTS; do
    [ "$member" = "$HOST" ] || [ "$(ask "$member" "$SENTINEL_PORT" sentinel failover "$set_name")" != OK ] || break
done
for _ in 1 2 3 4 5 6 7 8 9; do
    case $(primary_by "$member") in *" $HOST") sleep 1 ;; *) exit 0 ;; esac
done
