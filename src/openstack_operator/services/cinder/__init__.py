"""OpenStack Cinder: volumes, their snapshots and backups."""
