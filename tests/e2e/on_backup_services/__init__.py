"""A cloud with the services that are off by default, which is backed up and made again."""
