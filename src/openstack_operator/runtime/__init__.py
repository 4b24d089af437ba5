"""The engine: keeps what a Kubernetes API holds equal to what plans say."""
