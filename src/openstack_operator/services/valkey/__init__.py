"""Valkey: a store in memory, whose primary sentinels replace when it is gone."""
