"""Tempest: repeated tests of a cloud through its APIs, and their results."""
