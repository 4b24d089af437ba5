#!/bin/sh
# Gives libvirt new certificates of CERTIFICATES_FOLDER/migration: it reads them once, and again on request; QEMU reads
# its own for each migration. Nodes come and go, and a year ends. Needs follow.sh.
reload_migration() { qemu-certificates && virt-admin -c libvirtd:///system server-update-tls libvirtd; }

follow "$CERTIFICATES_FOLDER/migration" reload_migration
