"""Programs in the pods of a Barbican."""
