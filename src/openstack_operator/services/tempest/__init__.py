"""Tempest: tests of a cloud through its APIs, again and again, and what came of them."""
