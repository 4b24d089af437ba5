#!/bin/sh
# Keeps the account BACKUP_USER, by which backups read the server, in the background: with the password in
# BACKUP_PASSWORD_FILE, with BACKUP_TLS (SSL or NONE), and with no right to data but to those of BACKUP_SCHEMA. Members
# of a cluster replicate it, so that the primary alone makes it: others may have an earlier password. Passwords reach
# the client by its input: other users can read command lines and environments. Statements that are logged have a hash.
# Needs root_options.sh.
backup_client() {
    mariadb --defaults-extra-file=/dev/fd/3 --batch --skip-column-names 3<<OPTIONS
$(root_options)
OPTIONS
}

keep_backup_account() {
    [ -z "${GALERA_ROLE:-}" ] || [ "$(cat "$GALERA_ROLE/role")" = primary ] || return
    password=$(sed "s/\\\\/\\\\\\\\/g; s/'/\\\\'/g" "$BACKUP_PASSWORD_FILE")
    state=$(backup_client <<SQL
SELECT PASSWORD('$password');
SELECT JSON_VALUE(Priv, '\$.authentication_string'), IF(COALESCE(JSON_VALUE(Priv, '\$.ssl_type'), 0) = 0, 'NONE', 'SSL')
FROM mysql.global_priv WHERE User = '$BACKUP_USER' AND Host = '%';
SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES
WHERE GRANTEE = '''$BACKUP_USER''@''%''' ORDER BY PRIVILEGE_TYPE;
SELECT TABLE_SCHEMA, PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES
WHERE GRANTEE = '''$BACKUP_USER''@''%''' ORDER BY TABLE_SCHEMA, PRIVILEGE_TYPE;
SQL
    )
    hash=$(printf '%s' "$state" | head -n 1)
    case $hash in '*'*) ;; *) return ;; esac
    [ "$(printf '%s' "$state" | tr '\t' ' ')" = "$hash
$hash $BACKUP_TLS
BINLOG MONITOR
PROCESS
RELOAD
REPLICATION SLAVE
$BACKUP_SCHEMA CREATE
$BACKUP_SCHEMA DELETE
$BACKUP_SCHEMA INSERT
$BACKUP_SCHEMA SELECT" ] || backup_client <<SQL
CREATE USER IF NOT EXISTS '$BACKUP_USER'@'%' IDENTIFIED BY PASSWORD '$hash' REQUIRE $BACKUP_TLS;
ALTER USER '$BACKUP_USER'@'%' IDENTIFIED BY PASSWORD '$hash' REQUIRE $BACKUP_TLS;
REVOKE ALL PRIVILEGES, GRANT OPTION FROM '$BACKUP_USER'@'%';
GRANT RELOAD, PROCESS, BINLOG MONITOR, REPLICATION SLAVE ON *.* TO '$BACKUP_USER'@'%';
GRANT CREATE, SELECT, INSERT, DELETE ON \`$BACKUP_SCHEMA\`.* TO '$BACKUP_USER'@'%';
SQL
}

# It ends with the server, whose process this shell becomes. Kubernetes takes two dollar signs for one.
server=$(exec sh -c 'echo "$PPID"')
while kill -0 "$server"; do keep_backup_account; sleep 15; done > /dev/null 2>&1 &
