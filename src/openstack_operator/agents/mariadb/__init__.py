"""Program of a member of a Galera cluster. `galera` has the rules and does no I/O: plans judge members by it."""
