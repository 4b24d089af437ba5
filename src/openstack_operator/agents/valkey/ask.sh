#!/bin/sh
# Functions with which servers and sentinels ask each other. HOST is this member's name, VALKEY_HOSTS has those of all;
# SERVER_PORT and SENTINEL_PORT are the ports of each, FLAGS are options of valkey-cli, PASSWORD_FILE has the password.
set_name=mymaster
REDISCLI_AUTH=$(cat "$PASSWORD_FILE")
export REDISCLI_AUTH

# ask HOST PORT COMMAND...: prints the answer; nothing if there is none in time.
ask() {
    ask_host=$1 ask_port=$2
    shift 2
    # shellcheck disable=SC2086  # FLAGS are several words, or none.
    timeout 2 valkey-cli ${FLAGS:-} --no-auth-warning -h "$ask_host" -p "$ask_port" "$@" 2> /dev/null
}

# primary_by HOST: prints the epoch and the primary that the sentinel of that host names; `none` if it answers with an
# error, since it knows of none.
primary_by() {
    ask "$1" "$SENTINEL_PORT" sentinel primary "$set_name" | awk '
        last == "ip" { host = $0 } last == "config-epoch" { epoch = $0 } { last = $0 }
        END { if (NR && host != "" && epoch != "") print epoch, host; else if (NR) print "none" }'
}

# find_primary: sets $primary. Sentinels answer from the moment they start, also when they know nothing. Once all have
# answered, the newest epoch counts; if none names a primary, this is the beginning, and the first server is it. Some
# may be gone: after three seconds a majority that names one is enough, after twenty any, for a primary without replicas
# takes no writes anyway.
# shellcheck disable=SC2034  # Programs after this one read what it sets.
find_primary() {
    rounds=0
    while :; do
        size=0 answering=0 naming=0 answers=
        for member in $VALKEY_HOSTS; do
            size=$((size + 1))
            answer=$(primary_by "$member")
            [ -n "$answer" ] || continue
            answering=$((answering + 1))
            [ "$answer" = none ] || {
                naming=$((naming + 1))
                answers="$answers$answer
"
            }
        done
        newest=$(printf %s "$answers" | sort -rn | head -n 1 | cut -d' ' -f2)
        if [ "$answering" = "$size" ]; then
            primary=${newest:-${VALKEY_HOSTS%% *}}
            return
        elif [ "$rounds" -ge 6 ] && [ $((2 * naming)) -gt "$size" ] || [ "$rounds" -ge 40 ] && [ -n "$newest" ]; then
            primary=$newest
            return
        fi
        rounds=$((rounds + 1))
        sleep 0.5
    done
}
