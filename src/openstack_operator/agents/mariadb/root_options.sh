#!/bin/sh
# Prints the options by which a client of MariaDB logs in as root, with the password in MARIADB_ROOT_PASSWORD_FILE. They
# reach the client by its standard input: other users can read command lines and environments. Without the quotes, a #
# would end the password.
root_options() {
    printf '[client]\nuser=root\npassword="%s"\n' "$(sed 's/[\\"]/\\&/g' "$MARIADB_ROOT_PASSWORD_FILE")"
}
