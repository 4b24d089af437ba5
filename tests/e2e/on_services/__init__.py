"""A cloud with the services that are off by default, each used as its users do."""
