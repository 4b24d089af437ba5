#!/bin/sh
# Starts a member of a cluster; the arguments are its command. RABBITMQ_NODENAME is its node, RABBITMQ_MEMBERS has the
# hosts of all, EPMD_PORT, DISTRIBUTION_PORT and CLIENT_PORT are the ports of each. STATE_FOLDER has its data,
# SECRET_FOLDER the cookie. POD_NAME begins alone if ORDERED_MEMBER names it, once for each ORDER. Needs listens.sh.
data=$STATE_FOLDER/mnesia/$RABBITMQ_NODENAME
proc=${PROC:-/proc} # Tests name another folder.
# Checks in a row, five seconds apart, after which a member counts as stuck. A start takes some ten seconds if all
# others run, and fifty on a machine that starts everything else as well.
stuck_after=18

# A member that a user orders to do so begins with what it has, once an order.
follow_order() {
    order_file=$STATE_FOLDER/order
    [ "${ORDERED_MEMBER:-}" = "$POD_NAME" ] && [ -e "$data/schema.DAT" ] || return 0
    [ "$(cat "$order_file" 2> /dev/null)" != "$ORDER" ] || return 0
    touch "$data/force_load"
    echo "$ORDER" > "$order_file"
}

# await_cluster: sets $started to the hosts of members that have started. Left to RabbitMQ, members without data form a
# new cluster and shut out one with data that comes later. So the first one alone begins, once it has seen that each
# other one runs (its epmd listens) without data (nothing else listens, for three seconds: one with data starts at
# once). The others wait until one has started.
await_cluster() {
    quiet_rounds=0
    while :; do
        started='' absent=''
        for host in $RABBITMQ_MEMBERS; do
            [ "rabbit@$host" != "$RABBITMQ_NODENAME" ] || continue
            listens "$host" "$EPMD_PORT" || absent=yes
            ! listens "$host" "$DISTRIBUTION_PORT" || started="$started $host"
        done
        [ -z "$started" ] || return 0
        if [ "rabbit@${RABBITMQ_MEMBERS%% *}" = "$RABBITMQ_NODENAME" ] && [ -z "$absent" ]; then
            quiet_rounds=$((quiet_rounds + 1))
            [ "$quiet_rounds" -lt 3 ] || return 0
        else
            quiet_rounds=0
        fi
        sleep 1
    done
}

# Members refuse one without data that they remember, so it has one of them forget it.
join() {
    cookie=$STATE_FOLDER/.erlang.cookie
    rm -f "$cookie"
    (
        umask 077
        cat "$SECRET_FOLDER/erlang-cookie" > "$cookie"
    )
    epmd -daemon
    await_cluster
    for host in $started; do
        ! timeout 20 rabbitmqctl -n "rabbit@$host" forget_cluster_node "$RABBITMQ_NODENAME" || break
    done
}

# Ends a member that is stuck. Members that lose each other in the midst of a start, since none of them got any CPU or
# since the network was gone, wait for each other without end when they meet again (Mnesia:
# running_partitioned_network), and a new start of one does not always help. So a member ends if all others run (they
# listen), and it does not serve clients, and uses less than a tenth of a CPU, which a member that reads much data does
# not. One that waits for an absent member goes on waiting.
watch() {
    stuck_rounds=0 ticks=0
    while sleep 5; do
        kill -0 "$pid" 2> /dev/null && ! listens "${RABBITMQ_NODENAME#*@}" "$CLIENT_PORT" || return 0
        old_ticks=$ticks ticks=0 server=''
        for process in "$proc"/[0-9]*; do
            read -r name 2> /dev/null < "$process/comm" || continue
            [ "$name" = beam.smp ] || continue
            read -r _ _ _ _ _ session _ _ _ _ _ _ _ user system _ 2> /dev/null < "$process/stat" || continue
            [ "$session" = "$own_session" ] || continue
            server=${process##*/} ticks=$((user + system))
        done
        stuck_rounds=$((stuck_rounds + 1))
        # 50 hundredths of a second in five.
        [ -n "$server" ] && [ "$((ticks - old_ticks))" -lt 50 ] || stuck_rounds=0
        for host in $RABBITMQ_MEMBERS; do
            listens "$host" "$DISTRIBUTION_PORT" || stuck_rounds=0
        done
        [ "$stuck_rounds" -ge "$stuck_after" ] || continue
        seconds=$((stuck_after * 5))
        echo "member: all members are there, and this one neither started nor worked for $seconds s: starts again" >&2
        kill -KILL "$server"
        return 0
    done
}

follow_order
[ -e "$data/schema.DAT" ] || join
# Not two dollar signs, of which kubelet makes one in a command.
read -r pid _ _ _ _ own_session _ < "$proc/self/stat"
watch &
exec "$@"
