"""OpenStack Glance: images instances boot from."""
