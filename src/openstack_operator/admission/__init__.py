"""Admission policies that limit the operator and those who make clouds, and whether a cluster has them."""
