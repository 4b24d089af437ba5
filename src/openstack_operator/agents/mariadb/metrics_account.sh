#!/bin/sh
# Makes the account of the exporter, in the background, once the server takes writes. The server knows it by the user of
# the exporter's process, METRICS_USER, at the end of the socket that both see: there is no password. Needs
# root_options.sh.
metrics_account() {
    root_options | mariadb --defaults-extra-file=/dev/stdin "$@" 2> /dev/null
}

make_metrics_account() {
    is_there=$(metrics_account -Ne "SELECT COUNT(*) FROM mysql.user
        WHERE User = '$METRICS_USER' AND Host = 'localhost'") || return
    # Members of a cluster replicate it.
    [ "$is_there" = 0 ] || return 0
    metrics_account -e "CREATE USER IF NOT EXISTS '$METRICS_USER'@localhost IDENTIFIED VIA unix_socket
            WITH MAX_USER_CONNECTIONS 3;
        GRANT PROCESS, BINLOG MONITOR, SLAVE MONITOR ON *.* TO '$METRICS_USER'@localhost;"
}

until make_metrics_account; do sleep 5; done &
