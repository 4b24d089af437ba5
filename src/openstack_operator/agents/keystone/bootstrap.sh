#!/bin/sh
# Make Keystone's schema, and what OS_BOOTSTRAP_USERNAME, _PASSWORD, _PROJECT_NAME, _SERVICE_NAME and _REGION_ID name.
# One program, since two jobs would start Python twice; it changes nothing that exists but the password. It sets no
# address of Keystone, which may change: that is in the catalog's entry.
keystone-manage db_sync
exec keystone-manage bootstrap
