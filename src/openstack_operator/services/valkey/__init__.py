"""Valkey: a store in memory; sentinels replace its primary when it fails."""
