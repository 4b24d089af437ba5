"""Operators of others, built from their modules and installed from their own manifests."""
