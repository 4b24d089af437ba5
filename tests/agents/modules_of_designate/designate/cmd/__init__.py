"""A stand-in of central."""
