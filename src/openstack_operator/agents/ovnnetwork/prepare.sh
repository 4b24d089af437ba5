#!/bin/sh
# Runs the command PREPARE of an image that does not describe its node itself, then becomes the program of the
# arguments. It is no init container, since it talks to a database that starts beside the program.
eval "$PREPARE"
exec "$@"
