"""Manifests that were written for c5c3, applied one by one with what docs/how-to/seeds.md makes beside them."""
