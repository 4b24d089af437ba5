"""`backup`: list, take, verify and restore backups."""
