#!/bin/sh
# Starts a server without others, with the configuration CONF_FILE and its data in STATE_FOLDER/data; the arguments are
# its command.
mkdir -p "$STATE_FOLDER/data" && exec "$@" "$CONF_FILE"
