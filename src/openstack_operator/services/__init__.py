"""One folder a service: a model, a configuration, a plan."""
