"""Hypervisors that know a cloud by two Secrets alone."""
