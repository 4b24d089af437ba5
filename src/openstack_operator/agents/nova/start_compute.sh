#!/bin/sh
# Becomes the program of the arguments, with the addresses of this node. Needs own_addresses.sh.
exec "$@"
