"""Dashboards of Grafana, made from code: `python -m tools.dashboards` writes them to deploy/dashboards."""
