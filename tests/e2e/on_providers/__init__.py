"""Operators of others, and what runs on them, in a cluster of its own."""
