#!/bin/sh
# Gives libvirt the keys of Ceph of KEYS_FOLDER. They are in SECRETS_FOLDER before libvirt starts, since it starts
# guests as soon as it answers. A key that changes or comes later goes to the libvirt that runs; from a file, since
# others may read a command line. Needs reload_on_change.sh.
define_keys() {
    status=0
    for xml in "$KEYS_FOLDER"/*.xml; do
        uuid=$(basename "$xml" .xml)
        virsh -q -c qemu:///system secret-define "$xml" &&
            virsh -q -c qemu:///system secret-set-value "$uuid" --file "${xml%.xml}.base64" || status=1
    done
    return "$status"
}

reload_on_change "$KEYS_FOLDER" define_keys
chmod 700 "$SECRETS_FOLDER" && cp "$KEYS_FOLDER"/*.xml "$KEYS_FOLDER"/*.base64 "$SECRETS_FOLDER/" &&
    chmod 600 "$SECRETS_FOLDER"/*
