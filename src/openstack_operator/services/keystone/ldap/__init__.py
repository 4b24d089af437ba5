"""Domains whose users are in a directory."""
