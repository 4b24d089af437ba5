#!/bin/sh
# Starts a server of MariaDB with the certificate in TLS_FOLDER; the arguments are its command. It reads a new
# certificate on an order of its root. The password in MARIADB_ROOT_PASSWORD_FILE reaches the client by its standard
# input: other users can read command lines and environments. Needs reload_on_change.sh.
reload() {
    # LOCAL: the binary log gives each change a number that all members have for it, and this is none of theirs.
    printf '[client]\nuser=root\npassword=%s\n' "$(cat "$MARIADB_ROOT_PASSWORD_FILE")" |
        mariadb --defaults-extra-file=/dev/stdin -e 'FLUSH LOCAL SSL'
}

reload_on_change "$TLS_FOLDER" reload
exec "$@"
