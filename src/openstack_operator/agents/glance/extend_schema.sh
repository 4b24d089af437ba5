#!/bin/sh
# Extend Glance's schema for a newer release, beside which the old one works. The arguments begin its commands for that.
"$@" expand
exec "$@" migrate
