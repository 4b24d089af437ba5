"""Passwords, keys and certificates of a service, and their replacement."""
