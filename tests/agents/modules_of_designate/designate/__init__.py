"""Stand-ins of Designate's modules: central keeps all it knows in the file $CENTRAL."""
