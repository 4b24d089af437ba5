#!/bin/sh
# Closes SECRETS_FOLDER, which is new and open to every user, before libvirt writes passphrases of volumes there.
chmod 700 "$SECRETS_FOLDER"
