"""Everything that can go wrong with a cloud, done to a real one under load, and what it cost."""
