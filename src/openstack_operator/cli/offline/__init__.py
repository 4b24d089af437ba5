"""Checks and plans of manifests without a cluster, as the API server and the operator would make them."""
