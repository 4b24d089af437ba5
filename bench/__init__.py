"""How fast the engine is, how little it writes, how small it stays: measured against goals."""
