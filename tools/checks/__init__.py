"""Checks of names and prose, and findings of external tools about the manifests that this operator makes."""
