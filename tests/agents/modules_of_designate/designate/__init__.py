"""Stand-ins of Designate's modules: central keeps keys in the file $KEYS."""
