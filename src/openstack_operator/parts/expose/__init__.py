"""Access to a service: its addresses, TLS in front of it, and the network policies of its pods."""
