#!/bin/sh
# Starts a server of MariaDB with the certificate in TLS_FOLDER; the arguments are its command. It reads a new
# certificate on an order of its root. Needs root_options.sh and reload_on_change.sh.
reload() {
    # LOCAL: the binary log gives each change a number that all members have for it, and this is none of theirs.
    root_options | mariadb --defaults-extra-file=/dev/stdin -e 'FLUSH LOCAL SSL'
}

reload_on_change "$TLS_FOLDER" reload
exec "$@"
