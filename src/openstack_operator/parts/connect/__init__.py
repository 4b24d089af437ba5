"""Connections of a service to what it uses: servers, accounts on them, clients of storage and networks."""
