#!/bin/sh
# Stores a node's certificate: copies the files of SOURCE to TARGET, for root alone, and replaces the old ones at last.
# The key comes last, and programs wait for it. Open vSwitch compares the time of the key, then that of the certificate,
# and reads both if both are new: if the key came first, it could miss a new pair (lib/stream-ssl.c).
umask 077
for file in ca.crt tls.crt tls.key; do cp "$SOURCE/$file" "$TARGET/.$file"; done
for file in ca.crt tls.crt tls.key; do mv -f "$TARGET/.$file" "$TARGET/$file"; done
