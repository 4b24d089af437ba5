"""Jepsen's list-append workload on databases, and a checker of what clients saw, by Elle's method."""
