"""Programs in the pods of a dashboard."""
