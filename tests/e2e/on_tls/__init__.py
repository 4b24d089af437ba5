"""Encryption, where it is built: between services and their database and broker."""
