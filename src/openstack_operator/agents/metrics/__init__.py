"""Programs that serve metrics of servers that have none of their own."""
