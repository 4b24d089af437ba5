"""Cortex: a scheduler that ranks the hosts which are left for a request of another service."""
