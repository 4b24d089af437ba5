"""Memcached: a cache in which services remember tokens for a while."""
