#!/bin/sh
# Starts the exporter of metrics: the arguments are its command. It connects to the server of its pod as METRICS_USER,
# and serves by TLS if there is a TLS_FOLDER with a certificate, which it reads again for each connection. Its own
# files are in RUN_FOLDER.
printf '[client]\nuser=%s\nsocket=/run/mysqld/mysqld.sock\n' "$METRICS_USER" > "$RUN_FOLDER/my.cnf"
set -- "$@" --config.my-cnf="$RUN_FOLDER/my.cnf"
if [ -n "${TLS_FOLDER:-}" ]; then
    printf 'tls_server_config: {cert_file: %s/tls.crt, key_file: %s/tls.key}\n' "$TLS_FOLDER" "$TLS_FOLDER" \
        > "$RUN_FOLDER/web.yml"
    set -- "$@" --web.config.file="$RUN_FOLDER/web.yml"
fi
exec "$@"
