#!/bin/sh
# reload_on_change FOLDER COMMAND...: runs the command, in the background, whenever the files of the folder have changed
# since this call, and repeats it until it succeeds. A kubelet takes up to two minutes to show a changed Secret: ten
# seconds more do not count.
digest_files() { cat "$1"/* | sha256sum; }

reload_on_change() {
    folder=$1 old_digest=$(digest_files "$1")
    shift
    while sleep 10; do
        digest=$(digest_files "$folder")
        [ "$digest" != "$old_digest" ] || continue
        if "$@" > /dev/null; then old_digest=$digest; fi
    done &
}
