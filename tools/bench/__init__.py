"""Speed, writes and memory of the engine, measured against goals."""
