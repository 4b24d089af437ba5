"""Programs of a service: their pods, jobs, configuration and metrics."""
