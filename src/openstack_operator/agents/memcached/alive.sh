#!/bin/bash
# Probe: succeeds if Memcached takes connections in plain text at the port of the argument, which may be open to its own
# pod alone. A TLS server logs a connection without a handshake as an error.
exec 3<> "/dev/tcp/127.0.0.1/$1"
