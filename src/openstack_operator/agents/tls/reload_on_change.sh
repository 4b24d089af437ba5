#!/bin/sh
# reload_on_change FOLDER COMMAND...: runs the command whenever the files of the folder, a certificate's, have changed
# since this call, and repeats it until it succeeds. It does not return: start it in the background, before the program
# that is to have the new files. A kubelet takes up to two minutes to update them, so ten seconds more do not count.
digest_files() { cat "$1"/* | sha256sum; }

reload_on_change() {
    folder=$1
    shift
    old_digest=$(digest_files "$folder")
    while sleep 10; do
        digest=$(digest_files "$folder")
        [ "$digest" != "$old_digest" ] || continue
        if "$@" > /dev/null; then old_digest=$digest; fi
    done
}
