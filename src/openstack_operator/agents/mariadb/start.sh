#!/bin/sh
# Starts a server of MariaDB with the certificate in TLS_FOLDER; the arguments are its command. It reads a new
# certificate on an order of its root. The password in MARIADB_ROOT_PASSWORD_FILE reaches the client by its standard
# input: other users can read command lines and environments. Needs reload_on_change.sh.
reload() {
    printf '[client]\nuser=root\npassword=%s\n' "$(cat "$MARIADB_ROOT_PASSWORD_FILE")" |
        mariadb --defaults-extra-file=/dev/stdin -e 'FLUSH SSL'
}

reload_on_change "$TLS_FOLDER" reload
exec "$@"
