"""A new cloud of each release but the default one."""
