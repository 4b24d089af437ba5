"""Scripts of a cluster's members: before they start, while they start, and before they stop."""

from __future__ import annotations

from .config import AMQP, DISTRIBUTION, EPMD

STUCK = 18
"""Checks in a row, five seconds apart, after which a member counts as stuck. A start takes some ten seconds if all
others run, and fifty on a machine that starts everything else as well."""

_FORCE_LOAD = """\
data=/var/lib/rabbitmq/mnesia/$RABBITMQ_NODENAME
done=/var/lib/rabbitmq/order
if [ "${ORDERED_MEMBER:-}" = "$POD_NAME" ] && [ -e "$data/schema.DAT" ] \\
  && [ "$(cat "$done" 2>/dev/null)" != "$ORDER" ]; then
  touch "$data/force_load"
  echo "$ORDER" > "$done"
fi
"""
"""A member that a user orders to do so begins with what it has, once an order."""

_LISTENS = """\
listens() { timeout 2 bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null; }
"""

_REJOIN = f"""\
if [ ! -e "$data/schema.DAT" ]; then
  cookie=/var/lib/rabbitmq/.erlang.cookie
  rm -f "$cookie"
  (umask 077; cat /etc/rabbitmq/secret/erlang-cookie > "$cookie")
  epmd -daemon
  calm=0
  while :; do
    started= absent=
    for host in $RABBITMQ_MEMBERS; do
      [ "rabbit@$host" != "$RABBITMQ_NODENAME" ] || continue
      listens "$host" {EPMD} || absent=yes
      ! listens "$host" {DISTRIBUTION} || started="$started $host"
    done
    [ -z "$started" ] || break
    if [ "rabbit@${{RABBITMQ_MEMBERS%% *}}" = "$RABBITMQ_NODENAME" ] && [ -z "$absent" ]; then
      calm=$((calm + 1))
      [ "$calm" -lt 3 ] || break
    else
      calm=0
    fi
    sleep 1
  done
  for host in $started; do
    ! timeout 20 rabbitmqctl -n "rabbit@$host" forget_cluster_node "$RABBITMQ_NODENAME" || break
  done
fi
"""
"""Members refuse one without data that they remember, so it makes them forget it. Left to RabbitMQ, members without
data form a new cluster and shut out one with data that comes later; so the first one alone begins, once it has seen
that every other one runs (its epmd listens) without data (nothing else listens, for three seconds: one with data
starts at once). The others wait until one has started.
"""

_WATCH = f"""\
watch() {{
  calm=0 spent=0
  read -r _ _ _ _ _ ours _ < "/proc/$$/stat"
  while sleep 5; do
    kill -0 $$ 2>/dev/null && ! listens "${{RABBITMQ_NODENAME#*@}}" "${{SERVES:-{AMQP}}}" || return 0
    before=$spent spent=0 server=
    for each in /proc/[0-9]*; do
      read -r name 2>/dev/null < "$each/comm" || continue
      [ "$name" = beam.smp ] || continue
      read -r _ _ _ _ _ session _ _ _ _ _ _ _ user system _ 2>/dev/null < "$each/stat" || continue
      [ "$session" = "$ours" ] || continue
      server=${{each#/proc/}} spent=$((user + system))
    done
    calm=$((calm + 1))
    [ -n "$server" ] && [ "$((spent - before))" -lt 50 ] || calm=0
    for host in $RABBITMQ_MEMBERS; do
      listens "$host" {DISTRIBUTION} || calm=0
    done
    [ "$calm" -ge {STUCK} ] || continue
    echo "member: all members are there, and this one neither started nor worked for {STUCK * 5} s: starts again" >&2
    kill -KILL "$server"
    return 0
  done
}}
watch &
"""
"""Members that lose each other in the midst of a start, since none of them got any CPU or since the network was gone,
wait for each other without end when they meet again (Mnesia: running_partitioned_network), and a new start of one does
not always help. So a member ends if all others run (they listen), and it does not serve, and uses less than a tenth of
a CPU, which a member that reads much data does not. One that waits for an absent member goes on waiting.
"""

START = f"""{_FORCE_LOAD}{_LISTENS}{_REJOIN}{_WATCH}exec "$@"
"""
"""The whole script; its arguments are the command that runs in the end."""

DRAIN = f"""{_LISTENS}
for _ in 1 2 3 4 5 6; do
  ! rabbitmq-upgrade --timeout 3 await_online_quorum_plus_one || exit 0
  for host in $RABBITMQ_MEMBERS; do
    listens "$host" {DISTRIBUTION} || exit 0
  done
done
"""
"""Script of a member before it stops: it waits for one that was restarted before and may still be catching up, not for
one that is absent, or stops as well.
"""
