"""Three nodes, and the worst that can happen to them."""
