#!/bin/sh
# Starts the exporter of metrics: the arguments are its command. It connects to the server of its pod as METRICS_USER.
# Its own files are in RUN_FOLDER.
printf '[client]\nuser=%s\nsocket=/run/mysqld/mysqld.sock\n' "$METRICS_USER" > "$RUN_FOLDER/my.cnf"
exec "$@" --config.my-cnf="$RUN_FOLDER/my.cnf"
