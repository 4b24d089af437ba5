#!/bin/sh
# Gives guests new certificates of CERTIFICATES_FOLDER/consoles: QEMU reads its own once, and again on request; one that
# started without any has nothing to read. Guests also get those that came while no libvirt ran.
# Needs reload_on_change.sh.
reload_guests() {
    guests=$(virsh -q -c qemu:///system list --uuid) || return
    for guest in $guests; do virsh -q -c qemu:///system domdisplay-reload "$guest" 2> /dev/null || :; done
}
reload_consoles() { qemu-certificates && reload_guests; }

(until reload_guests > /dev/null 2>&1; do sleep 10; done) &
reload_on_change "$CERTIFICATES_FOLDER/consoles" reload_consoles
