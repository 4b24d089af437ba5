"""Turns of workloads whose pods are replaced, and what serves meanwhile."""
