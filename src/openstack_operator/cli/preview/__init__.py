"""Foresight of a change: the operator's own passes over a cluster that checks each write and stores none."""
