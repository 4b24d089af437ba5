"""Rules of what a resource may name, take and send: nodes, names on servers, Secrets, pods."""
