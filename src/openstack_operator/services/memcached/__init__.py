"""Memcached: where services remember tokens for a while."""
