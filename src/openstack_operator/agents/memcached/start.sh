#!/bin/sh
# Starts a server of Memcached with the certificate in TLS_FOLDER; the arguments are its command. It reads a new one
# when it is ordered to, in plain text at PLAIN_PORT, which is open to its own pod in any case. The image has no program
# that connects, but Bash does. Needs reload_on_change.sh.
reload() {
    bash -c 'exec 3<> "/dev/tcp/127.0.0.1/$PLAIN_PORT" && printf "refresh_certs\r\n" >&3 &&
        read -rt 5 answer <&3 && [[ $answer == OK* ]]'
}

reload_on_change "$TLS_FOLDER" reload
exec "$@"
