"""What the API server and the operator would say of manifests, worked out without either."""
