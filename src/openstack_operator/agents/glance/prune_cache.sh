#!/bin/sh
# Keep the cache of images to its size, every five minutes. A run that fails is repeated with the next one.
# As the pod's first process, the shell ignores the signal to stop unless it traps it.
trap 'exit 0' TERM
while sleep 300 & wait $!; do
    glance-cache-pruner
    glance-cache-cleaner
done
