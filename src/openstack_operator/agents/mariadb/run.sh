#!/bin/sh
# Becomes the server: the arguments are its command.
exec "$@"
