"""Scripts of servers and sentinels, which find the primary before they start."""

from __future__ import annotations

from .config import FILES, PORT, STATE, TLS

SENTINEL, TLS_PORT = 26379, 26380
SET = "mymaster"
"""Name of the set of servers that sentinels watch over: clients ask for it unless configured otherwise."""
PASSWORD = "/etc/valkey/secret/password"  # noqa: S105  (a path)

PEER_TLS = {"SERVER_PORT": "6380", "SENTINEL_PORT": str(TLS_PORT), "FLAGS": f"--tls --cacert {TLS}/ca.crt"}
"""Environment of servers and sentinels that speak TLS to each other."""
_SERVER, _SENTINEL = f"${{SERVER_PORT:-{PORT}}}", f"${{SENTINEL_PORT:-{SENTINEL}}}"
_CLI = "valkey-cli ${FLAGS:-} --no-auth-warning"

# The same names again: both read the files again.
RELOAD = f'REDISCLI_AUTH="$(cat {PASSWORD})" {_CLI} -e -p "{_SERVER}" config set ' + " ".join(
    f"{name} {path}" for name, path in FILES.items()
)

_ASK = f"""\
export REDISCLI_AUTH="$(cat {PASSWORD})"
ask() {{ timeout 2 {_CLI} -h "$1" -p "$2" $3 2> /dev/null; }}
# From one sentinel: the epoch of what it knows, and the primary; one that knows none answers with an error.
known() {{
  ask "$1" "{_SENTINEL}" "sentinel primary {SET}" | awk '
    last == "ip" {{ host = $0 }} last == "config-epoch" {{ epoch = $0 }} {{ last = $0 }}
    END {{ if (NR && host != "" && epoch != "") print epoch, host; else if (NR) print "none" }}'
}}
find_primary() {{
  waited=0
  while :; do
    heard=0 knowing=0 all=0 answers=
    for host in $VALKEY_HOSTS; do
      all=$((all + 1))
      answer=$(known "$host")
      [ -n "$answer" ] || continue
      heard=$((heard + 1))
      [ "$answer" = none ] || {{ knowing=$((knowing + 1)); answers="$answers$answer
"; }}
    done
    best=$(printf %s "$answers" | sort -rn | head -n 1 | cut -d' ' -f2)
    if [ "$heard" = "$all" ]; then
      primary=${{best:-${{VALKEY_HOSTS%% *}}}}
      return
    elif [ "$waited" -ge 6 ] && [ $((2 * knowing)) -gt "$all" ] || [ "$waited" -ge 40 ] && [ -n "$best" ]; then
      primary=$best
      return
    fi
    waited=$((waited + 1))
    sleep 0.5
  done
}}
"""
"""Sentinels answer from the moment they start, also when they know nothing. Once all were heard, the newest word holds;
if none knows any, this is the beginning, and the first server is the primary. Some may be gone: after three seconds a
majority will do, after twenty any that knows something, for a primary without copies takes no writes anyway.
"""

START_SINGLE = f'mkdir -p {STATE}/data && exec "$@" /etc/valkey/valkey.conf'
"""Script that starts a server without others."""

START_SERVER = f"""\
{_ASK}
mkdir -p {STATE}/data
empty() {{ ! ls {STATE}/data/appendonlydir/*.aof > /dev/null 2>&1; }}
# Whether any other server has keys: yes, no, or nothing as long as one of them does not answer.
others_hold() {{
  hold=no
  for host in $VALKEY_HOSTS; do
    [ "$host" != "$HOST" ] || continue
    case $(ask "$host" "{_SERVER}" dbsize) in 0) ;; "") hold=${{hold#no}} ;; *) hold=yes ;; esac
  done
  echo "$hold"
}}
find_primary
for _ in $(seq 60); do
  [ "$primary" = "$HOST" ] && empty && [ "$(others_hold)" != no ] || break
  sleep 0.5
  find_primary
done
{{
  echo "include /etc/valkey/valkey.conf"
  echo "replica-announce-ip $HOST"
  [ "$primary" = "$HOST" ] || echo "replicaof $primary {_SERVER}"
}} > /run/valkey.conf
unset REDISCLI_AUTH
exec "$@" /run/valkey.conf
"""
"""Script that starts a server beside others. A primary that came back with an empty disk would have its copies drop all
they hold; so it stays away until the sentinels have made one of them the primary.
"""

START_SENTINEL = f"""\
{_ASK}
umask 077
mkdir -p {STATE}/sentinel
conf={STATE}/sentinel/sentinel.conf
if [ -s "$conf" ]; then
  sed -i -e "s/^\\(sentinel monitor {SET} .*\\) [0-9]* [0-9]*$/\\1 {_SERVER} $VALKEY_QUORUM/" \
    -e "/^sentinel known-replica /{{/ {_SERVER}\\$/!d}}" -e "/^sentinel known-sentinel /{{/ {_SENTINEL} /!d}}" \
    -e '/^port /d' -e '/^tls-/d' "$conf"
else
  cat > "$conf" <<END
dir {STATE}/sentinel
protected-mode no
requirepass $REDISCLI_AUTH
sentinel sentinel-pass $REDISCLI_AUTH
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $HOST
END
fi
printf %s "$SENTINEL_CONF" >> "$conf"
learn() {{
  until [ -n "$(known "$HOST")" ]; do sleep 0.2; done
  while [ "$(known "$HOST")" = none ]; do
    find_primary
    {_CLI} -p "{_SENTINEL}" > /dev/null <<END || sleep 1
sentinel monitor {SET} $primary {_SERVER} $VALKEY_QUORUM
sentinel set {SET} auth-pass $REDISCLI_AUTH
sentinel set {SET} down-after-milliseconds 3000
sentinel set {SET} failover-timeout 6000
sentinel set {SET} parallel-syncs 1
END
  done
}}
learn &
unset REDISCLI_AUTH
[ -d {TLS} ] || exec "$@" "$conf"
told() {{ cat {TLS}/* | sha256sum; }}
trap 'kill $child; wait $child; exit' TERM
while :; do
  known=$(told)
  "$@" "$conf" &
  child=$!
  (while [ "$(told)" = "$known" ]; do sleep 10; done; kill $child) &
  wait $child
  [ "$(told)" != "$known" ] || exit 1
done
"""
"""Script that starts a sentinel. It learns of the primary afterwards, since others must be able to ask what it knows,
if only that it knows nothing. It cannot reload a certificate: the program starts again within its container, with what
it knows on its volume.
"""

_INFO = f'REDISCLI_AUTH="$(cat {PASSWORD})" timeout 4 {_CLI} -p "{_SERVER}" info replication'

READY = f"{_INFO} | grep -q -e '^role:master' -e '^master_link_status:up'"
"""Script that succeeds if a server takes part; a copy without its primary would be out of date."""

STOP = f"""\
{_ASK}
leads() {{ ask 127.0.0.1 "{_SERVER}" "info replication" | grep -q '^role:master'; }}
leads || exit 0
ask 127.0.0.1 "{_SERVER}" "client pause 10000 write" > /dev/null
for host in $VALKEY_HOSTS; do
  [ "$host" = "$HOST" ] || [ "$(ask "$host" "{_SENTINEL}" "sentinel failover {SET}")" != OK ] || break
done
for _ in 1 2 3 4 5 6 7 8 9; do
  case $(known "$host") in *" $HOST") sleep 1 ;; *) exit 0 ;; esac
done
"""
"""Script that hands over before the server stops, so that no sentinel has to notice its end. It takes no more writes
from then on, for a successor that sentinels name does not wait for the last of them."""
