#!/bin/sh
# Has the server read new files of TLS_FOLDER, if there is one, while it runs: given the names that it has already, it
# reads all of them again. Needs reload_on_change.sh.
reload() {
    # shellcheck disable=SC2086  # FLAGS are several words, or none.
    REDISCLI_AUTH=$(cat "$PASSWORD_FILE") valkey-cli ${FLAGS:-} --no-auth-warning -e -p "$SERVER_PORT" config set \
        tls-cert-file "$TLS_FOLDER/tls.crt" tls-key-file "$TLS_FOLDER/tls.key" tls-ca-cert-file "$TLS_FOLDER/ca.crt"
}

[ -z "${TLS_FOLDER:-}" ] || reload_on_change "$TLS_FOLDER" reload
