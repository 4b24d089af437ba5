"""A stand-in of Barbican."""
