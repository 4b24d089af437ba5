#!/bin/sh
# Extend Keystone's schema for a newer release, beside which the old one works.
keystone-manage db_sync --expand
exec keystone-manage db_sync --migrate
