#!/bin/sh
# listens HOST PORT: succeeds if a program takes connections there. Bash connects without another program.
listens() { timeout 2 bash -c "exec 3<> /dev/tcp/$1/$2" 2> /dev/null; }
