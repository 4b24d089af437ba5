"""Dashboards of Grafana, made from code: `python -m dashboards` writes them to deploy/dashboards."""
