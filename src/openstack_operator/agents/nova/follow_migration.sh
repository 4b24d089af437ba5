#!/bin/sh
# Gives libvirt new certificates of CERTIFICATES_FOLDER/migration: it reads them once, and again on request; QEMU reads
# its own for each migration. Nodes come and go, and a year ends. Needs reload_on_change.sh.
reload_migration() { qemu-certificates && virt-admin -c libvirtd:///system server-update-tls libvirtd; }

reload_on_change "$CERTIFICATES_FOLDER/migration" reload_migration
