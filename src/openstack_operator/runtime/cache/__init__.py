"""The cluster in memory: objects that watches keep up to date, and what passes learned of them."""
