"""A cloud that moves from one cluster of Kubernetes to another."""
