"""The process: who leads, which resources are looked at and when, metrics, and probes."""
