#!/bin/sh
# Probe: succeeds if the server at SERVER_PORT takes part. A replica without its primary would be out of date.
REDISCLI_AUTH=$(cat "$PASSWORD_FILE")
export REDISCLI_AUTH
# shellcheck disable=SC2086  # FLAGS are several words, or none.
timeout 4 valkey-cli ${FLAGS:-} --no-auth-warning -p "$SERVER_PORT" info replication |
    grep -q -e '^role:master' -e '^master_link_status:up'
