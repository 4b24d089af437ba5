#!/bin/sh
# Loads the schema of PowerDNS, and the key of transfers, into the database of /etc/pdns/my.cnf. A schema that is there
# stays as it is; one that an attempt left incomplete is completed. The addresses of a zone's primaries have 128
# characters there, enough for six pods of mini DNS; 700 are what a row has room for.
folder=/etc/pdns schema=/usr/share/pdns-backend-mysql/schema/schema.mysql.sql
tables=$(sed -e 's/^CREATE TABLE /&IF NOT EXISTS /' -e 's/^CREATE \(UNIQUE \)\{0,1\}INDEX /&IF NOT EXISTS /' "$schema")
{
    printf '%s\n' "$tables" "ALTER TABLE domains MODIFY master VARCHAR(700) DEFAULT NULL;"
    cat "$folder/transfer.sql"
} | mariadb --defaults-file="$folder/my.cnf" --skip-print-query-on-error
echo "the schema is complete, and has the key of transfers"
