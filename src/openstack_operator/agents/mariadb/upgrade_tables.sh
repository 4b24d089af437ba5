#!/bin/sh
# Brings the system tables of a single server to its version, in the background, once it takes connections; as long as
# that takes, there is the file UPGRADE_MARK. Ends if the data in DATA_FOLDER are of a later version, which the server
# cannot read. Needs root_options.sh.
major_version() { sed -n 's/^[^0-9]*\([0-9][0-9]*\.[0-9][0-9]*\)\.[0-9].*/\1/p'; }

upgrade_tables() {
    root_options | mariadb-upgrade --defaults-extra-file=/dev/stdin --silent >&2 && rm "$UPGRADE_MARK"
}

# MariaDB notes there to which version it has brought them.
tables=$(cat "$DATA_FOLDER/mariadb_upgrade_info" "$DATA_FOLDER/mysql_upgrade_info" 2> /dev/null | major_version)
tables=${tables%%[!0-9.]*}
server=$(mariadbd --version | major_version)
rm -f "$UPGRADE_MARK"
if [ -d "$DATA_FOLDER/mysql" ] && [ -n "$server" ] && [ "$tables" != "$server" ]; then
    if [ "$(printf '%s\n%s\n' "$tables" "$server" | sort -V | tail -n 1)" != "$server" ]; then
        echo "the data are of MariaDB $tables, which $server cannot read; run $tables again, or restore a backup" >&2
        exit 1
    fi
    touch "$UPGRADE_MARK"
    # It answers as soon as it takes connections, also without an account.
    { until mariadb-admin ping > /dev/null 2>&1 && upgrade_tables; do sleep 1; done; } &
fi
